"""Locks of a lake whose catalog is a file: lock files next to it, released by the system when a process ends."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from collections.abc import Collection, Iterator
from functools import partial
from pathlib import Path

from lakeconf.errors import CommitError, StorageError
from lakeconf.guard.locks import Held, wait_for

_open_descriptors: set[int] = set()


class FileLocks:
    """Two lock files next to a catalog: one for all tables, one for the lake.

    Args:
        catalog: The catalog's file. The lock files get its permissions, so every user who can write the catalog can
            take the locks. They are next to the file itself, not next to a symbolic link to it.
    """

    def __init__(self, catalog: Path) -> None:
        self._catalog = catalog.resolve()

    @contextlib.contextmanager
    def __call__(self, tables: Collection[str]) -> Iterator[Held]:  # noqa: ARG002 - one file serves all tables
        with self._hold("lakeconf-lock", fcntl.LOCK_EX) as held:
            yield held

    @contextlib.contextmanager
    def shared(self) -> Iterator[Held]:
        with self._hold("lakeconf-writers", fcntl.LOCK_SH) as held:
            yield held

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[Held]:
        with self._hold("lakeconf-writers", fcntl.LOCK_EX) as held:
            yield held

    @contextlib.contextmanager
    def _hold(self, suffix: str, kind: int) -> Iterator[Held]:
        path = self._catalog.with_name(f"{self._catalog.name}.{suffix}")
        held = _HeldFile(path, self._catalog, kind)
        try:
            held.take()
            yield held
        finally:
            held.release()


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
    """Creates a lock file with the permissions of the catalog; returns None if it already exists."""
    if os.path.lexists(path):
        return None
    try:
        mode = stat.S_IMODE(os.stat(catalog).st_mode) & 0o666
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
    inode = os.fstat(descriptor).st_ino
    lines = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    held = {parts[4] for parts in lines if parts[1] == "FLOCK" and parts[5].rpartition(":")[2] == str(inode)}
    return ", ".join(f"process {pid}" for pid in sorted(held) if pid.isdigit() and pid != "0")
