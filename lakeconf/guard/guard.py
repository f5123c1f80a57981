"""The guard of a lake: its locks, the marker that tells where its catalog is, and the clock of its server."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from lakeconf.backends.backend import MetadataBackend, StorageBackend, StoreNames
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitError, ConnectionFailed, LakeconfError
from lakeconf.guard.locks import FileLocks, Held, LakeLocks, ServerLocks
from lakeconf.guard.marker import LakeMarker
from lakeconf.logs import event_logger

_log = event_logger("maintenance")
_TOLERANCE_SECONDS = 60.0


def reader_of(backend: MetadataBackend, names: StoreNames, connection: Connection) -> CatalogReader:
    """A reader of the metadata of a store's lake."""
    return CatalogReader(connection, names.alias, backend.catalog_schema(names))


def places(backend: MetadataBackend, reader: CatalogReader) -> Sequence[str]:
    """Identifiers of the location of a catalog; the location is the same if one identifier is equal."""
    file, server = backend.file(), backend.server()
    if file is not None:
        return _of_file(file.resolve())
    if server is None:
        return ()
    database = reader.metadata_database
    identifiers = [_ask(reader, server.catalog_id(database, reader.metadata_schema))]
    try:
        identifiers.append(_ask(reader, server.server_id(database)))
    except ConnectionFailed:
        raise  # otherwise the marker would name another place
    except LakeconfError:
        identifiers.append("server not known")  # the role lacks the privilege
    return (" of ".join(identifiers),)


def future_place(backend: MetadataBackend, connection: Connection, database: str, schema: str) -> str:
    """An identifier of the location of a catalog that may not exist yet; on a server, `database` is attached."""
    file, server = backend.file(), backend.server()
    if file is not None:
        return _of_path(file.resolve())
    if server is None:
        return ""
    with connection.cursor() as cursor:
        # The schema may not exist either; this one always does.
        ((place,),) = cursor.rows(server.catalog_id(database, "pg_catalog"))
        try:
            ((server_id,),) = cursor.rows(server.server_id(database))
        except ConnectionFailed:
            raise
        except LakeconfError:
            server_id = server.description  # the role lacks the privilege
    return f"{place} of {server_id}: {schema}"


def neighbours(backend: MetadataBackend) -> Sequence[str]:
    """Location identifiers of the files next to a catalog; empty if the catalog is not a file."""
    file = backend.file()
    if file is None:
        return ()
    real = file.resolve()
    beside = (path for path in real.parent.iterdir() if path != real and path.is_file() and not path.is_symlink())
    return [mark for path in beside for mark in _of_file(path)]


def _of_file(path: Path) -> Sequence[str]:
    # A move within a file system keeps the inode number; a restored backup keeps the path. The first files of two new
    # file systems often have the same number, so the identifier includes the id of the file system.
    return (f"inode {os.statvfs(path).f_fsid}:{path.stat().st_ino}", _of_path(path))


def _of_path(path: Path) -> str:
    return f"path {socket.gethostname()}:{path}"


def _ask(reader: CatalogReader, query: str) -> str:
    with reader.connection.cursor() as cursor:
        rows = cursor.rows(query)
    return str(rows[0][0])


