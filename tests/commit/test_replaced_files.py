"""The check of replaced files at the commit, and what the extension is told about the new ones."""

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
from lakeconf.commit.change import Replacement
from lakeconf.commit.staged_commit import add_replacement, check_replaced
from lakeconf.errors import CommitConflictError, CommitError, SchemaError

if TYPE_CHECKING:
    from lakeconf import Lake

TABLE = TableInfo(4, "main", "t", (), "/data/main/t/")
BOUNDS = ColumnStatistics(1, 80, 5, 1, "1.5", "2.5", contains_nan=True)
ALL_NULL = ColumnStatistics(2, 8, 5, 5, None, None)


def footer(name: str, rows: int, *statistics: ColumnStatistics) -> Footer:
    return Footer(f"/data/main/t/{name}", rows, 900, 90, statistics)


def planned(lake: Lake, rows: int) -> tuple[TableInfo, Replacement]:
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
def test_changed_files_are_a_conflict(two_tables: Lake, statement: str, changed: int, inlined: int) -> None:
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


def test_other_numbers_of_rows_are_refused(two_tables: Lake) -> None:
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
