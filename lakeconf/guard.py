"""What protects a lake from other writers and other lakes: its locks, and the marker below its data path."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial

from lakeconf.catalog.reader import CatalogReader
from lakeconf.errors import CommitError
from lakeconf.file_locks import FileLocks
from lakeconf.locks import Held, LakeLocks
from lakeconf.marker import LakeMarker
from lakeconf.places import places
from lakeconf.server_locks import ServerLocks
from lakeconf.store import Store


class LakeGuard:
    """The locks and the marker of an open lake.

    Args:
        locks: The locks; None if the metadata backend has none.
        marker: The marker; None if the metadata backend keeps the files.
    """

    def __init__(self, locks: LakeLocks | None, marker: LakeMarker | None) -> None:
        self.marker = marker
        self._locks = locks
        self._held: list[Held] = []

    def __call__(self, tables: Collection[str]) -> AbstractContextManager[Held]:
        """The locks of tables.

        Raises:
            CommitError: The metadata backend has no locks.
        """
        if self._locks is None:
            raise CommitError("the metadata backend has no lock, so that only plain appends are safe on it")
        return self._locks(tables)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Surrounds a write from before its first staged file until the reply to its commit.

        Raises:
            CatalogError: The data path is another lake's.
            CommitError: Maintenance has held the lock of the lake for too long.
        """
        if self.marker is not None:
            self.marker.before_write()
        if self._locks is None:
            yield
            return
        with self._locks.shared() as held:
            self._held.append(held)
            try:
                yield
            finally:
                self._held.remove(held)

    @contextlib.contextmanager
    def removing(self) -> Iterator[None]:
        """Surrounds maintenance that removes snapshots or files: no writer of lakeconf is at work meanwhile.

        Raises:
            CommitError: Writers have held the lock of the lake for too long.
        """
        if self._locks is None:
            yield
            return
        with self._locks.exclusive():
            yield

    def renew(self) -> None:
        """Takes the locks of the writes under way again if they were lost; called before each attempt to commit.

        What the lock protects until then is checked by the attempt itself: files that it registers are read again.

        Raises:
            ConnectionFailed: The catalog's server cannot be reached.
        """
        for held in list(self._held):
            held.renew()

    def check(self) -> None:
        """Makes sure that the locks of the writes under way are still held; called right before COMMIT.

        Raises:
            ConnectionFailed: One was lost, so that files may have been removed that the write needs.
        """
        for held in list(self._held):
            held.check()

    def close(self) -> None:
        """Closes the connection that locks are held on."""
        if self._locks is not None:
            self._locks.close()


def guard_of(store: Store, reader: CatalogReader) -> LakeGuard:
    """The guard of a store's attached lake."""
    marker = None if store.storage_backend is None else LakeMarker(reader, partial(places, store, reader))
    return LakeGuard(locks_of(store), marker)


def locks_of(store: Store) -> LakeLocks | None:
    """The locks of a store's lake; None if its metadata backend has none."""
    file = store.metadata_backend.file()
    if file is not None:
        return FileLocks(file)
    return None if store.metadata_backend.lock_sql(0) is None else ServerLocks(store)
