"""Maintenance keeps all rows and removes only files that are not needed; its plan, that of a compaction, its result."""

from __future__ import annotations

import datetime as dt
import os
import threading
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from lake_parts import catalog_of, session_of
from plain_sql import run_plain

import lakeconf
from lakeconf.commit.session import Session, default_author
from lakeconf.connection.connection import connect, remove_files
from lakeconf.engines.file_names import OwnFiles, announce
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.guard.guard import LakeGuard
from lakeconf.lake.compaction import TableCompaction, plan_compaction, rewritten_files
from lakeconf.lake.limits import limited_memory
from lakeconf.lake.maintenance import CompactionResult
from lakeconf.lake.maintenance_plan import MaintenanceResult, maintain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import AttachedLake

    from lakeconf import Lake, Store

NOW = dt.timedelta(0)


@pytest.fixture
def lake(project: Path) -> Iterator[Lake]:
    """A lake with a table of ten small files."""
    with lakeconf.init(project).get_store("dev").open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
        for number in range(10):
            lake.table("raw.t").append(pa.table({"id": pa.array(range(10 * number, 10 * number + 10), pa.int64())}))
        yield lake


def ids(lake: Lake, version: int | None = None) -> list[int]:
    at = "" if version is None else f" AT (VERSION => {version})"
    return [row[0] for row in lake.sql(f"SELECT id FROM raw.t{at} ORDER BY id").collect("pyarrow").rows()]


def stored(project: Path) -> set[str]:
    return {path.name for path in (project / "data").rglob("*") if path.is_file()}


def test_deadline_of_the_store_ends_a_compaction_early_and_the_next_one_continues(lake: Lake) -> None:
    before = ids(lake)
    for deadline, files in ((0, 10), (3600, 1)):
        session_of(lake).deadline = dt.timedelta(seconds=deadline)
        for step in (lake.maintenance.rewrite, lake.maintenance.compact):
            done = step()
            assert done.complete == (deadline > 0)
        assert (done.files_before, done.files_after) == (10, files)
    assert ids(lake) == before


def test_memory_is_limited_during_a_compaction_only(lake: Lake) -> None:
    setting = "SELECT system.main.current_setting('memory_limit')"
    before = session_of(lake).writer.rows(setting)
    for step in (lake.maintenance.compact, lake.maintenance.flush, lake.maintenance.rewrite):
        session_of(lake).memory_limit = "1KB"
        with pytest.raises(LakeconfError, match=r"(?i)memory"):
            step()
        assert session_of(lake).writer.rows(setting) == before
        session_of(lake).memory_limit = "1GB"
        step()
        assert session_of(lake).writer.rows(setting) == before


def test_a_limit_is_lifted_after_a_statement_that_used_all_memory() -> None:
    statement = "CREATE TEMP TABLE numbers AS SELECT i, i::VARCHAR AS name FROM range(300000) AS r(i)"
    with connect() as connection:
        session = SimpleNamespace(memory_limit="1KB", writer=connection, writer_lock=threading.RLock())
        with pytest.raises(LakeconfError, match="failed to allocate"), limited_memory(cast(Session, session)):
            connection.execute(statement)
        connection.execute(statement)


def test_limits_are_those_of_the_store(lake: Lake, project: Path) -> None:
    lake.close()
    text = (project / "lakeconf.toml").read_text()
    (project / "lakeconf.toml").write_text(f'{text}\n[stores.dev.maintenance]\ndeadline = "1h"\nmemory_limit = "1GB"\n')
    with lakeconf.init(project).get_store("dev").open() as limited:
        assert (session_of(limited).deadline, session_of(limited).memory_limit) == (dt.timedelta(hours=1), "1GB")
        assert limited.maintenance.compact().complete


@pytest.mark.slow
@pytest.mark.parametrize("files_read", [0, 2000])
def test_flush_and_rewrite_keep_the_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch, files_read: int) -> None:
    """Many files are rewritten table by table."""
    monkeypatch.setattr("lakeconf.lake.rewriting.FILES_READ", files_read)
    monkeypatch.setattr("lakeconf.lake.staged_rewriting.FILES_READ", files_read)
    lake.table("raw.t").delete("id IN (0, 10, 20, 30, 40, 50, 60, 70, 80, 90)")
    before, version = ids(lake), lake.snapshot_id
    assert lake.maintenance.flush().files_after == 20
    run_plain(lake, "CALL dev.set_option('rewrite_delete_threshold', 0.05)")
    assert lake.maintenance.rewrite().files_after == 1
    assert ids(lake) == ids(lake, version) == before
    assert {snapshot.author for snapshot in lake.snapshots()[-2:]} == {default_author()}


