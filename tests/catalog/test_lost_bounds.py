"""The columns whose bounds DuckLake forgets when it rewrites files with deleted rows, and those that it keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.catalog.health import forgotten_bounds, lost_bounds, table_bounds

if TYPE_CHECKING:
    from pathlib import Path

VALUES = "INSERT INTO t SELECT i, {0} FROM range({1}, {1} + 10) r(i)"
NULLS, ONES, NANS = VALUES.format("NULL", 0), VALUES.format("1", 10), VALUES.format("'nan'", 20)
PARTITIONED = "ALTER TABLE t SET PARTITIONED BY (v)"
DELETE = "DELETE FROM t WHERE id IN (15, 33)"
LOST = {
    "a file has only NULLs": ("INTEGER", [NULLS, ONES, DELETE]),
    "a file of another partition has only NULLs": ("INTEGER", [PARTITIONED, ONES, NULLS, DELETE]),
    "a file has only NaN": ("DOUBLE", [NANS, ONES, DELETE]),
    "a file has only NULLs in a field": ("STRUCT(a INTEGER)", [NULLS, VALUES.format("{'a': 1}", 10), DELETE]),
    "a file of texts has only NULLs": ("VARCHAR", [NULLS, VALUES.format("'x'", 10), DELETE]),
    "the rows that are left have only NULLs": (
        "INTEGER",
        [
            "ALTER TABLE t SET PARTITIONED BY (bucket(2, id))",
            *(VALUES.format("CASE WHEN i = 33 THEN 3 END", start) for start in (30, 40)),
            ONES,
            "DELETE FROM t WHERE id IN (33, 15) OR id BETWEEN 40 AND 48",
        ],
    ),
}
KEPT = {
    "no NULLs": ("INTEGER", [ONES, VALUES.format("2", 20), DELETE]),
    "some NULLs": ("INTEGER", [VALUES.format("CASE WHEN i % 2 = 0 THEN 3 END", 30), ONES, DELETE]),
    "no values at all": ("INTEGER", [NULLS, "DELETE FROM t WHERE id = 5"]),
    "no bounds": ("BLOB", [NULLS, "DELETE FROM t WHERE id = 5"]),
    "a column that older files lack": (
        "INTEGER",
        [ONES, "ALTER TABLE t ADD more INTEGER", "INSERT INTO t SELECT i, 1, 2 FROM range(40, 50) r(i)", DELETE],
    ),
}
BOUNDS = "SELECT column_id FROM __ducklake_metadata_dev.ducklake_table_column_stats WHERE min_value IS NOT NULL"


def found_and_lost(folder: Path, kind: str, statements: list[str]) -> tuple[dict[Any, list[str]], bool]:
    """What is found; and whether DuckLake then forgets bounds."""
    store = store_of(folder)
    with store.connect() as connection:
        connection.execute("CALL dev.set_option('data_inlining_row_limit', 0)")
        connection.execute(f"CREATE TABLE t (id BIGINT, v {kind})")
        for statement in statements:
            connection.execute(statement)
    with store.open(read_only=True) as lake:
        found = lost_bounds(lake._session.reader)
    with store.connect() as connection:
        before = {column for (column,) in connection.execute(BOUNDS).fetchall()}
        connection.execute("CALL ducklake_rewrite_data_files('dev', 't', delete_threshold => 0.0)")
        return found, {column for (column,) in connection.execute(BOUNDS).fetchall()} != before


@pytest.mark.parametrize("case", LOST)
def test_columns_whose_bounds_are_lost(case: str, tmp_path: Path) -> None:
    found, is_lost = found_and_lost(tmp_path, *LOST[case])
    assert found == {("main", "t"): ["a" if "field" in case else "v"]}
    # DuckLake also forgets them if no row is left with a value, depending on the order of the files.
    assert is_lost or case.startswith("the rows")


@pytest.mark.parametrize("case", KEPT)
def test_other_tables_keep_their_bounds(case: str, tmp_path: Path) -> None:
    assert found_and_lost(tmp_path, *KEPT[case]) == ({}, False)


def test_files_that_stay_without_bounds_make_ducklake_forget_them(tmp_path: Path) -> None:
    """Unless a file that stays has deleted rows; a file that DuckLake has removed does not count."""
    store = store_of(tmp_path)
    with store.connect() as connection:
        connection.execute("CALL dev.set_option('data_inlining_row_limit', 0)")
        connection.execute("CREATE TABLE t (id BIGINT, v INTEGER)")
        for statement in (NULLS, ONES, VALUES.format("3", 20), "DELETE FROM t WHERE id IN (11, 25)"):
            connection.execute(statement)
    with store.open() as lake, lake._session.reader.transaction() as metadata:
        ((table_id,),) = metadata.rows("SELECT table_id FROM ducklake_table")
        assert forgotten_bounds(metadata, table_id, {1}) == {}
        assert forgotten_bounds(metadata, table_id, {1, 2}) == {0: "v"}
        assert forgotten_bounds(metadata, table_id, {0, 1, 2}) == {}
        assert forgotten_bounds(metadata, table_id + 1, {1, 2}) == {}
        assert table_bounds(metadata, table_id) == {1: ("0", "29"), 2: ("1", "3")}
        assert table_bounds(metadata, table_id + 1) == {}
    with store.connect() as connection:
        connection.execute("DELETE FROM t WHERE v = 3")
    with store.open() as lake, lake._session.reader.transaction() as metadata:
        assert forgotten_bounds(metadata, table_id, {1}) == {0: "v"}
