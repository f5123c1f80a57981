"""Finds data paths shared by different catalogs: cleanup of one catalog would delete the other's files."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from lakeconf.backends.base import MetadataBackend, StorageBackend, StoreNames
from lakeconf.backends.metadata.postgres import PostgresMetadata
from lakeconf.backends.storage.object_storage import ObjectStorage
from lakeconf.config.codes import Code
from lakeconf.config.file import Source
from lakeconf.errors import Problem
from lakeconf.store import Store

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
Place: TypeAlias = tuple[Hashable, tuple[str, ...]]
# The identity of a catalog, and whether the store attaches it read-only.
Catalog: TypeAlias = tuple[tuple[Hashable, ...], bool]


def data_path_problems(source: Source, stores: Mapping[str, Store], names: Collection[str]) -> Iterator[Problem]:
    """Reports data paths that equal, contain or are inside the data path of another catalog.

    Args:
        source: The file.
        stores: All valid stores, in the order of the file.
        names: The stores to check.
    """
    for name, other in shared_data_paths(stores):
        if name in names or other in names:
            table = source.data.get("stores", {}).get(name, {})  # only an override may declare the store
            key = ("stores", name, *(("storage_backend",) if "storage_backend" in table else ()))
            message = f"the data path equals or overlaps that of the store {other!r}, which has another catalog"
            hint = "use a separate data path for each catalog: cleanup of one would delete the files of the other"
            yield source.problem(Code.SHARED_DATA_PATH, message, hint=hint, key=key, store=name)


def shared_data_paths(stores: Mapping[str, Store]) -> Iterator[tuple[str, str]]:
    """Finds stores with different catalogs and overlapping data paths.

    Args:
        stores: The stores by name, in the order of the file.

    Yields:
        The name of a store and the name of an earlier one; each store at most once.
    """
    order = {name: index for index, name in enumerate(stores)}
    shared = {
        backend.secret_name: backend
        for backend in (store.metadata_backend for store in stores.values())
        if isinstance(backend, PostgresMetadata) and backend.host is not None and backend.secret_name
    }
    catalogs = {name: (_catalog(store.metadata_backend, shared), store.read_only) for name, store in stores.items()}
    # Keep one store per catalog and place: there may be hundreds.
    at: dict[Place, dict[Catalog, str]] = {}
    for name, store in stores.items():
        if store.storage_backend is not None:
            at.setdefault(_place(store.storage_backend), {}).setdefault(catalogs[name], name)
    found: dict[str, str] = {}
    for (space, parts), names in at.items():
        outside = [at.get((space, parts[:depth]), {}) for depth in range(len(parts) + 1)]
        for catalog, name in names.items():
            others = (other for group in outside for one, other in group.items() if not _same(catalog, one))
            other = next(others, None)
            if other is not None:
                earlier, later = sorted((name, other), key=order.__getitem__)
                found.setdefault(later, earlier)
    yield from sorted(found.items(), key=lambda pair: order[pair[0]])


def _place(storage: StorageBackend) -> Place:
    """Returns the file system or bucket of the files and the parts of their path."""
    location = storage.location
    scheme, separator, path = location.partition("://")
    if not separator:
        return "file", Path(location).resolve().parts
    bucket, _, prefix = path.partition("/")
    server = (storage.s3_endpoint or "") if isinstance(storage, ObjectStorage) else scheme
    # All AWS endpoints share one namespace, and bucket names are lower case.
    space = ("" if server.endswith(".amazonaws.com") else server.lower(), bucket.lower())
    return space, tuple(part for part in prefix.split("/") if part)


def _same(one: Catalog, other: Catalog) -> bool:
    (first, first_reads), (second, second_reads) = one, other
    # A replica has another host: it is the same catalog if database and schema are equal.
    replica = (first_reads or second_reads) and len(first) == len(second) == len(("server", "database", "schema"))
    return first == second or (replica and first[1:] == second[1:])


def _catalog(backend: MetadataBackend, shared: Mapping[str, PostgresMetadata]) -> tuple[Hashable, ...]:
    """Returns a catalog's identity: equal for all backends of the same catalog.

    Args:
        backend: The backend.
        shared: The backends that define a secret for others, by the secret's name.
    """
    file = backend.file()
    if file is not None:
        return str(file.resolve()), getattr(backend, "metadata_schema", None) or "main"
    if isinstance(backend, PostgresMetadata):
        server = shared.get(backend.secret_name or "", backend) if backend.host is None else backend
        if server.host is not None:
            host = "localhost" if server.host in _LOOPBACK else server.host.lower()
            return (host, server.port or 5432), server.database, backend.metadata_schema
    # The same fixed names for all backends: only their own options may differ.
    return (repr(backend.ducklake_options(StoreNames("store", "alias"))),)
