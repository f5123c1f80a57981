"""Locks of a lake whose catalog is on a server that has locks: held in a transaction, on a connection of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping

from lakeconf.backends.base import StoreNames
from lakeconf.connection.connection import Connection, connect
from lakeconf.errors import ConnectionFailed, LakeconfError
from lakeconf.guard.locks import Held, wait_for
from lakeconf.logs import escaped
from lakeconf.sql import Attach, LoadExtension, Value, literal
from lakeconf.store import Store

_DATABASE = "lakeconf_lock"
# One attempt queues for so long: whoever comes later waits behind it, so that a waiting maintenance gets its turn and
# writers are not stopped for long by a writer that it waits for.
_ATTEMPT_SECONDS = 2.0
# Keys of tables are below; that of the lake can be none of them.
_LAKE_KEY = 1 << 32


class ServerLocks:
    """Advisory locks of the catalog's server.

    They are held in transactions, as the locks of a session would outlive their holder in a pool of connections. One
    instance of DuckDB serves all locks of an open lake.

    Args:
        store: The store.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._instance: Connection | None = None
        self._opening = threading.Lock()
        schema = store.metadata_backend.ducklake_options(StoreNames(store.name, store.alias)).get("metadata_schema")
        self._schema = str(schema)

    @contextlib.contextmanager
    def __call__(self, tables: Collection[str]) -> Iterator[Held]:
        # Everybody takes them in one order, so that no two writers wait for each other.
        keys = sorted({zlib.crc32(f"{self._schema}/{table}".encode()) for table in tables})
        with self._hold(keys, f"the lock of {', '.join(sorted(tables))}", shared=False) as held:
            yield held

    @contextlib.contextmanager
    def shared(self) -> Iterator[Held]:
        with self._hold([self._lake_key], "the lock of the lake", shared=True) as held:
            yield held

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Held]:
        with self._hold([self._lake_key], "the lock of the lake", shared=False) as held:
            yield held

    def close(self) -> None:
        with self._opening:
            if self._instance is not None:
                self._instance.close()
                self._instance = None

    @property
    def _lake_key(self) -> int:
        return _LAKE_KEY + zlib.crc32(self._schema.encode())

    @contextlib.contextmanager
    def _hold(self, keys: list[int], what: str, *, shared: bool) -> Iterator[Held]:
        def take(held: _HeldOnServer) -> None:
            held.cursor = self._open().cursor()
            wait_for(lambda: self._try(held, keys, shared=shared), what, lambda: self._holders(keys))

        held = _HeldOnServer(self._open().cursor(), take)
        try:
            take(held)
            yield held
        finally:
            # A connection that has died must not hide what became of the commit.
            held.release()

    def _try(self, held: _HeldOnServer, keys: list[int], *, shared: bool) -> bool:
        backend = self._store.metadata_backend
        held.cursor.execute("BEGIN")
        started = time.monotonic()
        try:
            held.query(_settings_sql())
            for key in keys:
                started = time.monotonic()
                held.query(str(backend.lock_sql(key, shared=shared)))
        except LakeconfError:
            held.roll_back()
            # Only the time tells a lock that was not free: the words of the server are in its own language.
            if time.monotonic() - started < 0.9 * _ATTEMPT_SECONDS:
                raise
            return False
        return True

    def _holders(self, keys: list[int]) -> str:
        with self._open().cursor() as cursor:
            found = cursor.rows(f"FROM postgres_query({literal(_DATABASE)}, {literal(_holders_sql(keys))})")
        return ", ".join(escaped(str(holder)) for (holder,) in found)

    def _open(self) -> Connection:
        with self._opening:
            if self._instance is None:
                self._instance = self._connected()
            return self._instance

    def _connected(self) -> Connection:
        names = StoreNames(self._store.name, self._store.alias)
        backend = self._store.metadata_backend
        options = backend.ducklake_options(names)
        connection = connect(self._store.secrets)
        try:
            for extension in backend.extensions:
                connection.run(LoadExtension(extension))
            for secret in backend.secrets(names):
                connection.run(secret)
            connection.run(Attach(str(options["metadata_path"]), _DATABASE, _parameters(options)))
        except BaseException:
            connection.close()
            raise
        return connection


class _HeldOnServer:
    """A lock in an open transaction of a connection."""

    def __init__(self, cursor: Connection, take: Callable[[_HeldOnServer], None]) -> None:
        self.cursor = cursor
        self._take = take

    def query(self, sql: str) -> None:
        self.cursor.rows(f"FROM postgres_query({literal(_DATABASE)}, {literal(sql)})")

    def check(self) -> None:
        try:
            self.query("SELECT 1")
        except LakeconfError as error:
            raise ConnectionFailed(
                f"the connection to the catalog's server that held the lock was lost, so that nothing was written: "
                f"{error.message}",
                hint=error.hint or "try again",
            ) from error

    def renew(self) -> None:
        try:
            self.check()
        except ConnectionFailed:
            self.release()
            self._take(self)

    def roll_back(self) -> None:
        # Without it DuckDB rolls back when the connection is closed, and ends the process if that fails.
        with contextlib.suppress(LakeconfError):
            self.cursor.execute("ROLLBACK")

    def release(self) -> None:
        self.roll_back()
        with contextlib.suppress(LakeconfError):
            self.cursor.close()


def _settings_sql() -> str:
    """The query that prepares a transaction for locks."""
    settings = {
        "lock_timeout": f"{_ATTEMPT_SECONDS * 1000:.0f}",
        # A write may take hours between the lock and its commit: the server must not end the transaction meanwhile.
        "idle_in_transaction_session_timeout": "0",
        "application_name": f"lakeconf on {socket.gethostname()}, process {os.getpid()}"[:63],
    }
    calls = ", ".join(f"set_config({literal(name)}, {literal(text)}, true)" for name, text in settings.items())
    # The server knows this setting from version 17 on.
    known = "current_setting('transaction_timeout', true) <> ''"
    newer = f"CASE WHEN {known} THEN set_config('transaction_timeout', '0', true) END"
    return f"SELECT 1 FROM (SELECT {calls}, {newer}) AS settings"  # noqa: S608 - settings of this module


def _holders_sql(keys: Collection[int]) -> str:
    """The query that describes who holds locks. To roles without rights the server tells less."""
    wanted = ", ".join(f"({key >> 32}, {key & 0xFFFFFFFF})" for key in keys)
    holder = (
        "concat(a.application_name, ' (server process ', l.pid, ', from ', coalesce(host(a.client_addr), "
        "'its own machine'), ', since ' || to_char(a.xact_start, 'YYYY-MM-DD HH24:MI:SSOF'), ')')"
    )
    database = "(SELECT oid FROM pg_database WHERE datname = current_database())"
    held = f"l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 AND l.database = {database}"
    tables = "pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid"
    among = f"(l.classid::bigint, l.objid::bigint) IN ({wanted})"
    return f"SELECT {holder} AS holder FROM {tables} WHERE {held} AND {among} ORDER BY a.xact_start LIMIT 5"  # noqa: S608 - numbers


def _parameters(options: Mapping[str, Value]) -> Mapping[str, Value]:
    parameters = options.get("metadata_parameters")
    return parameters if isinstance(parameters, Mapping) else {}
