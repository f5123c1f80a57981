"""Maintenance as a plan and as a result."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from plain_sql import run_plain

from lakeconf.lake.compaction import TableCompaction
from lakeconf.lake.maintenance import CompactionResult
from lakeconf.lake.maintenance_plan import MaintenanceResult, maintain

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store


NOW, DAY = dt.timedelta(0), dt.timedelta(days=1)
NOTHING = MaintenanceResult(dry_run=True, expired=(), removed=())
DONE = CompactionResult(files_before=1234, files_after=1, bytes_before=5_000_000, bytes_after=1_000)


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake with the table `t`, which has two files, at snapshot 3."""
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        for _ in range(2):
            run_plain(lake, "INSERT INTO t FROM range(100)")
        lake.refresh()
        yield lake


def paths(lake: Lake) -> list[str]:
    return [file.path for file in lake.table("t").files()]


def test_anything_to_do_is_a_change() -> None:
    assert not NOTHING.changes
    assert str(NOTHING) == (
        "compact   nothing to merge, rewrite or flush\n"
        "expire    0 snapshots would be expired\n"
        "clean up  0 files would be removed"
    )
    for change in (
        {"expired": (0,)},
        {"removed": ("a",)},
        {"compaction": (TableCompaction("t", 1),)},
        {"dry_run": False, "compacted": DONE},
    ):
        assert replace(NOTHING, **change).changes is True


def test_text_of_a_plan_lists_tables_and_files_without_control_characters() -> None:
    tables = (TableCompaction("a\x1b[2Jb", 1), TableCompaction("t", 0, 2))
    plan = MaintenanceResult(
        dry_run=True,
        expired=(3, 4, 7),
        removed=("/data/one\n.parquet", "/data/two.parquet"),
        compaction=tables,
        more_removed=True,
        skipped="the data path contains a pattern",
    )
    assert str(plan).splitlines() == [
        r"compact   a\x1b[2Jb: write 1 row of the catalog to files",
        "compact   t: rewrite 2 files with deleted rows",
        "expire    3 snapshots would be expired (versions 3 to 7)",
        "clean up  2 files would be removed, plus files that this run makes obsolete",
        r"          /data/one\x0a.parquet",
        "          /data/two.parquet",
        "          not searching for files of crashed writers: the data path contains a pattern",
    ]


def test_text_of_a_result_counts_the_files() -> None:
    result = MaintenanceResult(dry_run=False, expired=(3,), removed=("a",) * 2000, compacted=DONE)
    assert str(result).splitlines() == [
        "compact   the lake had 1,234 files (4.8 MiB), and has 1 (1000 B)",
        "expire    1 snapshot expired",
        "clean up  2,000 files removed",
    ]


def test_plan_changes_nothing_and_the_run_carries_it_out(lake: Lake) -> None:
    before = paths(lake)
    plan = maintain(lake, expire_older_than=NOW, cleanup_older_than=NOW, dry_run=True, force=True)
    assert plan == MaintenanceResult(
        dry_run=True,
        expired=(0, 1, 2),
        removed=(),
        compaction=(TableCompaction("main.t", merged_files=2),),
        more_removed=True,
    )
    assert (lake.refresh(), paths(lake)) == (3, before)
    done = maintain(lake, expire_older_than=NOW, cleanup_older_than=NOW, force=True)
    assert (done.dry_run, done.expired, done.compaction, done.more_removed, done.skipped) == (
        False,
        (0, 1, 2, 3),
        (),
        False,
        None,
    )
    assert done.compacted is not None
    assert (done.compacted.files_before, done.compacted.files_after) == (2, 1)
    assert set(done.removed) == set(before)
    assert [snapshot.snapshot_id for snapshot in lake.snapshots()] == [4]
    again = maintain(lake, expire_older_than=NOW, cleanup_older_than=NOW, dry_run=True, force=True)
    assert again == NOTHING, "nothing becomes obsolete, because there is nothing to do"


def test_files_that_a_run_makes_obsolete_are_kept_for_the_age(lake: Lake) -> None:
    plan = maintain(lake, expire_older_than=NOW, cleanup_older_than=DAY, dry_run=True, force=True)
    assert (plan.more_removed, plan.removed, plan.expired) == (False, (), (0, 1, 2))
    plan = maintain(lake, expire_older_than=NOW, cleanup_older_than=DAY, keep=3, dry_run=True, force=True)
    assert plan.expired == (0,)
    done = maintain(lake, expire_older_than=NOW, cleanup_older_than=DAY, keep=3, force=True)
    assert (done.expired, done.removed) == ((0, 1), ()), "the compaction has added a snapshot"
    planned = maintain(lake, expire_older_than=DAY, cleanup_older_than=NOW, dry_run=True, force=True)
    assert planned.more_removed is False
