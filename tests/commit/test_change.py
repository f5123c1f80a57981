"""A change knows whether DuckLake writes files for it."""

from __future__ import annotations

import pytest

from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.deletions import PositionDelete
from lakeconf.commit.transaction import Change, tables_to_lock
from lakeconf.engines.base import Staged

TABLE = TableInfo(1, "main", "t", (), "/data/")
FILES = Staged("FROM rows", files=("s3://bucket/part-0.parquet",))
CASES = [
    (None, False, True),
    (FILES, False, False),
    (FILES, True, True),
    (Staged("FROM rows", files=FILES.files, rest="FROM rest"), False, True),
    (Staged("FROM rows"), False, True),
    (Staged("FROM rows", files=FILES.files, keeps_files=False), False, True),
]


@pytest.mark.parametrize(("staged", "deletes", "expected"), CASES)
def test_ducklake_writes_no_files_if_the_staged_files_become_files_of_the_table(
    staged: Staged | None, deletes: bool, expected: bool
) -> None:
    """A change that also deletes rows makes DuckLake write delete files."""
    assert Change(("SELECT 1",), "main.t", staged, deletes=deletes).writes_files is expected


@pytest.mark.parametrize("change", [Change((), "main.t"), Change(("CREATE TABLE t (a INT)",), "main.t", defines=True)])
def test_ducklake_writes_no_files_without_rows(change: Change) -> None:
    assert not change.writes_files


def test_ducklake_writes_delete_files_for_rows_that_were_found_before() -> None:
    rows = PositionDelete("main.t", "dev.main.t", ScanPlan(1, TABLE, (), (), {}, ()), "false")
    assert Change((), "main.t", deletes=True, found=rows).writes_files


def test_change_defines_and_deletes_nothing_unless_it_says_so() -> None:
    change = Change((), "main.t")
    assert (change.defines, change.deletes, change.counts) == (False, False, ())


def test_only_one_commit_registers_files_at_a_time() -> None:
    registering, inserting = Change(("CALL",), "main.t", FILES), Change(("INSERT",), "main.t", Staged("FROM rows"))
    assert tables_to_lock([inserting, registering], registers_alone=True) == {"lakeconf.commits"}
    assert tables_to_lock([registering], registers_alone=False) == set()
    assert tables_to_lock([inserting], registers_alone=True) == set()
