"""Checks between stores: shared data paths and shared secrets."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

from lakeconf.backends.backend import MetadataBackend, StorageBackend, StoreNames
from lakeconf.backends.server import ServerAddress
from lakeconf.config.codes import Code
from lakeconf.config.file import ConfigSource
from lakeconf.config.read_store import StoreReading
from lakeconf.config.resolve import Inheritance, secret_names
from lakeconf.errors import Problem
from lakeconf.sql import CreateSecret
from lakeconf.store import Store

_LOOPBACK = {"127.0.0.1", "::1", "localhost"}
_TEXTS = {
    Code.SHARED_DATA_PATH: (
        "the data path equals or overlaps that of the store {}, which has another catalog",
        "use a separate data path for each catalog: cleanup of one would delete the files of the other",
    ),
    Code.CATALOG_PATHS: (
        "the data path differs from that of the store {}, which has the same catalog",
        "use the same data path, or another catalog: a catalog keeps the data path that it was created with",
    ),
}
Place: TypeAlias = tuple[Hashable, tuple[str, ...]]
# The identity of a catalog, and whether the store attaches it read-only.
Catalog: TypeAlias = tuple[tuple[Hashable, ...], bool]


def data_path_problems(source: ConfigSource, stores: Mapping[str, Store], names: Collection[str]) -> Iterator[Problem]:
    """Reports data paths that overlap that of another catalog, or differ from that of the same catalog."""
    pairs = [
        *((name, other, Code.SHARED_DATA_PATH) for name, other in shared_data_paths(stores)),
        *((name, other, Code.CATALOG_PATHS) for name, other in _catalogs_with_two_paths(stores)),
    ]
    for name, other, code in pairs:
        if name in names or other in names:
            table = source.data["stores"][name]
            key = ("stores", name, *(("storage_backend",) if "storage_backend" in table else ()))
            message, hint = _TEXTS[code]
            yield source.problem(code, message.format(repr(other)), hint=hint, key=key, store=name)


def shared_data_paths(stores: Mapping[str, Store]) -> Iterator[tuple[str, str]]:
    """Finds stores with different catalogs and overlapping data paths."""
    order = {name: index for index, name in enumerate(stores)}
    catalogs = {name: (catalog, stores[name].read_only) for name, catalog in _catalogs(stores).items()}
    # Keep one store per catalog and place: there may be hundreds.
    at: dict[Place, dict[Catalog, str]] = {}
    for name, store in stores.items():
        if store.storage_backend is not None:
            at.setdefault(_place(store.storage_backend), {}).setdefault(catalogs[name], name)
    earlier_by_name: dict[str, str] = {}
    for (space, parts), names in at.items():
        outside = [at.get((space, parts[:depth]), {}) for depth in range(len(parts) + 1)]
        for catalog, name in names.items():
            others = (
                group_name
                for group in outside
                for group_catalog, group_name in group.items()
                if not _same(catalog, group_catalog)
            )
            other = next(others, None)
            if other is not None:
                earlier, later = sorted((name, other), key=order.__getitem__)
                earlier_by_name.setdefault(later, earlier)
    yield from sorted(earlier_by_name.items(), key=lambda pair: order[pair[0]])


def _catalogs_with_two_paths(stores: Mapping[str, Store]) -> Iterator[tuple[str, str]]:
    """Finds stores of the same catalog with different data paths, each with the first store of the catalog."""
    first: dict[tuple[Hashable, ...], tuple[str, str]] = {}
    for name, catalog in _catalogs(stores).items():
        storage = stores[name].storage_backend
        if storage is None or stores[name].attach_options.get("override_data_path"):
            continue
        # DuckLake compares the paths, not the services: a bucket may have two endpoints.
        (space, _), path = _place(storage), storage.location.rstrip("/")
        path = str(Path(path).resolve()) if space == "file" else path
        other, expected = first.setdefault(catalog, (name, path))
        if path != expected:
            yield name, other


def _catalogs(stores: Mapping[str, Store]) -> dict[str, tuple[Hashable, ...]]:
    """Returns the identity of the catalog of each store."""
    servers = [server for store in stores.values() if (server := store.metadata_backend.server()) is not None]
    shared = {server.secret: server.address for server in servers if server.secret and server.address}
    return {name: _catalog(store.metadata_backend, shared) for name, store in stores.items()}


def _place(storage: StorageBackend) -> Place:
    """Returns the file system or bucket of the files and the parts of their path."""
    location = storage.location
    _, separator, path = location.partition("://")
    if not separator:
        return "file", Path(location).resolve().parts
    bucket, _, prefix = path.partition("/")
    # Bucket names are lower case.
    return (storage.namespace, bucket.lower()), tuple(part for part in prefix.split("/") if part)


def _same(left: Catalog, right: Catalog) -> bool:
    (first, first_reads), (second, second_reads) = left, right
    # A replica has another host: it is the same catalog if database and schema are equal.
    replica = (first_reads or second_reads) and len(first) == len(second) == len(("server", "database", "schema"))
    return first == second or (replica and first[1:] == second[1:])


def _catalog(backend: MetadataBackend, shared: Mapping[str, ServerAddress]) -> tuple[Hashable, ...]:
    """Returns a catalog's identity: equal for all backends of the same catalog."""
    names = StoreNames("store", "alias")  # the same for all backends: only their own options may differ
    file, server = backend.file(), backend.server()
    if file is not None:
        return str(file.resolve()), backend.catalog_schema(names) or "main"
    address = None if server is None else server.address or shared.get(server.secret or "")
    if address is not None:
        host = "localhost" if address.host in _LOOPBACK else address.host.lower()
        return (host, address.port), address.database, backend.catalog_schema(names)
    return (repr(backend.ducklake_options(names)),)


def shared_secrets(
    stores: Inheritance, name: str, read: Callable[[str], StoreReading]
) -> Iterator[tuple[CreateSecret, str]]:
    """Yields the secrets of a store that another store defines differently, with the name of that store."""
    for secret in read(name).secrets:
        for other in stores.stores:
            if other == name or not _may_name(stores, other, secret):
                continue
            same = [namesake for namesake in read(other).secrets if namesake.name.lower() == secret.name.lower()]
            if any((namesake.type, namesake.options) != (secret.type, secret.options) for namesake in same):
                yield secret, other
                break


def _may_name(stores: Inheritance, store: str, secret: CreateSecret) -> bool:
    names = secret_names(stores, store)
    return any("$" in secret_name or secret_name.lower() == secret.name.lower() for secret_name in names)
