"""Lakes in folders whose names Hadoop and DuckDB could interpret as glob patterns."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from local_stores import config_of

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

ODD = "test[0] {b,c} year=20* what? 100% of #1 & 'more'"
ROWS = pa.table(
    {
        "id": pa.array(range(40), pa.int64()),
        "name": [f"n{i}" for i in range(40)],
        "kind": ["ab"[i % 2] for i in range(40)],
    }
)
LATER = ROWS.set_column(0, "id", pa.array(range(200, 240), pa.int64()))
CHANGES = pa.table({"id": pa.array([3, 100], pa.int64()), "name": ["changed", "new"], "kind": ["b", "a"]})


@pytest.mark.parametrize("engine", ["duckdb", "spark"])
def test_lake_in_a_folder_with_special_characters(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    storage = {"type": "local", "path": str(tmp_path / ODD / "data")}
    store = lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev")
    spark: Any = request.getfixturevalue("spark") if engine == "spark" else None
    with store.open(spark) as lake:
        tables = [
            lake.create_table("raw.split", like=ROWS, partitioned_by=["kind"]),
            lake.create_table("raw.plain", like=ROWS),
        ]
        for table in tables:
            table.append(ROWS)
            table.append(LATER)
            table.delete("id IN (5, 6)")
            table.merge(CHANGES, on="id")
            table.update({"name": "x"}, where="id = 7")
        found = {table.name: sorted(table.scan().collect("pyarrow").rows()) for table in tables}
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=dt.timedelta(0), force=True)
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        for table in tables:
            assert sorted(table.scan().collect("pyarrow").rows()) == found[table.name]
    with duckdb.connect() as connection:
        store.attach(connection)
        for name, rows in found.items():
            assert len(rows) == 79
            assert rows == sorted(connection.sql(f"SELECT id, name, kind FROM dev.{name}").fetchall())
        listed = [
            path
            for name in ("split", "plain")
            for row in connection.sql(
                f"SELECT data_file, delete_file FROM ducklake_list_files('dev', '{name}', schema => 'raw')"
            ).fetchall()
            for path in row
            if path is not None
        ]
    # No needed file is missing. Unneeded files may remain, because DuckLake searches for them with a glob pattern.
    there = {str(path) for path in (tmp_path / ODD / "data").rglob("*") if path.is_file()}
    assert set(listed) <= there


def test_cleanup_keeps_folders_that_match_the_data_path_as_a_pattern(tmp_path: Path) -> None:
    made = {}
    for name in ("data0", "dataX", "data[0]", "data?"):
        backends = (
            {"type": "sqlite", "uri": f"{tmp_path}/{name}.sqlite"},
            {"type": "local", "path": f"{tmp_path}/{name}"},
        )
        made[name] = lakeconf.init(config_of(tmp_path, *backends)).get_store("dev")
    for store in made.values():
        with store.open() as lake:
            lake.create_table("raw.t", like=ROWS).append(ROWS)
    for name in ("data[0]", "data?"):
        with made[name].open() as lake:
            assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []
    for store in made.values():
        with store.open() as lake:
            assert lake.table("raw.t").to_arrow().sort_by("id") == ROWS