class LakeGuard:
    """The locks and the marker of an open lake."""

    def __init__(self, locks: LakeLocks | None, marker: LakeMarker | None) -> None:
        self.marker = marker
        self._locks = locks
        # The number of open writes by thread id. A transaction may end in another thread than it began.
        self._writing: Counter[int] = Counter()
        self._counting = threading.Lock()

    def __call__(self, tables: Collection[str]) -> AbstractContextManager[Held]:
        """The locks of tables."""
        if self._locks is None:
            raise CommitError(
                "the metadata backend has no locks, so only plain appends are safe",
                hint="use append, or a metadata backend with locks",
            )
        return self._locks(tables)

    def holders(self) -> int | None:
        """The number of writers, or of maintenance, that hold the lock of the lake; None if nobody can tell."""
        return None if self._locks is None else self._locks.holders()

    @contextlib.contextmanager
    def writing(self) -> Iterator[Held | None]:
        """Protects a write from before its first staged file until the reply to its commit."""
        if self.marker is not None:
            self.marker.before_write()
        if self._locks is None:
            yield None
            return
        with self._locks.shared() as lock, self._counted():
            yield lock

    @contextlib.contextmanager
    def keeping_files(self) -> Iterator[None]:
        """Protects the files of the lake from maintenance, while writers go on."""
        if self._locks is None:
            yield
            return
        with self._locks.shared(), self._counted():
            yield

    @contextlib.contextmanager
    def removing(self, *, force: bool = False) -> Iterator[None]:
        """Protects maintenance that removes snapshots or files: no writer of lakeconf is active at the same time."""
        if self._locks is None and not force:
            raise CommitError(
                "the metadata backend has no locks, so this cannot wait for writers: nothing was removed",
                hint="pass force=True, or --force, if nothing else uses the lake",
            )
        if self._locks is None:
            yield
            return
        if self._writing[threading.get_ident()]:
            raise LakeconfError(
                "this thread has an open transaction of this lake, and maintenance waits until all writes have ended",
                hint="end the transaction first: call maintenance after the `with` block",
            )
        with self._locks.exclusive():
            yield

    @contextlib.contextmanager
    def _counted(self) -> Iterator[None]:
        thread = threading.get_ident()
        with self._counting:
            self._writing[thread] += 1
        try:
            yield
        finally:
            with self._counting:
                self._writing[thread] -= 1
                self._writing += Counter()  # removes threads without open writes


def guard_of(
    reader: CatalogReader, metadata: MetadataBackend, storage: StorageBackend | None, names: StoreNames
) -> LakeGuard:
    """The guard of an attached lake."""
    marker = None if storage is None else marker_of(reader, metadata)
    return LakeGuard(locks_of(metadata, names, reader), marker)


def marker_of(reader: CatalogReader, backend: MetadataBackend) -> LakeMarker:
    """The marker of an attached lake, with the metadata backend of its store."""
    return LakeMarker(reader, partial(places, backend, reader), partial(neighbours, backend))


def locks_of(backend: MetadataBackend, names: StoreNames, reader: CatalogReader) -> LakeLocks | None:
    """The locks of a store's lake; None if its metadata backend has none. The arguments are those of `guard_of`."""
    file, server = backend.file(), backend.server()
    if file is not None:
        return FileLocks(file)
    return None if server is None else ServerLocks(server, backend, names, reader)


class Clock:
    """Shows the earliest of several times.

    With a clock that is ahead, snapshots and files look older than they are, and would be removed too early. With a
    clock that is behind, they are only removed later. The times are those of this machine, of this machine if nobody
    had set its clock since the lake was opened, and of the catalog's server.
    """

    def __init__(self, server_time: Callable[[], float] | None = None) -> None:
        self._server_time = server_time
        # The monotonic clock runs on evenly when the other one is set.
        self._offset = time.time() - time.monotonic()

    def now(self) -> datetime:
        """The earliest time, in UTC; see `span`."""
        return self.span()[0]

    def span(self) -> tuple[datetime, datetime]:
        """The earliest and the latest time, in UTC."""
        times = [time.time(), self._offset + time.monotonic()]
        if self._server_time is not None:
            times.append(self._server_time())
        earliest, latest = min(times), max(times)
        if latest - earliest > _TOLERANCE_SECONDS:
            _log.warning(
                "the clock of this machine was set, or differs from that of the catalog's server, by %.0f s: ages of "
                "snapshots and files are measured by the earlier time",
                latest - earliest,
            )
        return datetime.fromtimestamp(earliest, UTC), datetime.fromtimestamp(latest, UTC)


def clock_of(reader: CatalogReader, backend: MetadataBackend) -> Clock:
    """The clock of an attached lake, with the metadata backend of its store."""
    server = backend.server()
    if server is None:
        return Clock()
    query = server.clock(reader.metadata_database)

    def server_time() -> float:
        ((seconds,),) = reader.connection.rows(query)
        return float(seconds)

    return Clock(server_time)
