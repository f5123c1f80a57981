"""Maintenance keeps all rows and removes only files that are not needed."""

from __future__ import annotations

import datetime as dt
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import lakeconf
from lakeconf.commit.session import default_author
from lakeconf.connection.connection import remove_files
from lakeconf.engines.engine import announce
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.guard.guard import LakeGuard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake

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
        lake._session.deadline = dt.timedelta(seconds=deadline)
        for step in (lake.maintenance.rewrite, lake.maintenance.compact):
            done = step()
            assert done.complete == (deadline > 0)
        assert (done.files_before, done.files_after) == (10, files)
    assert ids(lake) == before


def test_memory_is_limited_during_a_compaction_only(lake: Lake) -> None:
    setting = "SELECT system.main.current_setting('memory_limit')"
    before = lake._session.writer.rows(setting)
    for step in (lake.maintenance.compact, lake.maintenance.flush, lake.maintenance.rewrite):
        lake._session.memory_limit = "1KB"
        with pytest.raises(LakeconfError, match=r"(?i)memory"):
            step()
        assert lake._session.writer.rows(setting) == before
        lake._session.memory_limit = "1GB"
        step()
        assert lake._session.writer.rows(setting) == before


def test_limits_are_those_of_the_store(lake: Lake, project: Path) -> None:
    lake.close()
    text = (project / "lakeconf.toml").read_text()
    (project / "lakeconf.toml").write_text(f'{text}\n[stores.dev.maintenance]\ndeadline = "1h"\nmemory_limit = "1GB"\n')
    with lakeconf.init(project).get_store("dev").open() as limited:
        assert (limited._session.deadline, limited._session.memory_limit) == (dt.timedelta(hours=1), "1GB")
        assert limited.maintenance.compact().complete


@pytest.mark.parametrize("files_read", [0, 2000])
def test_flush_and_rewrite_keep_the_rows(lake: Lake, monkeypatch: pytest.MonkeyPatch, files_read: int) -> None:
    """Many files are rewritten table by table."""
    monkeypatch.setattr("lakeconf.lake.rewriting.FILES_READ", files_read)
    lake.table("raw.t").delete("id IN (0, 10, 20, 30, 40, 50, 60, 70, 80, 90)")
    before, version = ids(lake), lake.snapshot_id
    assert lake.maintenance.flush().files_after == 20
    lake._session.writer.execute("CALL dev.set_option('rewrite_delete_threshold', 0.05)")
    assert lake.maintenance.rewrite().files_after == 1
    assert ids(lake) == ids(lake, version) == before
    assert {snapshot.author for snapshot in lake.snapshots()[-2:]} == {default_author()}


def test_cleanup_waits_for_running_writers_and_keeps_staged_files(
    lake: Lake, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = project / "data" / "raw" / "t" / "lakeconf-0a1b"
    folder.mkdir()
    (folder / "part-0.parquet").write_text("rows")
    announce(lake._session.writer, f"{folder}/", lake._session.reader.lake_id)
    assert lake.maintenance.cleanup(older_than=dt.timedelta(hours=1), force=True) == []
    monkeypatch.setattr("lakeconf.guard.locks.WAIT_SECONDS", 0.1)
    with (
        lakeconf.init(project).get_store("dev").open() as other,
        other._session.guard.writing(),
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
    connection = lake._session.reader.connection
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
    lake._session.guard = LakeGuard(None, lake._session.guard.marker)
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
