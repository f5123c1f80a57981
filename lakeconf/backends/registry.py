"""Finds the class of a backend by its `type`: built-in types from tables, other types from entry points."""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeVar

from lakeconf.backends.backend import Backend, MetadataBackend, StorageBackend
from lakeconf.errors import LakeconfError, suggestion

# The groups of entry points by which packages register their backends.
_METADATA_GROUP, _STORAGE_GROUP = "lakeconf.metadata_backends", "lakeconf.storage_backends"
METADATA_BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "duckdb": "lakeconf.backends.metadata.file_catalogs:DuckDBMetadata",
        "sqlite": "lakeconf.backends.metadata.file_catalogs:SQLiteMetadata",
        "postgres": "lakeconf.backends.metadata.postgres:PostgresMetadata",
        "motherduck": "lakeconf.backends.metadata.motherduck:MotherDuckMetadata",
    }
)
STORAGE_BACKENDS: Mapping[str, str] = MappingProxyType(
    {
        "local": "lakeconf.backends.storage.local:LocalStorage",
        "s3": "lakeconf.backends.storage.object_storage:S3Storage",
        "r2": "lakeconf.backends.storage.object_storage:R2Storage",
        "gcs": "lakeconf.backends.storage.object_storage:GCSStorage",
        "azure": "lakeconf.backends.storage.azure:AzureStorage",
    }
)
# What DuckLake can use as a catalog and lakeconf does not, with the reason.
_UNSAFE_CATALOGS: Mapping[str, str] = MappingProxyType(
    {"quack": "a commit to a Quack catalog is not one transaction (ducklake#1267): use postgres"}
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

BackendType = TypeVar("BackendType", bound=Backend)


class UnknownTypeError(LakeconfError, LookupError):
    """No backend has this type; the configuration reports it with its position in the file."""


def metadata_backend(type_name: str) -> type[MetadataBackend]:
    """The class of a metadata backend."""
    return _find(type_name, METADATA_BACKENDS, _METADATA_GROUP, MetadataBackend)  # type: ignore[type-abstract]


def storage_backend(type_name: str) -> type[StorageBackend]:
    """The class of a storage backend."""
    return _find(type_name, STORAGE_BACKENDS, _STORAGE_GROUP, StorageBackend)  # type: ignore[type-abstract]


def metadata_types() -> tuple[str, ...]:
    """The types of all metadata backends, including those of installed packages, sorted."""
    return _types(METADATA_BACKENDS, _METADATA_GROUP)


def storage_types() -> tuple[str, ...]:
    """The types of all storage backends, including those of installed packages, sorted."""
    return _types(STORAGE_BACKENDS, _STORAGE_GROUP)


@functools.cache
def hadoop_spelling(scheme: str) -> Callable[[str], str] | None:
    """The function that spells URIs of a scheme as Hadoop does; None if Hadoop spells them as DuckDB does."""
    for type_name in (*STORAGE_BACKENDS, *storage_types()):
        with contextlib.suppress(UnknownTypeError):  # a package that is broken, of whose service no store can be
            backend = storage_backend(type_name)
            if scheme in backend.hadoop_schemes():
                return backend.hadoop_uri
    return None


def _types(built_in: Mapping[str, str], group: str) -> tuple[str, ...]:
    return tuple(sorted({*built_in, *(point.name for point in _entry_points(group))}))


def _find(type_name: str, built_in: Mapping[str, str], group: str, contract: type[BackendType]) -> type[BackendType]:
    target = built_in.get(type_name) or _third_party(type_name, built_in, group)
    module, _, name = target.partition(":")
    try:
        backend = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise UnknownTypeError(
            f"{target}, registered as {type_name!r} in {group}, cannot be imported: {error}"
        ) from error
    if not (isinstance(backend, type) and issubclass(backend, contract)):
        raise UnknownTypeError(f"{target}, registered as {type_name!r} in {group}, is not a {contract.__name__}")
    return backend


def _third_party(type_name: str, built_in: Mapping[str, str], group: str) -> str:
    points = [point for point in _entry_points(group) if point.name == type_name]
    packages = sorted({point.dist.name if point.dist else point.value for point in points})
    if len(packages) > 1:
        raise UnknownTypeError(f"several packages register {type_name!r} in {group}: {', '.join(packages)}")
    if not points:
        if type_name in _UNSAFE_CATALOGS and group == _METADATA_GROUP:
            raise UnknownTypeError(f"the type {type_name!r} is not supported", hint=_UNSAFE_CATALOGS[type_name])
        types = _types(built_in, group)
        hint = f"{suggestion(type_name, types)} use one of: {', '.join(types)}".lstrip()
        raise UnknownTypeError(f"unknown type {type_name!r}", hint=hint)
    return points[0].value


@functools.cache
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points  # slow to import, and only needed for unknown types

    return tuple(entry_points(group=group))
