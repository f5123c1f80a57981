"""Opens what a transfer reads: a lake, backups, and a lake with the catalog of a backup."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from lakeconf.backends.registry import metadata_backend
from lakeconf.catalog.reader import CatalogReader
from lakeconf.guard.backups import Backup, BackupPlace
from lakeconf.guard.guard import LakeGuard, guard_of, reader_of
from lakeconf.guard.locks import FileLocks
from lakeconf.store import Store, for_reading, open_connection

# The database of the catalog of an opened lake. It is not hidden.
METADATA = "lakeconf_source_catalog"
_PINNED = ("snapshot_version", "snapshot_time")


@contextlib.contextmanager
def opened_lake(store: Store, *, loads: bool = True) -> Iterator[tuple[CatalogReader, LakeGuard]]:
    """A lake that is only read, at its newest snapshot, with a connection that has its own secrets only.

    Unless it `loads` the lake's tables, a damaged lake can be read, too.
    """
    store = for_reading(store)
    options = {key: value for key, value in store.attach_options.items() if key not in _PINNED}
    store = store.replace(attach_options=options | {"metadata_catalog": METADATA})
    with open_connection(store, loads=loads) as connection:
        reader = reader_of(store.metadata_backend, store.names, connection)
        yield reader, guard_of(reader, store.metadata_backend, store.storage_backend, store.names)


@contextlib.contextmanager
def locked(store: Store) -> Iterator[None]:
    """Keeps the writers of a lake out; its catalog can be opened meanwhile."""
    file = store.metadata_backend.file()
    if file is not None:
        with FileLocks(file).exclusive():
            yield
        return
    with opened_lake(store, loads=False) as (_, guard), guard.removing():
        yield


def opened_place(store: Store, place: str) -> AbstractContextManager[BackupPlace]:
    """A folder or bucket with backups of a store."""
    return BackupPlace.opened(place, store.storage_backend, store.names, store.secrets)


@contextlib.contextmanager
def opened_backup(store: Store, path: str) -> Iterator[tuple[BackupPlace, Backup]]:
    """The place of a backup, and the backup with this path or URI."""
    folder, _, name = (path if "://" in path else os.path.abspath(path)).rstrip("/").rpartition("/")
    with opened_place(store, folder or "/") as place:
        yield place, place.backup(name)


def store_of_copy(store: Store, catalog: Path) -> Store:
    """The store with a copy of its catalog in a DuckDB file, in place of its own; its files are those of the store."""
    backend = metadata_backend("duckdb").model_validate({"type": "duckdb", "uri": str(catalog)})
    return store.replace(metadata_backend=backend, attach_options={"override_data_path": True})


@contextlib.contextmanager
def opened_copy(store: Store, catalog: Path, *, loads: bool = True) -> Iterator[CatalogReader]:
    """The lake of `store_of_copy`, which is only read."""
    copy = for_reading(store_of_copy(store, catalog))
    with open_connection(copy, loads=loads) as connection:
        yield reader_of(copy.metadata_backend, copy.names, connection)
