"""Stores with different catalogs must not share or nest data paths: cleanup of one would delete files of the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.config.config import init, validate

if TYPE_CHECKING:
    from pathlib import Path

S3 = {"type": "s3", "secret_parameters": {"provider": "credential_chain"}}
POSTGRES = {"type": "postgres", "host": "db.example.com", "database": "lake", "user": "lake"}


def codes(*stores: tuple[dict[str, Any], dict[str, Any]], code: str = "LC056", **options: Any) -> list[str | None]:
    """The stores with a problem. Each store is a pair of metadata and storage backend."""
    tables: dict[str, Any] = {
        f"s{index}": {"metadata_backend": metadata, "storage_backend": storage}
        for index, (metadata, storage) in enumerate(stores)
    }
    tables["s1"] |= options
    found = validate({"default_store": "s0", "stores": tables})
    assert {problem.code for problem in found} <= {code}
    return [problem.store for problem in found]


def sqlite(name: str) -> dict[str, Any]:
    return {"type": "sqlite", "uri": f"/lakes/{name}.sqlite"}


def local(path: str) -> dict[str, Any]:
    return {"type": "local", "path": path}


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ("/data", "/data", True),
        ("/data/", "/data", True),
        ("/data/a/../b", "/data/b", True),
        ("/data", "/data/b", True),
        ("/data/b/c", "/data", True),
        ("/", "/data", True),
        ("/data", "/data2", False),
        ("/data/a", "/data/b", False),
    ],
)
def test_overlapping_folders(one: str, other: str, *, clash: bool) -> None:
    assert codes((sqlite("a"), local(one)), (sqlite("b"), local(other))) == ["s1"] * clash


@pytest.mark.parametrize(
    ("one", "other", "options", "differ"),
    [
        (local("/data"), local("/data/b/.."), {}, False),
        (local("/data"), local("/other"), {}, True),
        (local("/data"), local("/data/b"), {}, True),
        (local("/data"), local("/other"), {"attach_options": {"override_data_path": True}}, False),
        (local("/data"), S3 | {"bucket": "acme"}, {}, True),
        (S3 | {"bucket": "acme", "endpoint": "one:9000"}, S3 | {"bucket": "acme", "endpoint": "two:9000"}, {}, False),
        (S3 | {"bucket": "acme", "prefix": "a"}, S3 | {"data_path": "s3://acme/a/"}, {}, False),
        (S3 | {"bucket": "acme", "prefix": "a"}, S3 | {"bucket": "acme", "prefix": "b"}, {}, True),
    ],
)
@pytest.mark.parametrize("catalog", [{"type": "sqlite", "uri": "/lakes/a.sqlite"}, POSTGRES], ids=["file", "server"])
def test_stores_of_one_catalog_have_one_data_path(
    one: dict[str, Any], other: dict[str, Any], options: dict[str, Any], catalog: dict[str, Any], *, differ: bool
) -> None:
    assert codes((catalog, one), (catalog, other), code="LC057", **options) == ["s1"] * differ


def test_every_store_whose_path_differs_is_a_problem() -> None:
    """The opened lake would fail: DuckLake keeps the path that the lake was created with."""
    paths = {"a": "/data", "b": "/other", "c": "/data", "d": "/data/d"}
    stores = {name: {"metadata_backend": sqlite("a"), "storage_backend": local(path)} for name, path in paths.items()}
    found = validate({"default_store": "a", "stores": stores})
    assert [(one.store, one.code, one.message) for one in found] == [
        (name, "LC057", "the data path differs from that of the store 'a', which has the same catalog") for name in "bd"
    ]


@pytest.mark.parametrize(
    ("one", "other", "clash"),
    [
        ({"bucket": "acme", "prefix": "lake"}, {"bucket": "acme", "prefix": "lake/"}, True),
        ({"bucket": "acme", "prefix": "lake"}, {"data_path": "s3://acme/lake/raw"}, True),
        ({"bucket": "acme"}, {"bucket": "acme", "prefix": "lake"}, True),
        ({"bucket": "acme"}, {"bucket": "ACME"}, True),
        ({"bucket": "acme"}, {"bucket": "acme", "endpoint": "s3.eu-central-1.amazonaws.com"}, True),
        ({"bucket": "acme", "prefix": "lake"}, {"bucket": "acme", "prefix": "lake2"}, False),
        ({"bucket": "acme", "prefix": "lake"}, {"bucket": "acme", "prefix": "Lake"}, False),
        ({"bucket": "acme"}, {"bucket": "acme2"}, False),
        ({"bucket": "acme", "endpoint": "one:9000"}, {"bucket": "acme", "endpoint": "two:9000"}, False),
    ],
)
def test_overlapping_buckets(one: dict[str, Any], other: dict[str, Any], *, clash: bool) -> None:
    assert codes((sqlite("a"), S3 | one), (sqlite("b"), S3 | other)) == ["s1"] * clash


@pytest.mark.parametrize(
    ("other", "options", "clash"),
    [
        ({"metadata_schema": "stagign"}, {}, True),
        ({"database": "other"}, {}, True),
        ({"host": "staging.example.com"}, {}, True),
        ({"port": 6432}, {}, True),
        ({"port": 5432}, {}, False),
        ({"host": "DB.example.com"}, {}, False),
        ({"user": "reader"}, {}, False),
        ({"host": "replica.example.com"}, {"attach_options": {"read_only": True}}, False),
        ({"host": "replica.example.com", "database": "x"}, {"attach_options": {"read_only": True}}, True),
    ],
)
def test_postgres_catalogs_with_the_same_data_path(
    other: dict[str, Any], options: dict[str, Any], *, clash: bool
) -> None:
    storage = S3 | {"bucket": "acme"}
    assert codes((POSTGRES, storage), (POSTGRES | other, storage), **options) == ["s1"] * clash


def test_symbolic_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "a.sqlite").touch()
    (tmp_path / "b.sqlite").symlink_to("a.sqlite")
    catalogs = [{"type": "sqlite", "uri": str(tmp_path / f"{name}.sqlite")} for name in "abc"]
    data, link = local(str(tmp_path / "data")), local(str(tmp_path / "link"))
    assert codes((catalogs[0], data), (catalogs[2], link)) == ["s1"]
    assert codes((catalogs[0], data), (catalogs[1], link)) == []


def test_validating_one_store_compares_it_with_all_others() -> None:
    stores = {
        name: {"metadata_backend": sqlite(name), "storage_backend": local(path)}
        for name, path in {"a": "/data", "b": "/data/b", "c": "/other"}.items()
    }
    for named, found in (("a", ["b"]), ("b", ["b"]), ("c", [])):
        assert [problem.store for problem in validate({"stores": stores}, named)] == found


def test_init_does_not_check_data_paths() -> None:
    """A job that uses one store does not need the variables of other stores."""
    stores = {name: {"metadata_backend": sqlite(name), "storage_backend": local("/data")} for name in "ab"}
    assert init({"stores": stores}).get_store("b").name == "b"
