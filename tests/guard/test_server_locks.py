"""Locks on a server, held in transactions."""

from __future__ import annotations

import os
import re
import socket
import zlib
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from commit_hooks import during
from lake_parts import session_of
from local_stores import on_postgres, store_of

from lakeconf.backends.server import CatalogServer as Server
from lakeconf.errors import CatalogError, CommitError, ConnectionFailed, LakeconfError, QueryError
from lakeconf.guard import locks
from lakeconf.guard import locks as server_locks
from lakeconf.guard.guard import locks_of, reader_of
from lakeconf.guard.locks import ServerLocks, _HeldOnServer
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf import Store

TABLE = "raw.days"
ROWS = pa.table({"n": pa.array([1], pa.int64())})
HERE = f"lakeconf on {socket.gethostname()}, process {os.getpid()}"
KILL = (
    "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity "
    "WHERE application_name LIKE 'lakeconf on %' AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
)


class LockedDatabase:
    """A database, and locks of the lakes in it."""

    def __init__(self, server: PostgresServer, folder: Path, opened: ExitStack) -> None:
        self.backend = {**on_postgres(server), "metadata_schema": "lake"}
        self._server, self._folder, self._opened = server, folder, opened

    def sql(self, statement: str) -> str:
        return self._server.sql(statement, self.backend["database"])

    def store(self, **changed: Any) -> Store:
        return store_of(self._folder, self.backend | changed)

    def locks(self, **changed: Any) -> ServerLocks:
        """The locks of a lake, which is created if it does not exist."""
        store = self.store(**changed)
        connection = self._opened.enter_context(open_connection(store))
        found = locks_of(
            store.metadata_backend, store.names, reader_of(store.metadata_backend, store.names, connection)
        )
        assert isinstance(found, ServerLocks)
        return found

    def held(self) -> list[tuple[int, str]]:
        """The keys and modes of the held locks."""
        query = (
            "SELECT (classid::bigint << 32) + objid::bigint, mode FROM pg_locks "
            "WHERE locktype = 'advisory' AND granted "
            "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) ORDER BY 1"
        )
        rows = [line.split("|") for line in self.sql(query).splitlines()]
        return [(int(key), mode) for key, mode in rows]


@pytest.fixture
def database(postgres_server: PostgresServer, tmp_path: Path) -> Iterator[LockedDatabase]:
    with ExitStack() as opened:
        yield LockedDatabase(postgres_server, tmp_path, opened)


@pytest.fixture
def one(database: LockedDatabase) -> ServerLocks:
    return database.locks()


@pytest.fixture
def other(database: LockedDatabase) -> ServerLocks:
    return database.locks()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.1)
    monkeypatch.setattr(server_locks, "_ATTEMPT_SECONDS", 0.1)


def key(text: str) -> int:
    return zlib.crc32(text.encode())


def test_keys_of_a_lake_and_of_tables(one: ServerLocks, database: LockedDatabase) -> None:
    with one.shared():
        assert database.held() == [((1 << 32) + key("lake"), "ShareLock")]
    with one.exclusive():
        assert database.held() == [((1 << 32) + key("lake"), "ExclusiveLock")]
    with one(["raw.t", "raw.u", "raw.t"]):
        keys = sorted([key("lake/raw.t"), key("lake/raw.u")])
        assert database.held() == [(one_key, "ExclusiveLock") for one_key in keys]
    assert database.held() == []
    with pytest.raises(ZeroDivisionError), one.shared():
        raise ZeroDivisionError
    assert database.held() == []


