"""Upkeep keeps the rows, and takes nothing that somebody still needs."""

from __future__ import annotations

import datetime as dt
import json
import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import lakeconf
from lakeconf.cli.commands import run
from lakeconf.engines.manifest import announce
from lakeconf.errors import CommitError, LakeconfError

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


def test_a_plan_changes_nothing(lake: Lake, project: Path) -> None:
    lake.compact()
    before, files = lake.snapshot_id, stored(project)
    versions = list(range(before))
    assert lake.expire_snapshots(older_than=NOW, dry_run=True, force=True) == versions
    assert lake.expire_snapshots(older_than=NOW, keep=5, dry_run=True, force=True) == versions[:-4]
    assert (project / "data" / "raw" / "t" / "mine.parquet").write_text("of somebody else")
    planned = {path.rpartition("/")[2] for path in lake.cleanup(older_than=NOW, dry_run=True, force=True)}
    assert len(planned) == 10
    assert planned < files
    assert [found.snapshot_id for found in lake.snapshots()] == [*versions, before]
    assert stored(project) == files | {"mine.parquet"}


def test_compact_in_batches(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeconf.upkeep._FILES_AT_ONCE", 3)
    before = ids(lake)
    done = lake.compact()
    assert done.files_after < done.files_before == 10
    assert ids(lake) == before


def test_flush_and_rewrite(lake: Lake) -> None:
    lake.table("raw.t").delete("id IN (0, 10, 20, 30, 40, 50, 60, 70, 80, 90)")
    before, version = ids(lake), lake.snapshot_id
    assert lake.flush().files_after == 20
    lake._state.writer.execute("CALL dev.set_option('rewrite_delete_threshold', 0.05)")
    assert lake.rewrite().files_after == 1
    assert ids(lake) == ids(lake, version) == before


def test_a_running_writer_keeps_what_it_has_staged(lake: Lake, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = project / "data" / "raw" / "t" / "lakeconf-0a1b"
    folder.mkdir()
    (folder / "part-0.parquet").write_text("rows")
    announce(lake._state.writer, f"{folder}/", lake._state.reader.lake_id)
    assert lake.cleanup(older_than=dt.timedelta(hours=1), force=True) == []
    monkeypatch.setattr("lakeconf.locks.WAIT_SECONDS", 0.1)
    with lake._state.lock.writing(), pytest.raises(CommitError, match=f"held by process {os.getpid()}"):
        lake.cleanup(older_than=NOW, force=True)
    assert {"part-0.parquet", "lakeconf-0a1b.parquet"} <= stored(project)
    assert sorted(lake.cleanup(older_than=NOW, force=True)) == [f"{folder}.parquet", f"{folder}/part-0.parquet"]


def test_maintain(lake: Lake, project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, files = ids(lake), stored(project)
    lake.close()
    planned = ["maintain", "dev", "--expire-days", "0", "--cleanup-days", "0", "--force"]
    assert run([*planned, "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        "expire    11 snapshots would be forgotten (versions 0 to 10)\nclean up  0 files would be removed\n"
    )
    assert stored(project) == files
    assert run([*planned, "--format", "json"]) == 0
    done: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert done["compacted"]["files_after"] < done["compacted"]["files_before"] == 10
    assert len(done["removed"]) == 10
    with lakeconf.init(project).get_store("dev").open() as reopened:
        assert ids(reopened) == rows
        assert len(reopened.snapshots()) == 1


def test_upkeep_of_a_pinned_lake_is_refused(lake: Lake) -> None:
    pinned = lake.at(version=3)
    for refused in (pinned.compact, pinned.flush, pinned.rewrite, lambda: pinned.cleanup(older_than=NOW, force=True)):
        with pytest.raises(LakeconfError, match="pinned at snapshot 3"):
            refused()
    with pytest.raises(LakeconfError, match="keep is 0"):
        lake.expire_snapshots(older_than=NOW, keep=0, force=True)
