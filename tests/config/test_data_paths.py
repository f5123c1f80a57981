"""Stores that share something: data paths, or secrets that they define in different ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from config_source import PROD, problems_of, stores, stores_of

from lakeconf.config.checks import shared_secrets
from lakeconf.config.config import init, validate
from lakeconf.config.read_store import StoreReading, read_store
from lakeconf.sql import CreateSecret

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


FOLDERS = [
    ("/data", "/data", True),
    ("/data/", "/data", True),
    ("/data/a/../b", "/data/b", True),
    ("/data", "/data/b", True),
    ("/data/b/c", "/data", True),
    ("/", "/data", True),
    ("/data", "/data2", False),
    ("/data/a", "/data/b", False),
]
BUCKETS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"bucket": "acme", "prefix": "lake"}, {"bucket": "acme", "prefix": "lake/"}, True),
    ({"bucket": "acme", "prefix": "lake"}, {"data_path": "s3://acme/lake/raw"}, True),
    ({"bucket": "acme"}, {"bucket": "acme", "prefix": "lake"}, True),
    ({"bucket": "acme"}, {"bucket": "ACME"}, True),
    ({"bucket": "acme"}, {"bucket": "acme", "endpoint": "s3.eu-central-1.amazonaws.com"}, True),
    ({"bucket": "acme", "prefix": "lake"}, {"bucket": "acme", "prefix": "lake2"}, False),
    ({"bucket": "acme", "prefix": "lake"}, {"bucket": "acme", "prefix": "Lake"}, False),
    ({"bucket": "acme"}, {"bucket": "acme2"}, False),
    ({"bucket": "acme", "endpoint": "one:9000"}, {"bucket": "acme", "endpoint": "two:9000"}, False),
]
PATHS = [
    *((local(one), local(other), clash) for one, other, clash in FOLDERS),
    *((S3 | one, S3 | other, clash) for one, other, clash in BUCKETS),
]


@pytest.mark.parametrize(("one", "other", "clash"), PATHS)
def test_overlapping_folders_and_buckets(one: dict[str, Any], other: dict[str, Any], *, clash: bool) -> None:
    assert codes((sqlite("a"), one), (sqlite("b"), other)) == ["s1"] * clash


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


def test_postgres_catalogs_with_the_same_data_path() -> None:
    cases: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
        ({"metadata_schema": "stagign"}, {}, True),
        ({"database": "other"}, {}, True),
        ({"host": "staging.example.com"}, {}, True),
        ({"port": 6432}, {}, True),
        ({"port": 5432}, {}, False),
        ({"host": "DB.example.com"}, {}, False),
        ({"user": "reader"}, {}, False),
        ({"host": "replica.example.com"}, {"attach_options": {"read_only": True}}, False),
        ({"host": "replica.example.com", "database": "x"}, {"attach_options": {"read_only": True}}, True),
    ]
    for other, options, clash in cases:
        storage = S3 | {"bucket": "acme"}
        assert codes((POSTGRES, storage), (POSTGRES | other, storage), **options) == ["s1"] * clash, other


def test_symbolic_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to("data")
    (tmp_path / "a.sqlite").touch()
    (tmp_path / "b.sqlite").symlink_to("a.sqlite")
    catalogs = [{"type": "sqlite", "uri": str(tmp_path / f"{name}.sqlite")} for name in "abc"]
    data, link = local(str(tmp_path / "data")), local(str(tmp_path / "link"))
    assert codes((catalogs[0], data), (catalogs[2], link)) == ["s1"]
    assert codes((catalogs[0], data), (catalogs[1], link)) == []


def test_validating_one_store_compares_it_with_all_others_and_init_with_none() -> None:
    """A job that uses one store does not need the variables of other stores."""
    stores = {
        name: {"metadata_backend": sqlite(name), "storage_backend": local(path)}
        for name, path in {"a": "/data", "b": "/data/b", "c": "/other"}.items()
    }
    for named, found in (("a", ["b"]), ("b", ["b"]), ("c", [])):
        assert [problem.store for problem in validate({"stores": stores}, named)] == found
    assert init({"stores": stores}).get_store("b").name == "b"


BUCKET = """
[stores.{name}.metadata_backend]
type = "sqlite"
uri = "/c"
[stores.{name}.storage_backend]
type = "s3"
bucket = "b"
key_id = "{key_id}"
secret = "s"
secret_name = "{secret}"
secret_parameters = {{ {parameters} }}
"""


class Readings:
    """Reads the stores of a text."""

    def __init__(self, text: str, environment: dict[str, str] | None = None) -> None:
        self.stores = stores_of(text)
        self.environment = environment or {}

    def __call__(self, name: str) -> StoreReading:
        return read_store(self.stores, name, self.environment)

    def clashes(self, name: str) -> list[tuple[str, str]]:
        """The names of the secrets and stores."""
        assert self(name).store is not None, self(name).problems
        return [(secret.name, other) for secret, other in shared_secrets(self.stores, name, self)]


def bucket(name: str, secret: str = "mine", key_id: str = "k", parameters: str = "") -> str:
    return BUCKET.format(name=name, secret=secret, key_id=key_id, parameters=parameters)


SAME = ("", 'refresh_info = { region = "a", token = "t" }', 'chain = ["a", "b"]', "refresh = true", "n = inf")


def test_only_different_parameters_clash() -> None:
    for one, other, clash in (
        ('chain = ["a", "b"]', 'chain = ["b", "a"]', True),
        ('refresh_info = { region = "a" }', 'refresh_info = { region = "b" }', True),
        ('refresh_info = { region = "a" }', "", True),
        ('token = "a"', 'token = "b"', True),
        *((parameters, parameters, False) for parameters in SAME),
        ('x = "1", y = "2"', 'y = "2", x = "1"', False),
        # Parameters that are not listed become secrets, which are strings.
        ('n = "1"', "n = 1", False),
    ):
        readings = Readings(bucket("a", parameters=one) + bucket("b", parameters=other))
        assert (readings.clashes("a"), readings.clashes("b")) == ([("mine", "b")] * clash, [("mine", "a")] * clash), one


def test_secrets_clash_whose_names_differ_in_case_or_types_differ() -> None:
    readings = Readings(bucket("a", "Mine") + bucket("b", "mINE", key_id="other"))
    assert (readings.clashes("a"), readings.clashes("b")) == ([("Mine", "b")], [("mINE", "a")])
    readings = Readings(bucket("a") + bucket("b").replace('type = "s3"', 'type = "gcs"').replace("s3://", "gs://"))
    assert readings.clashes("a") == [("mine", "b")]


def test_first_clashing_store_in_the_file_is_named() -> None:
    text = bucket("same") + bucket("a") + bucket("first", key_id="x") + bucket("second", key_id="y")
    assert Readings(text).clashes("a") == [("mine", "first")]


def test_name_from_a_variable_is_resolved() -> None:
    text = bucket("a") + bucket("b", "${NAME}", key_id="x")
    assert Readings(text, {"NAME": "mine"}).clashes("a") == [("mine", "b")]
    assert Readings(text, {"NAME": "other"}).clashes("a") == []


def test_invalid_store_and_reference_do_not_clash() -> None:
    reference = bucket("b").replace('key_id = "k"\nsecret = "s"\n', "").replace("secret_parameters = {  }\n", "")
    assert Readings(bucket("a") + reference).clashes("a") == []
    broken = Readings(bucket("a") + bucket("b", key_id="x") + "nonsense = 1\n")
    assert broken.clashes("a") == []


def test_stores_share_a_secret_with_equal_fields_or_by_its_name(variables: None) -> None:
    assert validate(stores(prod=PROD, staging={"extends": "prod", "alias": "other"})) == []
    reader = {**PROD, "metadata_backend": {"type": "postgres", "secret_name": "prod_catalog"}}
    assert validate(stores(prod=PROD, reader=reader)) == []


def test_shared_secret_with_different_fields_is_refused(variables: None) -> None:
    staging = {"extends": "prod", "metadata_backend": {"host": "other"}}
    source = stores(prod=PROD, staging=staging)
    for name, other in [("prod", "staging"), ("staging", "prod")]:
        (problem,) = problems_of(source, name)
        assert problem.code == "LC055"
        assert other in problem.message


def test_generated_secret_names_are_unique(variables: None) -> None:
    metadata = {key: value for key, value in PROD["metadata_backend"].items() if key != "secret_name"}
    storage = {key: value for key, value in PROD["storage_backend"].items() if key != "secret_name"}
    table = {"metadata_backend": metadata, "storage_backend": storage}
    names = ["a", "a_b", "metadata", "a_metadata", "a_storage", "lakeconf"]
    config = init(stores(**dict.fromkeys(names, table)))
    made = [s.name for name in names for s in config.get_store(name).statements if isinstance(s, CreateSecret)]
    assert len(set(made)) == len(made) == 3 * len(names)
