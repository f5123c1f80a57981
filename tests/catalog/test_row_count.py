"""The number of rows in the catalog, and their average size."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import METADATA

from lakeconf.catalog.pruning.scan_plan import row_count, with_bytes_per_row
from lakeconf.catalog.tables import load_table
from lakeconf.errors import SnapshotNotFoundError, TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake


def counts(source: Lake) -> list[tuple[int | None, int]]:
    """The count from the catalog and DuckDB's, at each snapshot with the table."""
    found = []
    for version in source.versions()[2:]:
        with source.reader.lake_cursor() as cursor:
            ((expected,),) = cursor.rows(f"SELECT count(*) FROM (SELECT rowid FROM lake.t AT (VERSION => {version}))")
        found.append((row_count(source.reader, "t", version), expected))
    return found


def known(found: list[tuple[int | None, int]]) -> int:
    """The number of snapshots of which the catalog knows the count; checks these counts."""
    assert [count for count, _ in found if count is not None] == [
        expected for count, expected in found if count is not None
    ]
    return sum(count is not None for count, _ in found)


def test_files_inlined_rows_and_inlined_deletes(source: Lake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "CREATE TABLE lake.other AS SELECT * FROM range(50)")
    source.run("INSERT INTO lake.t SELECT * FROM range(100)", "INSERT INTO lake.t VALUES (1), (NULL)")
    source.run("DELETE FROM lake.t WHERE a IN (1, 5)", "UPDATE lake.t SET a = -1 WHERE a = 7")
    source.run("INSERT INTO lake.t SELECT * FROM range(30)", "DELETE FROM lake.other WHERE range < 20")
    found = counts(source)
    assert known(found) == len(found)
    assert found[-1] == (129, 129)


def test_delete_files(source: Lake) -> None:
    source.run("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE lake.t (a INTEGER)")
    source.run("INSERT INTO lake.t SELECT * FROM range(100)", "DELETE FROM lake.t WHERE a % 3 = 0")
    assert counts(source)[-1] == (66, 66)
    source.run("DELETE FROM lake.t WHERE a % 5 = 0", "INSERT INTO lake.t SELECT * FROM range(10)")
    found = counts(source)
    assert found[-1] == (63, 63)
    assert found[-2] == (None, 53)
    assert known(found) < len(found)
    source.run("DELETE FROM lake.t")
    assert counts(source)[-1] == (0, 0)


def test_flushed_and_merged_files(source: Lake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", *(f"INSERT INTO lake.t VALUES ({n})" for n in range(4)))
    source.run("DELETE FROM lake.t WHERE a = 2", "CALL ducklake_flush_inlined_data('lake')")
    source.run("INSERT INTO lake.t SELECT * FROM range(20)", "CALL ducklake_merge_adjacent_files('lake')")
    source.run("INSERT INTO lake.t VALUES (7)")
    found = counts(source)
    assert 0 < known(found) < len(found)
    assert found[-1][0] in (None, 24)


def test_both_kinds_of_deletes_need_the_files(source: Lake) -> None:
    source.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t SELECT * FROM range(100)")
    source.run("DELETE FROM lake.t WHERE a < 30", "DELETE FROM lake.t WHERE a = 50")
    source.run("INSERT INTO lake.t SELECT * FROM range(100)", "DELETE FROM lake.t WHERE a = 60")
    assert known(counts(source)) >= 1


def test_two_live_delete_files_of_a_file_are_no_count(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t SELECT * FROM range(100)")
    local.run("DELETE FROM lake.t WHERE a < 30")
    assert row_count(local.reader, "t", local.newest) == 70
    twice = "SELECT * REPLACE (delete_file_id + 1000 AS delete_file_id)"
    local.run(f"INSERT INTO {METADATA}.ducklake_delete_file BY NAME {twice} FROM {METADATA}.ducklake_delete_file")
    assert row_count(local.reader, "t", local.newest) is None


def test_what_is_no_table_has_no_count(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "CREATE VIEW lake.v AS SELECT 1 AS a")
    with pytest.raises(UnsupportedError):
        row_count(local.reader, "v", local.newest)
    with pytest.raises(TableNotFoundError):
        row_count(local.reader, "nope", local.newest)
    with pytest.raises(SnapshotNotFoundError):
        row_count(local.reader, "t", 99)


def size(lake: Lake, name: str) -> float | None:
    return with_bytes_per_row(lake.reader, load_table(lake.reader, name, lake.newest)).bytes_per_row


def test_missing_or_empty_statistics_give_no_size(local: Lake) -> None:
    local.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    for change in ("record_count = 0", "file_size_bytes = NULL, record_count = 1", "record_count = NULL"):
        local.run(f"UPDATE {METADATA}.ducklake_table_stats SET {change}")
        assert size(local, "t") is None
    local.run(f"DELETE FROM {METADATA}.ducklake_table_stats")
    table = load_table(local.reader, "t", local.newest)
    assert with_bytes_per_row(local.reader, table) is table
