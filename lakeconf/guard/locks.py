"""Locks on a lake, shared and exclusive: in files for local lakes, in the server for the others."""

from __future__ import annotations

import contextlib
import errno
import os
import random
import socket
import stat
import time
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Protocol

from lakeconf.backends.backend import MetadataBackend, StoreNames
from lakeconf.backends.server import CatalogServer
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, CommitError, ConnectionFailed, LakeconfError, StorageError, UnsupportedError
from lakeconf.logs import escaped, event_logger

try:
    import fcntl
except ImportError:  # Windows, which reads lakes
    fcntl = None  # type: ignore[assignment]

WAIT_SECONDS = 300.0
_HELD = "/proc/locks"
_MOST_HOLDERS = 1000
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5
_log = event_logger("locks")
_open_descriptors: set[int] = set()
# How long one attempt waits in the server's queue. Later requests wait behind it, so maintenance gets its turn, and
# writers only wait briefly behind maintenance.
_ATTEMPT_SECONDS = 2.0
# Keys of tables are below this number, so the key of a lake never equals one of them.
_LAKE_KEY = 1 << 32


class Held(Protocol):
    """A held lock."""

    def check(self) -> None:
        """Checks that the lock is still held."""
        ...

    def renew(self) -> None:
        """Takes the lock again if it was lost; called before a transaction begins."""
        ...


class LakeLocks(Protocol):
    """The locks of one lake, as context managers. They exclude other threads and other processes."""

    def __call__(self, tables: Collection[str]) -> AbstractContextManager[Held]:
        """The locks of tables, by their full names."""
        ...

    def shared(self) -> AbstractContextManager[Held]:
        """The lake's lock, shared by all writers."""
        ...

    def exclusive(self) -> AbstractContextManager[Held]:
        """The lake's lock, held exclusively."""
        ...

    def holders(self) -> int | None:
        """The number of those who hold the lake's lock; None if this system does not tell."""
        ...


def pauses(limit_seconds: float | None = None) -> Iterator[None]:
    """Waits before each next item, a little longer each time; ends when the limit is reached."""
    deadline = time.monotonic() + (WAIT_SECONDS if limit_seconds is None else limit_seconds)
    pause = _FIRST_PAUSE_SECONDS
    while time.monotonic() < deadline:
        yield
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def wait_for(attempt: Callable[[], bool], what: str, holders: Callable[[], str]) -> None:
    """Repeats an attempt to take a lock until it succeeds."""
    waited_from: float | None = None
    for _ in pauses():
        if attempt():
            if waited_from is not None:
                _log.info("waited %.1f s for %s", time.monotonic() - waited_from, what)
            return
        if waited_from is None:
            waited_from = time.monotonic()
            _log.info("waiting for %s, held by %s", what, _described(holders))
    raise CommitError(
        f"{what} was not free for {WAIT_SECONDS:.0f} s: it is held by {_described(holders)}", hint="try again later"
    )


def _described(holders: Callable[[], str]) -> str:
    with contextlib.suppress(Exception):
        return holders() or "another process"
    return "another process"


class FileLocks:
    """Two lock files next to a catalog: one for all tables, one for the lake.

    They get the permissions of the catalog's file, so every user who can write the catalog can take the locks. They are
    next to the file itself, not next to a symbolic link to it.
    """

    def __init__(self, catalog: Path) -> None:
        self._catalog = catalog.resolve()

    @contextlib.contextmanager
    def __call__(self, tables: Collection[str]) -> Iterator[Held]:  # noqa: ARG002 - one file serves all tables
        with self._hold("lakeconf-lock", exclusive=True) as lock:
            yield lock

    @contextlib.contextmanager
    def shared(self) -> Iterator[Held]:
        with self._hold("lakeconf-writers", exclusive=False) as lock:
            yield lock

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Held]:
        with self._hold("lakeconf-writers", exclusive=True) as lock:
            yield lock

    def holders(self) -> int | None:
        try:
            return len(_processes(os.lstat(self._path("lakeconf-writers"))))
        except FileNotFoundError:
            return 0 if Path(_HELD).exists() else None
        except OSError:
            return None

    def _path(self, suffix: str) -> Path:
        return self._catalog.with_name(f"{self._catalog.name}.{suffix}")

    def check(self) -> None:
        """Checks that this system has such locks."""
        if fcntl is None:
            raise UnsupportedError(
                f"this system has no locks of files, which a write needs beside the catalog {self._catalog}",
                hint="write on Linux, macOS or in WSL, or use a catalog in PostgreSQL",
            )

    @contextlib.contextmanager
    def _hold(self, suffix: str, *, exclusive: bool) -> Iterator[Held]:
        self.check()
        lock = _HeldFile(self._path(suffix), self._catalog, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)
        try:
            lock.take()
            yield lock
        finally:
            lock.release()


