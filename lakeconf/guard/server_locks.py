"""Locks of a lake whose catalog is on a server with locks: held in a transaction on a separate connection."""

from __future__ import annotations

import contextlib
import os
import socket
import time
import zlib
from collections.abc import Callable, Collection, Iterator

from lakeconf.backends.base import MetadataBackend, StoreNames
from lakeconf.backends.server import CatalogServer
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, ConnectionFailed, LakeconfError
from lakeconf.guard.locks import Held, wait_for
from lakeconf.logs import escaped

# How long one attempt waits in the server's queue. Later requests wait behind it, so maintenance gets its turn, and
# writers only wait briefly behind maintenance.
_ATTEMPT_SECONDS = 2.0
# Keys of tables are below this number, so the key of a lake never equals one of them.
_LAKE_KEY = 1 << 32


class ServerLocks:
    """Advisory locks of the catalog's server.

    They are held in transactions, because session locks would outlive their holder behind a connection pool. Each is
    held on a connection of its own to the catalog, beside those of the lake's reads and commits.

    Args:
        server: The server.
        backend: The metadata backend whose catalog it keeps.
        names: The names of the store.
        reader: The attached lake.
    """

    def __init__(
        self, server: CatalogServer, backend: MetadataBackend, names: StoreNames, reader: CatalogReader
    ) -> None:
        self._server = server
        self._reader = reader
        self._database = reader.metadata_database
        self._catalog_schema = backend.catalog_schema(names)
        self._schema = str(self._catalog_schema)
        self._is_checked = False

    @contextlib.contextmanager
    def __call__(self, tables: Collection[str]) -> Iterator[Held]:
        # All writers take them in the same order, so two writers never wait for each other.
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

    @property
    def _lake_key(self) -> int:
        return _LAKE_KEY + zlib.crc32(self._schema.encode())

    @contextlib.contextmanager
    def _hold(self, keys: list[int], what: str, *, shared: bool) -> Iterator[Held]:
        def take(held: _HeldOnServer) -> None:
            held.cursor = self._open()
            wait_for(lambda: self._try(held, keys, shared=shared), what, lambda: self._holders(keys))

        held = _HeldOnServer(self._open(), self._server, self._database, take)
        try:
            take(held)
            yield held
        finally:
            # A dead connection must not hide the outcome of the commit.
            held.release()

    def _try(self, held: _HeldOnServer, keys: list[int], *, shared: bool) -> bool:
        held.cursor.execute("BEGIN")
        started = time.monotonic()
        try:
            holder = f"lakeconf on {socket.gethostname()}, process {os.getpid()}"
            held.cursor.rows(self._server.prepare_locks(self._database, wait_seconds=_ATTEMPT_SECONDS, holder=holder))
            for key in keys:
                started = time.monotonic()
                held.cursor.rows(self._server.take_lock(self._database, key, shared=shared))
        except LakeconfError:
            held.roll_back()
            # Only the elapsed time identifies a lock timeout: the server's messages may be in another language.
            if time.monotonic() - started < 0.9 * _ATTEMPT_SECONDS:
                raise
            return False
        return True

    def _holders(self, keys: list[int]) -> str:
        with self._open() as cursor:
            found = cursor.rows(self._server.lock_holders(self._database, keys))
        return ", ".join(escaped(str(holder)) for (holder,) in found)

    def _open(self) -> Connection:
        cursor = self._reader.connection.cursor()
        try:
            if not self._is_checked:
                self._check_privileges(cursor)
                self._is_checked = True
        except BaseException:
            cursor.close()
            raise
        return cursor

    def _check_privileges(self, connection: Connection) -> None:
        query = self._server.unwritable(self._database, self._catalog_schema)
        refused = connection.rows(query) if query else []
        if refused:
            raise CatalogError(
                f"the role may not change the catalog's table {escaped(str(refused[0][0]))}, so nothing was written",
                hint="use a role with all privileges on the catalog's tables, or write attach_options = { read_only = "
                "true }",
            )


class _HeldOnServer:
    """A lock held in an open transaction."""

    def __init__(
        self, cursor: Connection, server: CatalogServer, database: str, take: Callable[[_HeldOnServer], None]
    ) -> None:
        self.cursor = cursor
        self._server = server
        self._database = database
        self._take = take

    def check(self) -> None:
        try:
            self.cursor.rows(self._server.check_connection(self._database))
        except LakeconfError as error:
            raise ConnectionFailed(
                f"the connection to the catalog's server that held the lock was lost, so nothing was written: "
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
        # Otherwise DuckDB rolls back when the connection is closed, and terminates the process if that fails.
        with contextlib.suppress(LakeconfError):
            self.cursor.execute("ROLLBACK")

    def release(self) -> None:
        try:
            self.roll_back()
        finally:  # a signal can arrive during the rollback; the server keeps the lock until the connection ends
            with contextlib.suppress(LakeconfError):
                self.cursor.close()
