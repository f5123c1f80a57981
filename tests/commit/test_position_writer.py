"""Files of deleted positions, comparisons of row ids, and the check of replaced files at the commit."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from plain_sql import run_plain
from staged_changes import file_groups

from lakeconf.catalog.data_file import FileGroup
from lakeconf.catalog.file_footers import ColumnStatistics, Footer
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.commit import deletions
from lakeconf.commit.change import Replacement
from lakeconf.commit.deletions import found_positions, have_row_ids, plan_delete, write_positions
from lakeconf.commit.staged_commit import add_replacement, check_replaced
from lakeconf.connection.connection import connect
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import FILE_ROW_NUMBER, ROW_ID
from lakeconf.errors import CommitConflictError, CommitError, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from catalog_lake import Lake

    import lakeconf
    from lakeconf.commit.deletions import PositionFile


COUNT = 3_000_000


def one_file(lake: Lake, count: int) -> None:
    lake.run("CALL lake.set_option('data_inlining_row_limit', 0)")
    lake.run(f"CREATE TABLE lake.t AS SELECT i FROM range({count}) AS r(i)")


def written(lake: Lake, positions: str, count: int) -> PositionFile:
    """The file of positions of the only data file of the table."""
    info, folder = load_table(lake.reader, "t", lake.newest), f"{lake.folder}/data/main/t/new folder/"
    (file,) = plan_delete(lake.reader, info, None).files
    return write_positions(lake.connection, file, positions, count, folder, lake.newest)


@pytest.mark.parametrize("most", [500_000, 7])
@pytest.mark.parametrize("earlier", [True, False])
def test_positions_are_sorted_with_the_earlier_ones(
    usual: Lake, monkeypatch: pytest.MonkeyPatch, most: int, *, earlier: bool
) -> None:
    monkeypatch.setattr(deletions, "SORTED_IN_MEMORY", most)
    one_file(usual, 100)
    if earlier:
        usual.run("DELETE FROM lake.t WHERE i IN (1, 99)", "DELETE FROM lake.t WHERE i = 7")
    positions = "SELECT file_row_number AS pos FROM lake.t WHERE i % 3 = 0 ORDER BY pos"
    ((count,),) = usual.rows(f"SELECT count(*) FROM ({positions})")
    file = written(usual, positions, count)
    rows = usual.rows(f"SELECT * FROM '{file.path}'")
    newest = usual.newest
    new = [(file.data_file.path, number, newest + 1) for number in range(0, 99, 3)]
    old = [
        (file.data_file.path, 1, newest - 1),
        (file.data_file.path, 7, newest),
        (file.data_file.path, 99, newest - 1),
    ]
    every = [(file.data_file.path, number) for number in range(0, 100, 3)]
    assert rows == (sorted([*new, *old], key=lambda row: row[1]) if earlier else every)
    assert file.row_count == len(rows)
    ids = usual.rows(f"SELECT field_id FROM parquet_schema('{file.path}') WHERE type IS NOT NULL")
    assert [number for (number,) in ids] == [2147483646, 2147483645, 2147483539][: len(rows[0])]


@pytest.mark.parametrize("earlier", [0, 300_000])
def test_memory_does_not_grow_with_the_number_of_positions(usual: Lake, earlier: int) -> None:
    """COPY would keep row groups of the source in memory until their turn; a sort of all positions needs 150 MB.

    That of their names, too, would need more memory, because the path of the data file is long.
    """
    folder = usual.folder / ("long" * 50)
    folder.mkdir()
    usual.run("CALL lake.set_option('data_inlining_row_limit', 0)", "CREATE TABLE lake.t (i BIGINT)")
    path = f"{folder}/one.parquet"
    usual.run(f"COPY (FROM range({COUNT}) AS r(i)) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {COUNT})")
    usual.run(f"CALL ducklake_add_data_files('lake', 't', '{path}')")
    if earlier:
        usual.run(f"DELETE FROM lake.t WHERE i % 10 = 0 AND i < {earlier * 10}")
    positions = "SELECT file_row_number AS pos FROM lake.t WHERE i % 2 = 1"
    usual.run("SET max_temp_directory_size = '0KB'", "SET memory_limit = '60MB'")
    file = written(usual, positions, COUNT // 2)
    usual.run("RESET memory_limit")
    query = f"SELECT count(*), bool_and(pos > before) FROM (SELECT pos, lag(pos) OVER () AS before FROM '{file.path}')"
    assert usual.rows(query) == [(COUNT // 2 + earlier, True)]
    assert usual.rows(f"SELECT DISTINCT file_path FROM '{file.path}'") == [(path,)]


@pytest.mark.parametrize(
    ("ids", "is_same"),
    [
        ([4, 1, 2, 3], True),
        ([1, 2, 3], False),
        ([1, 2, 3, 4, 4], False),
        ([1, 2, 3, 5], False),
        ([1, 1, 4, 4], False),  # the same count, sum of ids and bounds
    ],
)
def test_only_the_same_ids_are_equal(ids: list[int], is_same: bool, tmp_path: Path) -> None:
    files = [str(tmp_path / name) for name in ("one.parquet", "day=2/two's.parquet")]
    (tmp_path / "day=2").mkdir()
    with connect() as connection:
        for path, part in zip(files, ([1, 2], [3, 4]), strict=True):
            listed = path.replace("'", "''")
            connection.execute(f"COPY (SELECT unnest({part}) AS {INTERNAL_ROW_ID.name}) TO '{listed}'")
        assert have_row_ids(connection, files, f"SELECT unnest({ids}) AS {ROW_ID}") is is_same


def test_repeated_or_unsorted_positions_are_refused(tmp_path: Path) -> None:
    with connect() as connection:
        for number, positions in enumerate(([3, 3], [5, 3])):
            path = str(tmp_path / f"{number}.parquet")
            connection.execute(f"COPY (SELECT unnest({positions})::BIGINT AS {FILE_ROW_NUMBER}) TO '{path}'")
            assert found_positions(connection, {1: path}) is None


TABLE = TableInfo(4, "main", "t", (), "/data/main/t/")
BOUNDS = ColumnStatistics(1, 80, 5, 1, "1.5", "2.5", contains_nan=True)
ALL_NULL = ColumnStatistics(2, 8, 5, 5, None, None)


def footer(name: str, rows: int, *statistics: ColumnStatistics) -> Footer:
    return Footer(f"/data/main/t/{name}", rows, 900, 90, statistics)


def planned(lake: lakeconf.Lake, rows: int) -> tuple[TableInfo, Replacement]:
    reader, version = lake._session.reader, lake.refresh()
    info = load_table(reader, "t", version)
    (group,) = file_groups(reader, info, version)
    return info, Replacement(info, group, footer("a.parquet", rows))


@pytest.mark.parametrize(
    ("statement", "changed"),
    [
        ("INSERT INTO t VALUES (5)", 0),
        ("INSERT INTO u VALUES (5)", 0),
        ("DELETE FROM t WHERE id = 3", 1),
        ("UPDATE t SET id = 50 WHERE id IN (3, 13)", 2),
        ("CALL ducklake_merge_adjacent_files('dev', 't')", 2),
    ],
)
@pytest.mark.parametrize("inlined", [0, 10])
def test_changed_files_are_a_conflict(two_tables: lakeconf.Lake, statement: str, changed: int, inlined: int) -> None:
    lake = two_tables
    run_plain(lake, "INSERT INTO t FROM range(10)", "INSERT INTO t FROM range(10, 20)")
    info, replacement = planned(lake, 20)
    check_replaced(lake._session.reader, info, [replacement], lake.snapshot_id)
    run_plain(lake, f"CALL dev.set_option('data_inlining_row_limit', {inlined})", statement)
    begun = lake.refresh()
    if not changed:
        check_replaced(lake._session.reader, info, [replacement], begun)
        return
    with pytest.raises(CommitConflictError, match=f"another writer changed rows in {changed} of 2 files of main.t"):
        check_replaced(lake._session.reader, info, [replacement], begun)


def test_other_numbers_of_rows_are_refused(two_tables: lakeconf.Lake) -> None:
    run_plain(two_tables, "INSERT INTO t FROM range(10)", "DELETE FROM t WHERE id < 3")
    info, replacement = planned(two_tables, 8)
    with pytest.raises(
        CommitError, match=r"another writer changed 1 rows of main.t while they were rewritten: nothing was written"
    ):
        check_replaced(two_tables._session.reader, info, [replacement], two_tables.snapshot_id)


def test_columns_without_values_get_the_bounds_of_the_table() -> None:
    """But a column with values of a type without bounds gets none."""
    only_nan = ColumnStatistics(3, 8, 5, 0, None, None, contains_nan=True)
    no_bounds = ColumnStatistics(4, 8, 5, 1, None, None)
    rows: dict[str, Any] = defaultdict(list)
    replacement = Replacement(TABLE, FileGroup(()), footer("1.parquet", 5, BOUNDS, ALL_NULL, only_nan, no_bounds))
    add_replacement(rows, replacement, str, dict.fromkeys(range(6), ("7", "9")))
    # The bounds, and whether the file has values: if not, DuckLake does not merge its bounds with those of others.
    assert [(row[2], row[9], row[11], row[14]) for row in rows["data_file_column_stats"]] == [
        (1, "1.5", "2.5", True),
        (2, "7", "9", False),
        (3, "7", "9", True),
        (4, None, None, True),
    ]


def test_bounds_that_ducklake_would_change_are_refused() -> None:
    bad = footer("1.parquet", 5, replace(BOUNDS, high="{DATA_PATH}"))
    with pytest.raises(SchemaError, match=r"a value of main.t contains \{DATA_PATH\}"):
        add_replacement(defaultdict(list), Replacement(TABLE, FileGroup(()), bad), str, {})
