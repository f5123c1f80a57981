"""The result of a write depends on whether COMMIT succeeded; the files of a possible commit are never removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import at_commit
from faulty_lake import refused
from lake_parts import session_of
from local_stores import ids, store_of

from lakeconf.commit import driver
from lakeconf.commit.sql_commit import SqlCommit
from lakeconf.errors import CommitUnknownError, ConnectionFailed

if TYPE_CHECKING:
    from servers import FaultProxy, PostgresServer

    from lakeconf import Store

MORE = pa.table({"id": pa.array([1, 2], pa.int64())})


def staged(folder: Path) -> list[Path]:
    return sorted(folder.glob("data/main/t/lakeconf-*/*"))


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


@pytest.mark.slow("on_spark")
def test_interrupt_after_the_commit_keeps_its_files(
    store: Store, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with store.open(engine) as lake:
        lake.create_table("t", like=MORE)
        at_commit(monkeypatch, after=interrupt)
        with pytest.raises(KeyboardInterrupt):
            lake.table("t").append(MORE)
        assert "was interrupted, but succeeded as snapshot 2" in caplog.text
        lake.refresh()
        assert ids(lake) == [1, 2]
        assert lake.table("t").append(MORE) == 3, "the same lake goes on"
        assert ids(lake) == [1, 1, 2, 2]
        at_commit(monkeypatch, after=interrupt)
        monkeypatch.setattr("lakeconf.commit.sql_commit.find_commit", lambda *_: interrupt())
        with pytest.raises(KeyboardInterrupt):
            lake.table("t").append(MORE)
    with store.open(engine) as lake:
        assert ids(lake) == [1, 1, 1, 2, 2, 2], "a second interrupt while the outcome is looked up keeps the files, too"


@pytest.mark.slow("on_spark")
def test_interrupt_before_the_commit_leaves_no_files(
    store: Store, engine: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open(engine) as lake:
        lake.create_table("t", like=MORE)
        at_commit(monkeypatch, before=interrupt)
        with pytest.raises(KeyboardInterrupt):
            lake.table("t").append(MORE)
        assert staged(tmp_path) == []
        lake.refresh()
        assert (ids(lake), lake.snapshot_id) == ([], 1)
        assert lake.table("t").append(MORE) == 2


@pytest.mark.slow("on_spark")
def test_write_succeeds_if_the_server_is_lost_after_the_commit(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    database: str,
    engine: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def unasked(*_: object) -> None:
        raise AssertionError("the outcome was known")

    def go_away() -> None:
        postgres_proxy.refuse()
        others = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        while postgres_server.sql(others, database) != "0":
            pass

    monkeypatch.setattr(driver, "LOOK_UP_SECONDS", 0.5)
    with direct.open() as lake:
        lake.create_table("t", like=MORE)
    with hurt.open(engine) as lake:
        with monkeypatch.context() as patch:
            at_commit(patch, after=postgres_proxy.drop_connections)
            assert lake.table("t").append(MORE) == 2
        with monkeypatch.context() as patch:
            at_commit(patch, after=go_away)
            patch.setattr("lakeconf.commit.sql_commit.find_commit", unasked)
            assert lake.table("t").append(MORE) == 3, "the reply to COMMIT is the proof: nothing is looked up"
        assert "could not be read" not in caplog.text
        postgres_proxy.heal()
        assert lake.refresh() == 3
    with direct.open(engine) as lake:
        assert ids(lake) == [1, 1, 2, 2]


@pytest.mark.slow
def test_commit_with_an_unknown_snapshot_is_looked_up_on_the_server(
    direct: Store, hurt: Store, postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """COMMIT succeeded, but DuckLake cannot return its snapshot: the catalog server is asked for it."""

    def forgotten(*_: object) -> int:
        raise ConnectionFailed("the connection was lost")

    monkeypatch.setattr(driver, "LOOK_UP_SECONDS", 0.5)
    monkeypatch.setattr(SqlCommit, "last_committed", forgotten)
    with direct.open() as lake:
        lake.create_table("t", like=MORE)
    with hurt.open() as lake:
        assert lake.table("t").append(MORE) == 2
        with monkeypatch.context() as patch:
            at_commit(patch, after=postgres_proxy.refuse)
            assert lake.table("t").append(MORE) == 2, "the last snapshot that the server has told"
        assert "succeeded, but its snapshot could not be read: CommitUnknownError" in caplog.text
        postgres_proxy.heal()
        assert lake.refresh() == 3
    with direct.open() as lake:
        assert ids(lake) == [1, 1, 2, 2]


def lose_reply_and_server(proxy: FaultProxy) -> None:
    proxy.reset_on(b"COMMIT", forward=True)
    proxy.reset_on(b"user\0", times=1000)  # every new connection sends this first


@pytest.mark.slow
def test_files_of_a_commit_with_an_unknown_outcome_are_kept(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    spark: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unknown = r"(?s)reply to a commit was lost, and the catalog does not answer.*may have.*token [0-9a-f]{32}"
    monkeypatch.setattr(driver, "LOOK_UP_SECONDS", 0.5)
    with direct.open() as lake:
        lake.create_table("t", like=MORE)
    with hurt.open(spark) as lake:
        at_commit(monkeypatch, before=lambda: lose_reply_and_server(postgres_proxy))
        with refused(CommitUnknownError, unknown, postgres_server.password):
            lake.table("t").append(MORE)
        postgres_proxy.heal()
    assert staged(tmp_path) != []
    with direct.open(spark) as lake:
        assert ids(lake) == [1, 2]


@pytest.mark.slow
def test_write_waits_for_a_commit_still_running_on_the_server(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    database: str,
    spark: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with direct.open() as lake:
        lake.create_table("t", like=MORE)

    def waiting(what: str) -> None:
        ask = f"SELECT count(*) FROM pg_locks WHERE {what} AND NOT granted"
        while postgres_server.sql(ask, database) == "0":
            pass

    def break_connection() -> None:
        waiting("locktype = 'advisory'")
        postgres_proxy.drop_connections()
        waiting("mode = 'ShareLock'")

    held = "SELECT 1 FROM (SELECT pg_advisory_xact_lock(77)) AS held"
    with hurt.open(spark) as lake, ThreadPoolExecutor(1) as pool, direct.connect() as other:
        lake.refresh()  # a lake that is opened later rejects the trigger
        postgres_server.sql(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_advisory_xact_lock(77); RETURN NULL; END'; "
            "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON ducklake_snapshot DEFERRABLE INITIALLY DEFERRED "
            "FOR EACH ROW EXECUTE FUNCTION slow()",
            database,
        )
        other.execute("BEGIN")
        other.execute(f"FROM postgres_query('__ducklake_metadata_dev', '{held}')").fetchall()

        def end() -> None:
            break_connection()
            other.execute("ROLLBACK")

        hold = pool.submit(end)
        assert lake.table("t").append(MORE) == 2
        hold.result()
    postgres_server.sql("DROP FUNCTION slow CASCADE", database)
    with direct.open(spark) as lake:
        assert ids(lake) == [1, 2]


@pytest.mark.slow("on_spark")
def test_write_succeeds_if_its_lock_is_lost_after_the_commit(
    direct: Store, postgres_server: PostgresServer, database: str, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose_the_lock() -> None:
        ended = "SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'"
        assert postgres_server.sql(ended, database) != ""

    with direct.open(engine) as lake:
        lake.create_table("t", like=MORE)
        at_commit(monkeypatch, after=lose_the_lock)
        assert lake.table("t").overwrite(MORE) == 2
        assert ids(lake) == [1, 2]


_HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow("on_spark")
def test_commit_is_not_repeated_if_the_catalog_is_locked_afterwards(
    tmp_path: Path, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")}
    store = store_of(tmp_path, catalog, meta_journal_mode="DELETE", meta_busy_timeout=1)
    holders = list[subprocess.Popen[str]]()

    def hold() -> None:
        command = [sys.executable, "-c", _HOLDER, str(catalog["uri"])]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        holders.append(holder)

    with store.open(engine) as lake:
        lake.create_table("t", like=MORE)
        at_commit(monkeypatch, after=hold)
        with ThreadPoolExecutor(1) as pool:
            # Another thread releases the lock while the write waits for the catalog.
            released = pool.submit(release_later, holders)
            assert lake.table("t").append(MORE) == 2
            released.result()
        lake.refresh()
        assert ids(lake) == [1, 2]


def release_later(holders: list[subprocess.Popen[str]]) -> None:
    while not holders:
        pass
    holders[0].communicate()


@pytest.mark.slow
def test_write_succeeds_if_staged_files_cannot_be_removed_afterwards(
    store: Store, spark: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(13, os.strerror(13))

    with store.open(spark) as lake:
        lake.create_table("t", like=MORE)
        monkeypatch.setattr(type(session_of(lake).engine), "release", refuse)
        assert lake.table("t").append(MORE) == 2
        assert "cannot remove files of write" in caplog.text
        assert ids(lake) == [1, 2]


def test_a_commit_whose_files_cannot_be_checked_now_does_not_fail(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A caller who is told that the write failed would repeat it."""

    def unreachable(*_: object) -> None:
        raise ConnectionFailed("server closed the connection")

    monkeypatch.setattr(driver, "LOOK_UP_SECONDS", 0.1)
    with store.open() as lake:
        lake.create_table("t", like=MORE)
        at_commit(monkeypatch, after=unreachable)
        monkeypatch.setattr("lakeconf.commit.sql_commit.check_written", unreachable)
        assert lake.table("t").append(MORE) == 2
        assert "succeeded, but its files could not be checked: ConnectionFailed" in caplog.text
        assert ids(lake) == [1, 2]