class _HeldFile:
    """A held lock file. If the file is deleted, the lock is lost: others lock a new file with this name."""

    def __init__(self, path: Path, catalog: Path, kind: int) -> None:
        self._path, self._catalog, self._kind = path, catalog, kind
        self._descriptor: int | None = None
        self._owner = os.getpid()

    def take(self) -> None:
        self._check_process()
        while not self._is_there():
            self.release()
            descriptor = self._descriptor = _open(self._path, self._catalog)
            _open_descriptors.add(descriptor)
            wait_for(
                partial(_try_lock, descriptor, self._kind), f"the lock {self._path}", partial(_holders, descriptor)
            )

    def check(self) -> None:
        self._check_process()
        if not self._is_there():
            raise StorageError(
                f"the lock file {self._path} was deleted while it was held, so nothing was written",
                hint="try again, and exclude lock files from jobs that delete old files in this folder",
            )

    def renew(self) -> None:
        self.take()

    def release(self) -> None:
        # A forked child has closed its copy, and must not release the lock of its parent.
        if self._descriptor is None or os.getpid() != self._owner:
            return
        descriptor, self._descriptor = self._descriptor, None
        _open_descriptors.discard(descriptor)
        # A child forked by a C library may still have the descriptor open; then closing it does not release the lock.
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)

    def _check_process(self) -> None:
        if os.getpid() != self._owner:
            raise StorageError(
                f"the lock {self._path} belongs to the process that forked this one, so nothing was written",
                hint="open the lake in the process that writes",
            )

    def _is_there(self) -> bool:
        """True if the path still refers to the opened file."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), os.lstat(self._path))
        except FileNotFoundError:
            return False


def _close_in_child() -> None:
    """Closes inherited lock files in a forked child; otherwise it would keep the locks when its parent ends."""
    for descriptor in _open_descriptors:
        with contextlib.suppress(OSError):
            os.close(descriptor)
    _open_descriptors.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)


def _open(path: Path, catalog: Path) -> int:
    # Read access is enough for a lock. The flags do not follow a link and do not wait for a pipe of another user.
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = _create(path, catalog, flags)
        if descriptor is None:
            descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise _unusable(path, "is a symbolic link") from error
        raise _unusable(path, f"cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unusable(path, "is not a regular file")
    return descriptor


def _create(path: Path, catalog: Path, flags: int) -> int | None:
    """Creates a lock file for all who may write to the catalog; returns None if it already exists.

    Whoever can read a file can lock it.
    """
    if os.path.lexists(path):
        return None
    try:
        mode = (os.stat(catalog).st_mode & 0o222) * 3  # reads and writes
    except FileNotFoundError:
        mode = None
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
    except FileExistsError:
        return None
    if mode is not None:
        os.fchmod(descriptor, mode)
    return descriptor


def _unusable(path: Path, problem: str) -> StorageError:
    return StorageError(
        f"the lock file {path} {problem}: nothing was written",
        hint="give it the owner and permissions of the catalog, or delete it while no writer is active",
    )


def _try_lock(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise CommitError(
            f"the catalog's file system does not support locks: {error.strerror}",
            hint="move the catalog to a local disk, or use PostgreSQL",
        ) from error
    return True


def _holders(descriptor: int) -> str:
    """The processes that hold a lock file, on Linux; fails or returns an empty string elsewhere."""
    return ", ".join(f"process {pid}" for pid in sorted(_processes(os.fstat(descriptor))))


def _processes(file: os.stat_result) -> set[str]:
    lines = [line.split() for line in Path(_HELD).read_text().splitlines()]
    pids = {parts[4] for parts in lines if parts[1] == "FLOCK" and parts[5].rpartition(":")[2] == str(file.st_ino)}
    return {pid for pid in pids if pid.isdigit() and pid != "0"}


class ServerLocks:
    """Advisory locks of the catalog's server.

    They are held in transactions, because session locks would outlive their holder behind a connection pool. Each is
    held on a connection of its own to the catalog, beside those of the lake's reads and commits.
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
        with self._hold(keys, f"the lock of {', '.join(sorted(tables))}", shared=False) as lock:
            yield lock

    @contextlib.contextmanager
    def shared(self) -> Iterator[Held]:
        with self._hold([self._lake_key], "the lock of the lake", shared=True) as lock:
            yield lock

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Held]:
        with self._hold([self._lake_key], "the lock of the lake", shared=False) as lock:
            yield lock

    def holders(self) -> int | None:
        # Not a connection for locks: a role that only reads may ask, too.
        with self._reader.connection.cursor() as cursor:
            return len(cursor.rows(self._server.lock_holders(self._database, [self._lake_key], most=_MOST_HOLDERS)))

    @property
    def _lake_key(self) -> int:
        return _LAKE_KEY + zlib.crc32(self._schema.encode())

    @contextlib.contextmanager
    def _hold(self, keys: list[int], what: str, *, shared: bool) -> Iterator[Held]:
        def take(lock: _HeldOnServer) -> None:
            wait_for(lambda: self._try(lock, keys, shared=shared), what, lambda: self._holders(keys))

        lock = _HeldOnServer(self._open, self._server.check_connection(self._database), take)
        try:
            take(lock)
            yield lock
        finally:
            # A dead connection must not hide the outcome of the commit.
            lock.release()

    def _try(self, lock: _HeldOnServer, keys: list[int], *, shared: bool) -> bool:
        lock.cursor.execute("BEGIN")
        started = time.monotonic()
        try:
            holder = f"lakeconf on {socket.gethostname()}, process {os.getpid()}"
            lock.cursor.rows(self._server.prepare_locks(self._database, wait_seconds=_ATTEMPT_SECONDS, holder=holder))
            for key in keys:
                started = time.monotonic()
                lock.cursor.rows(self._server.take_lock(self._database, key, shared=shared))
        except LakeconfError:
            lock.roll_back()
            # Only the elapsed time identifies a lock timeout: the server's messages may be in another language.
            if time.monotonic() - started < 0.9 * _ATTEMPT_SECONDS:
                raise
            return False
        return True

    def _holders(self, keys: list[int]) -> str:
        with self._open() as cursor:
            rows = cursor.rows(self._server.lock_holders(self._database, keys))
        return ", ".join(escaped(str(holder)) for (holder,) in rows)

    def _open(self) -> Connection:
        cursor = self._reader.connection.cursor()
        try:
            if not self._is_checked:
                check_privileges(self._server, self._database, self._catalog_schema, cursor)
                self._is_checked = True
        except BaseException:
            cursor.close()
            raise
        return cursor


def check_privileges(server: CatalogServer, database: str, schema: str | None, connection: Connection) -> None:
    """Rejects a role that may not change all tables of the catalog."""
    refused = connection.rows(server.unwritable(database, schema))
    if refused:
        raise CatalogError(
            f"the role may not change the catalog's table {escaped(str(refused[0][0]))}, so nothing was written",
            hint="use a role with all privileges on the catalog's tables, or write attach_options = { read_only = "
            "true }",
        )


class _HeldOnServer:
    """A lock held in an open transaction."""

    def __init__(self, open_: Callable[[], Connection], alive: str, take: Callable[[_HeldOnServer], None]) -> None:
        self._open, self._alive, self._take = open_, alive, take
        self.cursor = open_()

    def check(self) -> None:
        try:
            self.cursor.rows(self._alive)
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
            self.cursor = self._open()
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
