"""Ages are measured by the earliest of several clocks, so that a clock that is ahead removes nothing too early."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import on_postgres, store_of

from lakeconf.errors import LakeconfError
from lakeconf.guard.guard import Clock

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf import Lake

DAY = dt.timedelta(days=1)
ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


def set_clock(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """Sets the clock of this process forward, or back."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + days * 86_400)


def fill(lake: Lake, data: Path) -> Path:
    """Makes snapshots that could expire, a file that is scheduled for deletion, and the file of a running write."""
    table = lake.create_table("t", ROWS)
    for _ in range(2):
        table.append(ROWS)
    lake.maintenance.compact()
    (running := data / "main" / "t" / "ducklake-01234567-89ab-7cde-8f01-23456789abcd.parquet").write_text("rows")
    return running


def removed(lake: Lake) -> tuple[list[int], list[str]]:
    return lake.maintenance.expire_snapshots(older_than=DAY), lake.maintenance.cleanup(older_than=DAY)


@pytest.mark.parametrize("days", [-3, 0, 3])
def test_the_earliest_time_counts(days: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    set_clock(monkeypatch, days)
    behind = dt.datetime.now(dt.UTC) + min(days, 0) * DAY - clock.now()
    assert abs(behind.total_seconds()) < 10
    assert ("was set, or differs" in caplog.text) == (days != 0)


def test_the_time_of_the_server_counts_if_it_is_earlier() -> None:
    now = time.time()
    assert Clock(lambda: now - 1000).now().timestamp() < now - 990
    assert Clock(lambda: now + 1000).now().timestamp() < now + 10


def test_a_clock_that_is_set_forward_removes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_of(tmp_path).open() as lake:
        running = fill(lake, tmp_path / "data")
        set_clock(monkeypatch, 3)
        assert removed(lake) == ([], [])
        with pytest.raises(LakeconfError, match="less than a day"):
            lake.maintenance.cleanup(older_than=dt.datetime.fromtimestamp(time.time(), dt.UTC) - DAY)
        assert running.exists()
        long_ago = running.stat().st_mtime - 2 * 86_400
        os.utime(running, (long_ago, long_ago))
        assert removed(lake) == ([], [str(running)])


def test_a_machine_that_is_ahead_of_the_server_removes_nothing(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_clock(monkeypatch, 3)
    with store_of(tmp_path, on_postgres(postgres_server)).open() as lake:
        running = fill(lake, tmp_path / "data")
        assert removed(lake) == ([], [])
        assert running.exists()


def test_a_server_without_a_reply_stops_the_removal(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_of(tmp_path, on_postgres(postgres_server)).open() as lake:
        fill(lake, tmp_path / "data")

        def unreachable() -> Any:
            raise LakeconfError("the server does not answer")

        monkeypatch.setattr(lake._session.clock, "_server_time", unreachable)
        for remove in (lake.maintenance.expire_snapshots, lake.maintenance.cleanup):
            with pytest.raises(LakeconfError, match="does not answer"):
                remove(older_than=DAY)


def test_snapshots_of_a_writer_whose_clock_is_behind_are_kept(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake:
        fill(lake, tmp_path / "data")
        first, *young, newest = [found.snapshot_id for found in lake.snapshots()]

        def stamp(version: int, days: int) -> None:
            lake._session.writer.execute(
                f"UPDATE __ducklake_metadata_dev.ducklake_snapshot SET snapshot_time = now() + INTERVAL '{days} days' "
                f"WHERE snapshot_id = {version}"
            )

        # The marker knows the time of the first snapshot, which another writer would have set to begin with.
        marker = tmp_path / "data" / "_lakeconf.json"
        known = json.loads(marker.read_text())
        marker.write_text(json.dumps({key: value for key, value in known.items() if not key.startswith("snapshot")}))
        for version in young:
            stamp(version, -3)
        assert lake.maintenance.expire_snapshots(older_than=DAY) == []
        stamp(first, -3)
        assert lake.maintenance.expire_snapshots(older_than=DAY, dry_run=True) == [first, *young]
        # A snapshot of the future is kept, and does not keep others.
        stamp(first, 300)
        assert lake.maintenance.expire_snapshots(older_than=DAY) == young
        assert [found.snapshot_id for found in lake.snapshots()] == [first, newest]


def test_a_clock_that_is_set_back_does_not_hide_the_right_times_of_snapshots(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store_of(tmp_path).open() as lake:
        fill(lake, tmp_path / "data")
        later = lake.snapshots()[1].snapshot_id
        lake._session.writer.execute(
            "UPDATE __ducklake_metadata_dev.ducklake_snapshot SET snapshot_time = now() - INTERVAL '10 days' "
            f"WHERE snapshot_id >= {later}"
        )
        set_clock(monkeypatch, -3)
        assert lake.maintenance.expire_snapshots(older_than=DAY) == []
