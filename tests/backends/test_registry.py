"""Classes of backends: built-in ones from tables, others from entry points."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import Field, field_validator

from lakeconf.backends import registry
from lakeconf.backends.backend import MetadataBackend, StorageBackend
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.registry import (
    METADATA_BACKENDS,
    STORAGE_BACKENDS,
    UnknownTypeError,
    metadata_backend,
    metadata_types,
    storage_backend,
    storage_types,
)
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.config.config import validate
from lakeconf.engines.spark.hadoop import spark_uri

if TYPE_CHECKING:
    from collections.abc import Callable


METADATA, STORAGE = "lakeconf.metadata_backends", "lakeconf.storage_backends"


class LocalShelf(SQLiteMetadata):
    """A backend of another package."""


class Drawer(LocalStorage):
    """A storage backend of another package."""

    @classmethod
    def hadoop_schemes(cls) -> tuple[str, ...]:
        return ("drawer",)

    @classmethod
    def hadoop_uri(cls, uri: str) -> str:
        return f"hdrawer://{uri.partition('://')[2]}"


class Leaky(LocalStorage):
    """A backend that puts values into its error messages."""

    type: Literal["leaky"] = "leaky"  # type: ignore[assignment]
    token: Annotated[str, Field(description="A token, kept as plain text.")]

    @field_validator("token")
    @classmethod
    def _is_long(cls, token: str) -> str:
        raise ValueError(f"the token {token!r} is too short")


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Registers entry points of one group, as `importlib.metadata` finds them."""
    module = ModuleType("third_party")
    module.__dict__.update(
        LocalShelf=LocalShelf, Drawer=Drawer, Leaky=Leaky, instance=LocalStorage(path="/d"), function=print
    )
    monkeypatch.setitem(sys.modules, "third_party", module)

    def add(group: str, **targets: str) -> None:
        points = tuple(EntryPoint(name, target, group) for name, target in targets.items())
        monkeypatch.setattr(registry, "_entry_points", lambda asked: points if asked == group else ())

    return add


def test_built_in_backend_has_its_type() -> None:
    for name in METADATA_BACKENDS:
        catalog = metadata_backend(name)
        assert (issubclass(catalog, MetadataBackend), catalog.model_fields["type"].default) == (True, name)
    for name in STORAGE_BACKENDS:
        storage = storage_backend(name)
        assert (issubclass(storage, StorageBackend), storage.model_fields["type"].default) == (True, name)


def test_a_package_spells_the_uris_of_its_service_for_hadoop(register: Callable[..., None]) -> None:
    registry.hadoop_spelling.cache_clear()
    try:
        register(STORAGE, broken="third_party:missing", drawer="third_party:Drawer")
        assert spark_uri("drawer://a/b%2B.parquet") == "hdrawer://a/b%2B.parquet"
        assert spark_uri("s3://a/b") == "s3a://a/b"
        assert spark_uri("other://a/b") == "other://a/b"
    finally:
        registry.hadoop_spelling.cache_clear()


def test_types_are_sorted_and_of_one_kind(register: Callable[..., None]) -> None:
    assert metadata_types() == ("duckdb", "motherduck", "postgres", "sqlite")
    assert storage_types() == ("azure", "gcs", "local", "r2", "s3")
    register(METADATA, shelf="third_party:LocalShelf", duckdb="third_party:LocalShelf")
    assert metadata_types() == ("duckdb", "motherduck", "postgres", "shelf", "sqlite")
    assert storage_types() == ("azure", "gcs", "local", "r2", "s3")


def test_backend_of_another_package_is_found_in_its_group(register: Callable[..., None]) -> None:
    register(METADATA, rack="third_party:Drawer", shelf="third_party:LocalShelf")
    assert metadata_backend("shelf") is LocalShelf
    with pytest.raises(UnknownTypeError):
        storage_backend("shelf")
    register(STORAGE, drawer="third_party:Drawer")
    assert storage_backend("drawer") is Drawer


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("postgre", 'did you mean "postgres"? use one of: duckdb, motherduck, postgres, sqlite'),
        ("local", "use one of: duckdb, motherduck, postgres, sqlite"),
        ("", "use one of: duckdb, motherduck, postgres, sqlite"),
        ("os:system", "use one of: duckdb, motherduck, postgres, sqlite"),
    ],
)
def test_unknown_type_lists_the_known_ones(name: str, hint: str) -> None:
    with pytest.raises(UnknownTypeError) as raised:
        metadata_backend(name)
    assert (raised.value.message, raised.value.hint) == (f"unknown type {name!r}", hint)
    assert isinstance(raised.value, LookupError)


def test_a_catalog_without_transactions_is_not_supported() -> None:
    with pytest.raises(UnknownTypeError, match="the type 'quack' is not supported") as raised:
        metadata_backend("quack")
    assert "use postgres" in str(raised.value)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("no_such_module:LocalShelf", "cannot be imported: No module named 'no_such_module'"),
        ("third_party:Missing", "cannot be imported: module 'third_party' has no attribute 'Missing'"),
        ("third_party:Drawer", "is not a MetadataBackend"),
        ("third_party:instance", "is not a MetadataBackend"),
        ("third_party:function", "is not a MetadataBackend"),
    ],
)
def test_target_that_is_no_backend_is_refused(target: str, message: str, register: Callable[..., None]) -> None:
    register(METADATA, shelf=target)
    with pytest.raises(UnknownTypeError) as raised:
        metadata_backend("shelf")
    assert raised.value.message == f"{target}, registered as 'shelf' in {METADATA}, {message}"


def test_package_registers_a_type_twice_alike_or_as_a_built_in_one_in_vain(
    register: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    register(METADATA, shelf="third_party:LocalShelf")
    twice = registry._entry_points(METADATA) * 2
    monkeypatch.setattr(registry, "_entry_points", lambda _group: twice)
    assert metadata_backend("shelf") is LocalShelf
    register(METADATA, sqlite="third_party:LocalShelf")
    assert metadata_backend("sqlite") is SQLiteMetadata


def test_error_of_a_third_party_backend_shows_no_secret(register: Callable[..., None]) -> None:
    register(STORAGE, leaky="third_party:Leaky")
    storage = {"type": "leaky", "path": "/d", "token": "hunter2"}
    store = {"metadata_backend": {"type": "sqlite", "uri": "/c"}, "storage_backend": storage}
    (problem,) = validate({"stores": {"dev": store}})
    assert problem.message == "the token '***' is too short"
