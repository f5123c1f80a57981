"""The lock of a lake, and ages that no fast clock makes too great."""

from __future__ import annotations

import datetime as dt
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pytest
from commit_hooks import during
from lake_parts import session_of
from local_stores import on_postgres, store_of
from lock_files import held
from plain_sql import run_plain

from lakeconf.errors import LakeconfError
from lakeconf.guard.guard import Clock

if TYPE_CHECKING:
    from servers import PostgresServer

    from lakeconf import Lake, Store


NOW = dt.timedelta(0)
ROWS = pa.table({"n": pa.array([1], pa.int64())})


def file_store(folder: Path) -> Store:
    return store_of(folder, {"type": "sqlite", "uri": str(folder / "catalog.sqlite")})


def server_store(server: PostgresServer, folder: Path) -> Store:
    return store_of(folder, {**on_postgres(server), "metadata_schema": "lake"})


Look: TypeAlias = Callable[[], tuple[str, ...]]


def look_of(store: Store, folder: Path, server: PostgresServer | None) -> Look:
    """Shows how the locks of tables and of the lake are held; a server does not say which is which."""
    if server is None:
        paths = {name: folder / f"catalog.sqlite.lakeconf-{name}" for name in ("lock", "writers")}
        return lambda: tuple(f"{name} {held(path)}" for name, path in paths.items() if held(path) != "not at all")
    database = store.metadata_backend.database  # type: ignore[attr-defined]
    query = "SELECT mode FROM pg_locks WHERE locktype = 'advisory' AND granted ORDER BY mode"
    modes = {"ExclusiveLock": "alone", "ShareLock": "shared"}
    return lambda: tuple(modes[mode] for mode in server.sql(query, database).split())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["files", "postgres"])
def test_locks_held_by_writers_and_maintenance(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = request.getfixturevalue("postgres_server") if kind == "postgres" else None
    store = file_store(tmp_path) if server is None else server_store(server, tmp_path)
    look = look_of(store, tmp_path, server)
    write, remove, table_too = ("writers shared",), ("writers alone",), ("lock alone", "writers shared")
    with store.open() as lake:
        table, maintenance = lake.create_table("raw.t", ROWS), lake.maintenance
        table.overwrite(ROWS)
        assert look() == ()
        for statement, do, expected in (
            ("COMMIT", lambda: table.append(ROWS), write),
            ("COMMIT", lambda: table.overwrite(ROWS), table_too),
            ("COMMIT", lambda: table.delete("n = 2"), table_too),
            ("ducklake_expire_snapshots", lambda: maintenance.expire_snapshots(older_than=NOW, force=True), remove),
            ("scheduled_for_deletion WHERE", lambda: maintenance.cleanup(older_than=NOW, force=True), remove),
            ("CALL ducklake_merge", maintenance.compact, write),
            ("CALL ducklake_rewrite", maintenance.rewrite, write),
        ):
            with monkeypatch.context() as patch:
                seen = during(lake, patch, statement, look)
                do()
            shown = expected if server is None else tuple(one.split()[1] for one in expected)
            assert set(seen) == {shown}, statement
        with lake.transaction() as transaction:
            transaction.table("raw.t").append(ROWS)
            assert [one.split()[-1] for one in look()] == ["shared"]
        assert look() == ()
        with pytest.raises(ZeroDivisionError), lake.transaction():
            raise ZeroDivisionError
        assert look() == ()


@pytest.mark.slow
def test_inlined_delete_during_a_compaction_is_kept(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckLake itself would commit the merge of the files concurrently, and restore the deleted rows."""
    store = server_store(postgres_server, tmp_path)
    options = {"data_inlining_row_limit": 10}
    inlining = type(store)("other", store.metadata_backend, store.storage_backend, attach_options=options)
    with store.open() as lake, inlining.open() as other:
        table = lake.create_table("raw.t", ROWS)
        for number in range(4):
            table.append(pa.table({"n": pa.array(range(100 * number, 100 * number + 100), pa.int64())}))
        other.refresh()
        original = type(session_of(lake).writer).rows
        overtaken: list[int] = []

        def rows(self: Any, sql: str, *rest: Any) -> Any:
            if self is not session_of(lake).writer or "ducklake_merge" not in sql or overtaken:
                return original(self, sql, *rest)
            found = original(self, sql, *rest)
            overtaken.append(other.table("raw.t").delete("n IN (5, 205)"))
            return found

        monkeypatch.setattr(type(session_of(lake).writer), "rows", rows)
        lake.maintenance.compact()
        assert overtaken
        assert len(table.scan().collect("pyarrow")) == 398


DAY = dt.timedelta(days=1)
ROWS_OF_CLOCK = pa.table({"id": pa.array(range(10), pa.int64())})


def set_clock(monkeypatch: pytest.MonkeyPatch, days: float) -> None:
    """Sets the clock of this process forward, or back."""
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + days * 86_400)


def fill(lake: Lake, data: Path) -> Path:
    """Makes snapshots that could expire, a file that is scheduled for deletion, and the file of a running write."""
    table = lake.create_table("t", ROWS_OF_CLOCK)
    for _ in range(2):
        table.append(ROWS_OF_CLOCK)
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
    now = time.time()
    for seconds in (-1000, 1000):
        assert Clock(lambda: now + seconds).now().timestamp() < now + min(seconds, 0) + 10, "that of the server, too"  # noqa: B023


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

        def unreachable() -> Any:
            raise LakeconfError("the server does not answer")

        monkeypatch.setattr(session_of(lake).clock, "_server_time", unreachable)
        for remove in (lake.maintenance.expire_snapshots, lake.maintenance.cleanup):
            with pytest.raises(LakeconfError, match="does not answer"):
                remove(older_than=DAY)


def test_snapshots_of_a_writer_whose_clock_is_behind_are_kept(tmp_path: Path) -> None:
    with store_of(tmp_path).open() as lake:
        fill(lake, tmp_path / "data")
        first, *young, newest = [found.snapshot_id for found in lake.snapshots()]

        def stamp(version: int, days: int) -> None:
            run_plain(
                lake,
                f"UPDATE __ducklake_metadata_dev.ducklake_snapshot SET snapshot_time = now() + INTERVAL '{days} days' "
                f"WHERE snapshot_id = {version}",
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
        run_plain(
            lake,
            "UPDATE __ducklake_metadata_dev.ducklake_snapshot SET snapshot_time = now() - INTERVAL '10 days' "
            f"WHERE snapshot_id >= {later}",
        )
        set_clock(monkeypatch, -3)
        assert lake.maintenance.expire_snapshots(older_than=DAY) == []
