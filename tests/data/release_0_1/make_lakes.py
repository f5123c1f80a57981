"""Wrote `lakes.tar.gz` with lakeconf 0.1.0: the lakes of `lakeconf.toml`, and their rows at each snapshot."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import narwhals as nw

import lakeconf
from lakeconf.lake.lake import Lake
from lakeconf.pipelines import declared_pipeline, run

STORES = ("sqlite", "duckdb")


def write(lake: Lake) -> None:
    """A commit of each kind, on a table with a partition key, deletes, added, renamed and widened columns."""
    orders = lake.create_table(
        "raw.orders",
        {"id": "INTEGER", "item": "VARCHAR", "price": "DECIMAL(9,2)", "at": "TIMESTAMP"},
        partitioned_by=["year(at)"],
        sorted_by=["id"],
        comment="All orders",
    )
    query = "SELECT i::INTEGER AS id, 'item ' || i AS item, i::DECIMAL(9,2) AS price, '2026-01-01'::TIMESTAMP AS at"
    orders.append(lake.sql(f"{query} FROM range(10) r(i)"), idempotency_key="first")
    orders.delete("id = 3")
    orders.update({"price": nw.col("price") + 1}, "id < 3")
    orders.evolve(
        add={"tags": "STRUCT(vip BOOLEAN, codes INTEGER[])"}, rename={"item": "name"}, promote={"id": "BIGINT"}
    )
    orders.merge(
        lake.sql(
            "SELECT 9::BIGINT AS id, 'changed' AS name, 1::DECIMAL(9,2) AS price, '2027-01-01'::TIMESTAMP AS at,"
            " {'vip': true, 'codes': [1, NULL]} AS tags UNION ALL"
            " SELECT 11, 'new', 2, '2027-06-01'::TIMESTAMP, NULL"
        ),
        on="id",
    )
    with lake.transaction("two tables", author="a@example.com"):
        lake.create_table("raw.items", {"name": "VARCHAR"}).append([{"name": "tea"}, {"name": None}])
        orders.overwrite(
            lake.sql(
                "SELECT 5::BIGINT AS id, 'o' AS name, 7::DECIMAL(9,2) AS price,"
                " '2026-05-01'::TIMESTAMP AS at, NULL::STRUCT(vip BOOLEAN, codes INTEGER[]) AS tags"
            ),
            where="id = 5",
        )
    lake.create_view("raw.cheap", "SELECT id FROM raw.orders WHERE price < 3")


def states(lake: Lake) -> dict[str, dict[str, list[str]]]:
    """The rows of each table at each snapshot, as strings."""
    return {
        str(snapshot.snapshot_id): {
            name: sorted(map(str, at.sql(f"FROM {name}").to_native().fetchall()))
            for at in [lake.at(version=snapshot.snapshot_id)]
            for name in map(str, at.tables())
            if not name.startswith("lakeconf.")
        }
        for snapshot in lake.snapshots()
    }


if __name__ == "__main__":
    config, expected = lakeconf.init(), {}
    for name in STORES:
        with config.get_store(name).open() as lake:
            write(lake)
            run(declared_pipeline(config), lake)
        with config.get_store(name).open() as lake:
            expected[name] = states(lake)
    Path("expected.json").write_text(json.dumps(expected, indent=1))
    with tarfile.open("lakes.tar.gz", "w:gz") as archive:
        for path in ("catalog.sqlite", "catalog.duckdb", "data", "expected.json"):
            archive.add(path)