def test_locks_of_tables_are_taken_in_the_order_of_their_keys(
    one: ServerLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So two writers never wait for each other."""
    taken, take = list[int](), Server.take_lock

    def recorded(self: Server, database: str, key: int, *, shared: bool) -> str:
        taken.append(key)
        return take(self, database, key, shared=shared)

    monkeypatch.setattr(Server, "take_lock", recorded)
    names = [f"raw.t{number}" for number in range(8)]
    with one(names):
        pass
    assert taken == sorted(taken)
    assert len(taken) == 8


@pytest.mark.usefixtures("impatient")
def test_locks_exclude_each_other_and_errors_name_the_holder(one: ServerLocks, other: ServerLocks) -> None:
    who = re.escape(f"was not free for 0 s: it is held by {HERE} (server process ")
    with one.shared(), other.shared():
        with pytest.raises(CommitError, match=rf"^the lock of the lake {who}") as caught, other.exclusive():
            raise AssertionError
        assert caught.value.hint == "try again later"
        with one(["raw.t", "raw.a"]):
            with pytest.raises(CommitError, match=rf"^the lock of raw\.b, raw\.t {who}"), other(["raw.t", "raw.b"]):
                raise AssertionError
            with other(["raw.b", "raw.T"]):
                pass
    with one.exclusive(), pytest.raises(CommitError, match=f"^the lock of the lake {who}"), other.shared():
        raise AssertionError
    with other.exclusive():
        pass


@pytest.mark.usefixtures("impatient")
def test_lakes_with_other_schemas_have_other_locks(one: ServerLocks, database: LockedDatabase) -> None:
    other = database.locks(metadata_schema="other")
    with one.exclusive(), one(["raw.t"]), other.exclusive(), other(["raw.t"]):
        assert len({key for key, _ in database.held()}) == 4


def test_error_that_is_no_timeout_is_raised_at_once(
    one: ServerLocks, database: LockedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Server, "take_lock", lambda *_, **__: "SELECT error('no such function')")
        with pytest.raises(QueryError, match="no such function"), one.shared():
            raise AssertionError
    assert database.sql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == "0"
    with one.shared():
        pass


def test_elapsed_time_of_an_attempt_counts_from_its_last_lock(
    one: ServerLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error after a long wait for another lock is no timeout."""
    monkeypatch.setattr(server_locks, "_ATTEMPT_SECONDS", 0.3)
    wait = "FROM postgres_query('__ducklake_metadata_dev', 'SELECT 1 FROM (SELECT pg_sleep(0.4)) AS slept')"
    statements = iter([wait, "SELECT error('no such function')"])
    monkeypatch.setattr(Server, "take_lock", lambda *_, **__: next(statements))
    with pytest.raises(QueryError, match="no such function"), one(["raw.t", "raw.u"]):
        raise AssertionError


@pytest.mark.usefixtures("impatient")
def test_holder_that_the_server_describes_is_escaped(
    one: ServerLocks, other: ServerLocks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Server, "lock_holders", lambda *_: "VALUES ('evil' || chr(27) || '[2J'), ('second')")
    with one.exclusive(), pytest.raises(CommitError) as caught, other.shared():
        raise AssertionError
    assert caught.value.message.endswith(r"held by evil\x1b[2J, second")


def test_locks_need_no_other_instance_of_duckdb(database: LockedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock has its own connection to the server, which the next transaction of the lake can use after it."""
    backends = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    with database.store().open() as lake:
        table = lake.create_table("raw.t", ROWS)
        lake.sql("SELECT 1")  # the parser has a DuckDB of its own
        before = database.sql(backends)
        monkeypatch.setattr(duckdb, "connect", None)
        with session_of(lake).guard.writing(), session_of(lake).guard(["raw.t"]):
            assert [mode for _, mode in database.held()] == ["ExclusiveLock", "ShareLock"]
            assert lake.sql("SELECT count(*) FROM raw.t").collect("pyarrow").rows() == [(0,)]
        for _ in range(5):
            table.append(ROWS)
        assert int(database.sql(backends)) <= int(before) + 2
    assert database.held() == []


def test_locks_of_a_closed_lake_are_refused(database: LockedDatabase) -> None:
    with database.store().open() as lake:
        guard = session_of(lake).guard
    with pytest.raises(LakeconfError, match="the lake is closed"), guard(["raw.t"]):
        raise AssertionError


@pytest.mark.slow
@pytest.mark.parametrize("privilege", ["INSERT", "UPDATE", "DELETE"])
def test_role_that_may_not_change_the_catalog_gets_no_lock(privilege: str, database: LockedDatabase) -> None:
    with database.store().open() as lake:
        lake.create_table("t", {"n": "BIGINT"})
    role = f"clerk_{privilege.lower()}_{os.getpid()}"
    database.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'of-the-clerk'; GRANT USAGE ON SCHEMA lake TO {role}")
    database.sql(f"GRANT ALL ON ALL TABLES IN SCHEMA lake TO {role}")
    database.sql(f"REVOKE {privilege} ON lake.ducklake_snapshot FROM {role}")
    found = database.locks(user=role, password="of-the-clerk")
    for lock in (found(["t"]), found.shared(), found.exclusive()):
        with pytest.raises(CatalogError, match="may not change the catalog's table ducklake_snapshot"), lock:
            pass
    assert database.sql("SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'") == "0"
    database.sql(f"GRANT {privilege} ON lake.ducklake_snapshot TO {role}")
    with found.shared():
        assert len(database.held()) == 1


def test_lost_lock_is_reported_and_taken_again(one: ServerLocks, database: LockedDatabase) -> None:
    with one.shared() as held:
        assert isinstance(held, _HeldOnServer)
        cursor = held.cursor
        held.check()
        held.renew()
        assert held.cursor is cursor, "it was not lost"
        database.sql(KILL)
        with pytest.raises(ConnectionFailed) as caught:
            held.check()
        lost = "the connection to the catalog's server that held the lock was lost, so nothing was written: "
        assert caught.value.message.startswith(lost)
        assert len(caught.value.message) > len(lost)
        assert caught.value.hint
        held.renew()
        held.check()
        assert held.cursor is not cursor
        with pytest.raises(LakeconfError, match="closed"):
            cursor.execute("SELECT 1")
        assert [mode for _, mode in database.held()] == ["ShareLock"]
    assert database.held() == []
    with pytest.raises(LakeconfError, match="closed"):
        held.cursor.execute("SELECT 1")
    with one.exclusive():
        database.sql(KILL)
    assert database.held() == [], "a lost lock can be released"


def test_lock_lost_before_the_commit_fails_the_write(database: LockedDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    with database.store().open() as lake:
        table = lake.create_table("raw.t", ROWS)
        before = lake.snapshot_id
        with monkeypatch.context() as patch:
            during(lake, patch, "ducklake_set_commit_message", lambda: database.sql(KILL))
            with pytest.raises(ConnectionFailed, match="held the lock was lost, so nothing was written"):
                table.append(ROWS)
        assert lake.refresh() == before
        table.append(ROWS)
        assert len(table.scan().collect()) == 1


def test_write_reacquires_only_its_own_lock(database: LockedDatabase) -> None:
    with database.store().open() as lake:
        table = lake.create_table("raw.t", ROWS)
        with session_of(lake).guard.writing() as other:
            assert isinstance(other, _HeldOnServer)
            other.release()
            table.append(ROWS)
            assert database.held() == []


def test_a_signal_while_a_lock_is_released_frees_the_lock(
    database: LockedDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    with database.store().open() as lake:
        lake.create_table(TABLE, like={"n": "BIGINT"})

        def interrupted(_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:  # noqa: PT012
            patch.setattr(_HeldOnServer, "roll_back", interrupted)
            lake.table(TABLE).append(pa.table({"n": [1]}))
        assert caught.traceback, "a notebook keeps the frames of the last error, and with them the connection"
        assert database.held() == []
