"""A small lake, and what bugs and interrupted commits leave in its catalog. A pytest plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest
from local_stores import new_store
from whole_lakes import fill

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store

# The first table has a data file with a delete file, and the second a row in the catalog.
HISTORY = (
    "CREATE TABLE t (a BIGINT, b VARCHAR)",
    "CREATE TABLE u (a BIGINT)",
    "INSERT INTO t SELECT i, 'x' FROM range(1, 60) AS r(i)",
    "DELETE FROM t WHERE a < 30",
    "INSERT INTO u VALUES (5)",
)


class Damage(NamedTuple):
    """A change of a catalog, of which `m` is the prefix."""

    statement: str
    text: str  # how the finding begins
    is_repairable: bool = False
    stops_opening: bool = False


DAMAGES: dict[str, Damage] = {
    "table and view of one id": Damage(
        "INSERT INTO m.ducklake_view VALUES (1, uuid(), 2, NULL, 0, 'v', 'duckdb', 'SELECT 1', NULL)",
        "ids: have one id: table t and view v",
        stops_opening=True,
    ),
    "file of two tables": Damage("UPDATE m.ducklake_delete_file SET delete_file_id = 0", "ids: used twice: file 0"),
    "column twice": Damage(
        "UPDATE m.ducklake_column SET column_id = 1 WHERE table_id = 1",
        "ids: used twice: column 1 of table 1",
    ),
    "tables of one name": Damage(
        "UPDATE m.ducklake_table SET table_name = 'T'",
        "names: two tables or views have one name",
    ),
    "columns of one name": Damage(
        "UPDATE m.ducklake_column SET column_name = 'a'", "names: two columns have one name: a of", stops_opening=True
    ),
    "table without a schema": Damage(
        "UPDATE m.ducklake_table SET schema_id = 99 WHERE table_id = 1", "schemas: tables in a", stops_opening=True
    ),
    "files without a table": Damage("UPDATE m.ducklake_data_file SET table_id = 99", "files: data files of no table: "),
    "file twice": Damage(
        "INSERT INTO m.ducklake_data_file SELECT * REPLACE (8 AS data_file_id) FROM m.ducklake_data_file LIMIT 1",
        "files: registered twice: ",
    ),
    "two delete files": Damage(
        "INSERT INTO m.ducklake_delete_file SELECT * REPLACE (8 AS delete_file_id) FROM m.ducklake_delete_file",
        "deletes: two delete files for one data file",
    ),
    "too many deletes": Damage(
        "UPDATE m.ducklake_delete_file SET delete_count = 99",
        "deletes: more rows deleted than there are: ",
        is_repairable=True,
    ),
    "rows of no snapshot": Damage(
        "UPDATE m.ducklake_data_file SET begin_snapshot = 99",
        "snapshots: 1 row of ducklake_data_file are of no snapshot",
    ),
    "half a snapshot": Damage(
        "DELETE FROM m.ducklake_snapshot_changes WHERE snapshot_id = 4",
        "snapshots: no changes are recorded for 4",
    ),
    "next table": Damage(
        "UPDATE m.ducklake_snapshot SET next_catalog_id = 1",
        "ids: next_catalog_id is 1, but the greatest",
        is_repairable=True,
    ),
    "next file": Damage(
        "UPDATE m.ducklake_snapshot SET next_file_id = 1",
        "ids: next_file_id is 1, but the greatest id",
        is_repairable=True,
    ),
    "next row": Damage(
        "UPDATE m.ducklake_table_stats SET next_row_id = 2",
        "ids: the next row id of main.t is 2, but rows",
        is_repairable=True,
    ),
    "lost file": Damage("UPDATE m.ducklake_data_file SET path = 'lost.parquet'", "files: lost: "),
    "other size": Damage(
        "UPDATE m.ducklake_data_file SET file_size_bytes = 9",
        "files: of another size than in the",
    ),
    "bounds": Damage(
        "UPDATE m.ducklake_table_column_stats SET min_value = '4'",
        "statistics: outside lakeconf, DuckDB may",
        is_repairable=True,
    ),
    "unknown bounds": Damage(
        "UPDATE m.ducklake_file_column_stats SET min_value = NULL, max_value = NULL",
        "statistics: outside lakeconf, DuckDB may",
        is_repairable=True,
    ),
    "bounds of rows in the catalog": Damage(
        "UPDATE m.ducklake_table_column_stats SET min_value = '7', max_value = '8' WHERE table_id = 2",
        "statistics: outside lakeconf, DuckDB may",
        is_repairable=True,
    ),
    "no statistics": Damage("DELETE FROM m.ducklake_table_stats", "statistics: tables without a next row id: t"),
    "inlined rows": Damage("DROP TABLE m.ducklake_inlined_data_2_2", "inlined rows: lost, with their tables"),
    "ended by no snapshot": Damage(
        "UPDATE m.ducklake_table SET end_snapshot = 99", "snapshots: 2 rows of ducklake_table"
    ),
    "no snapshot": Damage(
        "DELETE FROM m.ducklake_snapshot", "snapshots: the catalog has no snapshot", stops_opening=True
    ),
    "no table": Damage("DROP TABLE m.ducklake_column", "tables: the catalog cannot be read: ", stops_opening=True),
    "unknown type": Damage(
        "UPDATE m.ducklake_column SET column_type = 'odd'",
        "lake: the lake of 'dev' cannot be opened",
        stops_opening=True,
    ),
    "no columns": Damage(
        "DELETE FROM m.ducklake_column", "lake: the lake of 'dev' cannot be opened", stops_opening=True
    ),
}


@pytest.fixture(params=["duckdb", "sqlite", "postgres"])
def small_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A small lake on each kind of catalog."""
    store = new_store(request, tmp_path, "dev", request.param, "local")
    fill(store, HISTORY)
    return store


def changed(store: Store, *statements: str) -> None:
    """Runs statements of plain DuckDB in a lake."""
    with store.connect() as connection:
        for statement in statements:
            connection.execute(statement)


def damaged(store: Store, name: str) -> None:
    """Damages the catalog of a small lake."""
    changed(store, DAMAGES[name].statement.replace("m.", f"__ducklake_metadata_{store.alias}."))
