"""Protection against other writers and other lakes: the locks, and the marker below the data path."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from functools import partial

from lakeconf.backends.base import MetadataBackend, StorageBackend, StoreNames
from lakeconf.catalog.reader import CatalogReader
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.guard.catalog_place import neighbours, places
from lakeconf.guard.file_locks import FileLocks
from lakeconf.guard.locks import Held, LakeLocks
from lakeconf.guard.marker import LakeMarker
from lakeconf.guard.server_locks import ServerLocks


class LakeGuard:
    """The locks and the marker of an open lake.

    Args:
        locks: The locks; None if the metadata backend has none.
        marker: The marker; None if the metadata backend keeps the files.
    """

    def __init__(self, locks: LakeLocks | None, marker: LakeMarker | None) -> None:
        self.marker = marker
        self._locks = locks
        # The number of open writes by thread id. A transaction may end in another thread than it began.
        self._writing: Counter[int] = Counter()
        self._counting = threading.Lock()

    @property
    def has_locks(self) -> bool:
        """True if the metadata backend has locks."""
        return self._locks is not None

    def __call__(self, tables: Collection[str]) -> AbstractContextManager[Held]:
        """The locks of tables.

        Raises:
            CommitError: The metadata backend has no locks.
        """
        if self._locks is None:
            raise CommitError(
                "the metadata backend has no locks, so only plain appends are safe",
                hint="use append, or a metadata backend with locks",
            )
        return self._locks(tables)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Held | None]:
        """Protects a write from before its first staged file until the reply to its commit.

        Yields:
            The lock of this write; None if the metadata backend has no locks.

        Raises:
            CatalogError: The data path belongs to another lake.
            CommitError: Maintenance held the lake's lock for too long.
        """
        if self.marker is not None:
            self.marker.before_write()
        if self._locks is None:
            yield None
            return
        with self._locks.shared() as held, self._counted():
            yield held

    @contextlib.contextmanager
    def removing(self, *, force: bool = False) -> Iterator[None]:
        """Protects maintenance that removes snapshots or files: no writer of lakeconf is active at the same time.

        Args:
            force: True to go on without a lock if the metadata backend has none.

        Raises:
            CommitError: Writers held the lake's lock for too long, or the metadata backend has no locks.
            LakeconfError: This thread has an open transaction, so waiting for it would never end.
        """
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
    reader: CatalogReader,
    metadata: MetadataBackend,
    storage: StorageBackend | None,
    names: StoreNames,
) -> LakeGuard:
    """The guard of an attached lake.

    Args:
        reader: The lake.
        metadata: The metadata backend of its store.
        storage: The storage backend; None if the metadata backend keeps the files.
        names: The names of the store.
    """
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