def test_cleanup_waits_for_running_writers_and_keeps_staged_files(
    lake: Lake, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project / "data" / "raw" / "t" / "lakeconf-0a1b"
    folder.mkdir()
    (folder / "part-0.parquet").write_text("rows")
    announce(session_of(lake).writer, f"{folder}/", catalog_of(lake).lake_id)
    assert lake.maintenance.cleanup(older_than=dt.timedelta(hours=1), force=True) == []
    monkeypatch.setattr("lakeconf.guard.locks.WAIT_SECONDS", 0.1)
    with (
        lakeconf.init(project).get_store("dev").open() as other,
        session_of(other).guard.writing(),
        pytest.raises(CommitError, match=f"held by process {os.getpid()}"),
    ):
        lake.maintenance.cleanup(older_than=NOW, force=True)
    assert {"part-0.parquet", "lakeconf-0a1b.parquet"} <= stored(project)
    assert sorted(lake.maintenance.cleanup(older_than=NOW, force=True)) == [
        f"{folder}.parquet",
        f"{folder}/part-0.parquet",
    ]


def test_maintenance_in_a_transaction_is_rejected_immediately(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would otherwise wait for the lock that the transaction holds."""
    monkeypatch.setattr("lakeconf.guard.locks.WAIT_SECONDS", 5)
    for refused in (lake.maintenance.expire_snapshots, lake.maintenance.cleanup):
        with lake.transaction() as tx:
            tx.table("raw.t").append(pa.table({"id": pa.array([1000], pa.int64())}))
            with pytest.raises(LakeconfError, match=r"(?s)this thread has an open transaction of this lake.*first"):
                refused(older_than=NOW, force=True)
        assert 1000 in ids(lake)
        refused(older_than=NOW, force=True)


def test_file_removal_works_after_an_interrupted_one(lake: Lake, tmp_path: Path) -> None:
    connection = catalog_of(lake).connection
    connection.execute("ATTACH 'ducklake::memory:' AS __lakeconf_removal (DATA_PATH '/')")
    (unneeded := tmp_path / "unneeded.parquet").write_text("rows")
    remove_files(connection, [str(unneeded)])
    assert not unneeded.exists()


def test_maintenance_of_a_pinned_lake_is_rejected(lake: Lake) -> None:
    pinned = lake.at(version=3)
    for refused in (
        pinned.maintenance.compact,
        pinned.maintenance.flush,
        pinned.maintenance.rewrite,
        lambda: pinned.maintenance.cleanup(older_than=NOW, force=True),
    ):
        with pytest.raises(LakeconfError, match="pinned at snapshot 3"):
            refused()


def test_nothing_is_removed_without_locks(lake: Lake, project: Path) -> None:
    """It cannot wait for writers, and an expiry during a commit uses a snapshot number twice."""
    session_of(lake).guard = LakeGuard(None, session_of(lake).guard.marker)
    lake.maintenance.compact()
    before, files = lake.snapshots(), stored(project)
    day = dt.timedelta(days=1)
    lake.maintenance.expire_snapshots(older_than=day, dry_run=True)
    lake.maintenance.plan_cleanup(older_than=day)
    for refused in (lake.maintenance.expire_snapshots, lake.maintenance.cleanup):
        with pytest.raises(CommitError, match="the metadata backend has no locks"):
            refused(older_than=day)
    assert (lake.snapshots(), stored(project)) == (before, files)
    assert lake.maintenance.expire_snapshots(older_than=NOW, force=True)
    assert lake.maintenance.cleanup(older_than=NOW, force=True)


DAY = dt.timedelta(days=1)
NOTHING = MaintenanceResult(dry_run=True, expired=(), removed=())
DONE = CompactionResult(files_before=1234, files_after=1, bytes_before=5_000_000, bytes_after=1_000)


@pytest.fixture
def two_files(store: Store) -> Iterator[Lake]:
    """A lake with the table `t`, which has two files, at snapshot 3."""
    with store.open() as two_files:
        two_files.create_table("t", {"id": "BIGINT"})
        for _ in range(2):
            run_plain(two_files, "INSERT INTO t FROM range(100)")
        two_files.refresh()
        yield two_files


def paths(two_files: Lake) -> list[str]:
    return [file.path for file in two_files.table("t").files()]


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


def test_plan_changes_nothing_and_the_run_carries_it_out(two_files: Lake) -> None:
    before = paths(two_files)
    plan = maintain(two_files, expire_older_than=NOW, cleanup_older_than=NOW, dry_run=True, force=True)
    assert plan == MaintenanceResult(
        dry_run=True,
        expired=(0, 1, 2),
        removed=(),
        compaction=(TableCompaction("main.t", merged_files=2),),
        more_removed=True,
    )
    assert (two_files.refresh(), paths(two_files)) == (3, before)
    done = maintain(two_files, expire_older_than=NOW, cleanup_older_than=NOW, force=True)
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
    assert [snapshot.snapshot_id for snapshot in two_files.snapshots()] == [4]
    again = maintain(two_files, expire_older_than=NOW, cleanup_older_than=NOW, dry_run=True, force=True)
    assert again == NOTHING, "nothing becomes obsolete, because there is nothing to do"


def test_files_that_a_run_makes_obsolete_are_kept_for_the_age(two_files: Lake) -> None:
    plan = maintain(two_files, expire_older_than=NOW, cleanup_older_than=DAY, dry_run=True, force=True)
    assert (plan.more_removed, plan.removed, plan.expired) == (False, (), (0, 1, 2))
    plan = maintain(two_files, expire_older_than=NOW, cleanup_older_than=DAY, keep=3, dry_run=True, force=True)
    assert plan.expired == (0,)
    done = maintain(two_files, expire_older_than=NOW, cleanup_older_than=DAY, keep=3, force=True)
    assert (done.expired, done.removed) == ((0, 1), ()), "the compaction has added a snapshot"
    planned = maintain(two_files, expire_older_than=DAY, cleanup_older_than=NOW, dry_run=True, force=True)
    assert planned.more_removed is False


@pytest.fixture
def source(inlining_lake: AttachedLake) -> AttachedLake:
    """A lake with the table `t`, which has three files of 100 rows."""
    inlining_lake.run("CREATE TABLE lake.t (id BIGINT)")
    inlining_lake.run(*(f"INSERT INTO lake.t FROM range({start}, {start + 100})" for start in (0, 100, 200)))
    return inlining_lake


def plan(source: AttachedLake) -> list[str]:
    return [str(table) for table in planned(source)]


def planned(source: AttachedLake) -> list[TableCompaction]:
    return plan_compaction(source.reader, OwnFiles(source.reader.data_path))


def option(source: AttachedLake, name: str, value: str, table: str | None = None, schema: str = "main") -> None:
    where = "" if table is None else f", table_name => '{table}', schema => '{schema}'"
    source.run(f"CALL lake.set_option('{name}', '{value}'{where})")


def compact(source: AttachedLake) -> None:
    for function in ("flush_inlined_data", "rewrite_data_files", "merge_adjacent_files"):
        source.run(f"CALL ducklake_{function}('lake')")


def test_small_files_of_one_schema_version_are_merged(source: AttachedLake) -> None:
    source.run(
        "CREATE TABLE lake.one (id BIGINT)", "INSERT INTO lake.one FROM range(100)", "CREATE TABLE lake.none (i INT)"
    )
    assert planned(source) == [TableCompaction("main.t", 0, 0, 3)]
    source.run("ALTER TABLE lake.t ADD COLUMN note VARCHAR", "INSERT INTO lake.t SELECT range, 'x' FROM range(100)")
    assert plan(source) == ["main.t: merge 3 small files"]
    source.run("INSERT INTO lake.t SELECT range, 'x' FROM range(100)")
    assert plan(source) == ["main.t: merge 5 small files"]
    compact(source)
    assert plan(source) == []


def test_files_of_the_target_size_are_not_merged(source: AttachedLake) -> None:
    sizes = [size for (size,) in source.metadata("SELECT file_size_bytes FROM ducklake_data_file ORDER BY ALL")]
    for limit, expected in ((sizes[-1] + 1, 3), (sizes[0], 0)):
        option(source, "target_file_size", f"{limit}B")
        assert sum(one.merged_files for one in planned(source)) == expected
    option(source, "target_file_size", "1MB", table="t")
    assert plan(source) == ["main.t: merge 3 small files"], "the option of the table"
    source.metadata(f"UPDATE ducklake_data_file SET file_size_bytes = {512 * 10**6} WHERE data_file_id = 0")
    source.metadata("DELETE FROM ducklake_metadata WHERE key = 'target_file_size'")
    assert plan(source) == ["main.t: merge 2 small files"]
    source.metadata(f"UPDATE ducklake_data_file SET file_size_bytes = {512 * 10**6 - 1} WHERE data_file_id = 0")
    assert plan(source) == ["main.t: merge 3 small files"]


def test_files_with_deleted_rows_are_rewritten_instead(source: AttachedLake) -> None:
    option(source, "data_inlining_row_limit", "0")
    source.run("DELETE FROM lake.t WHERE id < 94", "DELETE FROM lake.t WHERE id BETWEEN 100 AND 194")
    assert plan(source) == ["main.t: rewrite 1 file with deleted rows"]
    option(source, "rewrite_delete_threshold", "0.94")
    assert plan(source) == ["main.t: rewrite 2 files with deleted rows"]
    option(source, "rewrite_delete_threshold", "0.95", table="t")
    assert plan(source) == ["main.t: rewrite 1 file with deleted rows"], "the option of the table"
    option(source, "rewrite_delete_threshold", "0", table="t")
    assert plan(source) == ["main.t: rewrite 2 files with deleted rows"], "only files with deleted rows"


def test_last_delete_file_counts(source: AttachedLake) -> None:
    option(source, "data_inlining_row_limit", "0")
    source.run("DELETE FROM lake.t WHERE id < 50", "DELETE FROM lake.t WHERE id < 99")
    assert plan(source) == ["main.t: rewrite 1 file with deleted rows, merge 2 small files"]
    source.metadata("UPDATE ducklake_delete_file SET end_snapshot = 99")
    assert plan(source) == ["main.t: merge 3 small files"]


def test_files_of_other_partitions_are_not_merged(source: AttachedLake) -> None:
    source.run(
        "CREATE TABLE lake.p (id BIGINT, k INT)", "ALTER TABLE lake.p SET PARTITIONED BY (k)", "DROP TABLE lake.t"
    )
    for keys in (1, 2, 3):
        source.run(f"INSERT INTO lake.p SELECT 1, range % {keys} FROM range(60)")
    source.run("ALTER TABLE lake.p SET PARTITIONED BY (id)", "INSERT INTO lake.p SELECT 1, 0 FROM range(60)")
    assert plan(source) == ["main.p: merge 5 small files"]
    compact(source)
    assert plan(source) == []
    assert source.metadata("SELECT count(*) FROM ducklake_data_file WHERE end_snapshot IS NULL") == [(4,)]


def test_rows_and_deletes_in_the_catalog_are_flushed(source: AttachedLake) -> None:
    source.run("DROP TABLE lake.t", "CREATE TABLE lake.held (id BIGINT)", "CREATE TABLE lake.deleted (id BIGINT)")
    source.run("INSERT INTO lake.held VALUES (1), (2), (3)", "DELETE FROM lake.held WHERE id = 1")
    source.run("INSERT INTO lake.deleted FROM range(100)", "DELETE FROM lake.deleted WHERE id = 5")
    assert planned(source) == [TableCompaction("main.deleted", 1), TableCompaction("main.held", 2)]
    source.run("ALTER TABLE lake.held ADD COLUMN note VARCHAR", "INSERT INTO lake.held VALUES (4, 'x')")
    assert plan(source) == [
        "main.deleted: write 1 row of the catalog to files",
        "main.held: write 3 rows of the catalog to files",
    ]
    compact(source)
    assert plan(source) == []


def test_tables_are_sorted_by_name_and_dropped_ones_are_left_out(source: AttachedLake) -> None:
    source.run("CREATE SCHEMA lake.a", 'CREATE SCHEMA lake."b.c"', "CREATE TABLE lake.gone (id BIGINT)")
    for table in ('"b.c".z', "a.z", "a.b", "main.gone"):
        source.run(f"CREATE TABLE IF NOT EXISTS lake.{table} (id BIGINT)")
        for _ in range(2):
            source.run(f"INSERT INTO lake.{table} FROM range(100)")
    source.run("DROP TABLE lake.gone", "ALTER TABLE lake.a.b RENAME TO y")
    assert [one.table for one in planned(source)] == ["a.y", "a.z", '"b.c".z', "main.t"]


def test_text_of_a_plan_names_only_what_changes() -> None:
    for effect, text in (
        ((1, 0, 0), "t: write 1 row of the catalog to files"),
        ((1234, 0, 0), "t: write 1,234 rows of the catalog to files"),
        ((0, 2000, 2), "t: rewrite 2,000 files with deleted rows, merge 2 small files"),
        ((0, 1, 5000), "t: rewrite 1 file with deleted rows, merge 5,000 small files"),
        ((0, 0, 1), "t: merge 1 small file"),
    ):
        assert str(TableCompaction("t", *effect)) == text


def test_rewritten_files_are_those_of_the_plan(source: AttachedLake) -> None:
    option(source, "rewrite_delete_threshold", "0.5")
    assert rewritten_files(source.reader, OwnFiles(source.reader.data_path)) == []
    source.run("DELETE FROM lake.t WHERE id < 160")
    plan_of = {one.table: one.rewritten_files for one in planned(source)}
    (found,) = rewritten_files(source.reader, OwnFiles(source.reader.data_path))
    assert (found.schema, found.name, plan_of) == ("main", "t", {"main.t": len(found.files)})
    assert found.files
    assert list(found.files) == sorted(found.files, reverse=True)
    assert 0 < found.saved <= sum(size for _, size in found.files)
