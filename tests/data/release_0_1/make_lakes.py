"""Wrote `lakes.tar.gz` with lakeconf 0.1.0: the lakes of `lakeconf.toml`, and their rows at each snapshot.

Run it in an empty folder with copies of `lakeconf.toml` and `large.sql`. Catalogs keep its path: it names no machine.
PGHOST, PGPORT, PGDATABASE, PGUSER and LAKE_PG_PASSWORD name an empty database; `pg_dump` must be on the PATH.
"""

from __future__ import annotations

import json
import os
import subprocess
import tarfile
from pathlib import Path

import duckdb
import narwhals as nw

import lakeconf
from lakeconf.lake.lake import Lake
from lakeconf.pipelines import declared_pipeline, run

STORES = ("sqlite", "duckdb", "postgres")


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


def adopt(lake: Lake, folder: Path) -> None:
    """A table whose file lakeconf did not write: the catalog has its absolute path."""
    folder.mkdir()
    with duckdb.connect() as connection:
        connection.execute(f"COPY (SELECT i AS id FROM range(5) r(i)) TO '{folder / 'part.parquet'}'")
    lake.adopt(str(folder), "raw.landed")


def write_on_spark(store: lakeconf.Store) -> None:
    """Files that Spark's executors write: of rows, and of deletes."""
    spark = lakeconf.spark_session(store)
    with store.open(spark) as lake:
        rows = spark.sql("SELECT id, CAST(id AS DECIMAL(9,2)) AS price, array(id) AS list FROM range(6)").coalesce(1)
        table = lake.create_table("raw.on_spark", rows)
        table.append(rows, engine="spark")
        table.delete("id = 2", engine="spark")
    spark.stop()


def make_branch(config: lakeconf.Config) -> None:
    """A branch that has written one of its tables, and reads the others from its lake."""
    store = config.get_store("branch")
    store.create_branch()
    with store.open() as lake:
        lake.table("raw.items").append([{"name": "in the branch"}])


def dump_postgres() -> None:
    """The catalog in PostgreSQL, as SQL of any version."""
    command = ["pg_dump", "--no-owner", "--no-privileges", "--inserts", os.environ["PGDATABASE"]]
    environment = os.environ | {"PGPASSWORD": os.environ["LAKE_PG_PASSWORD"]}
    dump = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
    # Newer versions set what older ones do not know, and only `psql` understands lines with a backslash.
    lines = [line for line in dump.splitlines() if not line.startswith(("SET ", "\\", "--")) and line]
    Path("catalog.sql").write_text("\n".join(lines) + "\n")


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
            if name == "duckdb":
                adopt(lake, Path("landed").absolute())
            run(declared_pipeline(config), lake)
        write_on_spark(config.get_store(name))
        with config.get_store(name).open() as lake:
            expected[name] = states(lake)
    config.get_store("sqlite").back_up("backups")
    make_branch(config)
    dump_postgres()
    Path("expected.json").write_text(json.dumps(expected, indent=1))
    with tarfile.open("lakes.tar.gz", "w:gz") as archive:
        for path in (
            "catalog.sqlite",
            "catalog.duckdb",
            "catalog.sql",
            "branch.sqlite",
            "backups",
            "landed",
            "data",
            "expected.json",
        ):
            archive.add(path)
