"""Stores must not define one secret in different ways: the store attached last would replace the others' secret."""

from __future__ import annotations

import pytest
from config_source import stores_of
from prod_store import PROD, problems_of, stores

from lakeconf.config.checks import SharedSecrets
from lakeconf.config.config import init, validate
from lakeconf.config.read_store import Reading, read_store
from lakeconf.sql import CreateSecret

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
    """Reads the stores of a text, and remembers which."""

    def __init__(self, text: str, environment: dict[str, str] | None = None) -> None:
        self.stores = stores_of(text)
        self.environment = environment or {}
        self.read: list[str] = []
        self.shared = SharedSecrets(self.stores, self)

    def __call__(self, name: str) -> Reading:
        self.read.append(name)
        return read_store(self.stores, name, self.environment)

    def clashes(self, name: str) -> list[tuple[str, str]]:
        """The names of the secrets and stores."""
        reading = read_store(self.stores, name, self.environment)
        assert reading.store is not None, reading.problems
        return [(secret.name, other) for secret, other in self.shared.clashes(name, reading)]


def bucket(name: str, secret: str = "mine", key_id: str = "k", parameters: str = "") -> str:
    return BUCKET.format(name=name, secret=secret, key_id=key_id, parameters=parameters)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("refresh = true", "refresh = 1"),
        ("refresh = 1", "refresh = 1.0"),
        ('chain = ["a", "b"]', 'chain = ["b", "a"]'),
        ('refresh_info = { region = "a" }', 'refresh_info = { region = "b" }'),
        ('refresh_info = { region = "a" }', ""),
        ('token = "a"', 'token = "b"'),
    ],
)
def test_different_parameters_clash(one: str, other: str) -> None:
    readings = Readings(bucket("a", parameters=one) + bucket("b", parameters=other))
    assert readings.clashes("a") == [("mine", "b")]


def test_numbers_and_texts_that_are_secrets_are_equal() -> None:
    """Parameters that are not listed become secrets, which are texts."""
    assert Readings(bucket("a", parameters='n = "1"') + bucket("b", parameters="n = 1")).clashes("a") == []


@pytest.mark.parametrize(
    "parameters",
    ["", 'refresh_info = { region = "a", token = "t" }', 'chain = ["a", "b"]', "refresh = true", "n = inf"],
)
def test_equal_parameters_do_not_clash(parameters: str) -> None:
    readings = Readings(bucket("a", parameters=parameters) + bucket("b", parameters=parameters))
    assert readings.clashes("a") == readings.clashes("b") == []


def test_order_of_parameters_does_not_matter() -> None:
    readings = Readings(bucket("a", parameters='x = "1", y = "2"') + bucket("b", parameters='y = "2", x = "1"'))
    assert readings.clashes("a") == []


def test_duckdb_ignores_the_case_of_names() -> None:
    readings = Readings(bucket("a", "Mine") + bucket("b", "mINE", key_id="other"))
    assert readings.clashes("a") == [("Mine", "b")]
    assert readings.clashes("b") == [("mINE", "a")]


def test_secrets_of_another_type_clash() -> None:
    readings = Readings(bucket("a") + bucket("b").replace('type = "s3"', 'type = "gcs"').replace("s3://", "gs://"))
    assert readings.clashes("a") == [("mine", "b")]


def test_first_clashing_store_in_the_file_is_named() -> None:
    text = bucket("same") + bucket("a") + bucket("first", key_id="x") + bucket("second", key_id="y")
    assert Readings(text).clashes("a") == [("mine", "first")]


def test_only_stores_that_mention_the_name_are_read() -> None:
    readings = Readings(bucket("a") + bucket("other", "another") + bucket("b") + "[stores.broken]\n")
    assert readings.clashes("a") == []
    assert readings.read == ["b"]


def test_name_from_a_variable_is_resolved() -> None:
    text = bucket("a") + bucket("b", "${NAME}", key_id="x")
    assert Readings(text, {"NAME": "mine"}).clashes("a") == [("mine", "b")]
    assert Readings(text, {"NAME": "other"}).clashes("a") == []


def test_invalid_store_and_reference_do_not_clash() -> None:
    reference = bucket("b").replace('key_id = "k"\nsecret = "s"\n', "").replace("secret_parameters = {  }\n", "")
    assert Readings(bucket("a") + reference).clashes("a") == []
    broken = Readings(bucket("a") + bucket("b", key_id="x") + "nonsense = 1\n")
    assert broken.clashes("a") == []


def test_store_that_is_read_again_is_compared_again() -> None:
    readings = Readings(bucket("a") + bucket("b", key_id="${KEY}"), {"KEY": "k"})
    assert readings.clashes("a") == []
    readings.environment["KEY"] = "other"
    assert readings.clashes("a") == [("mine", "b")]


def test_stores_with_equal_fields_can_share_a_secret(variables: None) -> None:
    assert validate(stores(prod=PROD, staging={"extends": "prod", "alias": "other"})) == []


def test_shared_secret_with_different_fields_is_refused(variables: None) -> None:
    staging = {"extends": "prod", "metadata_backend": {"host": "other"}}
    source = stores(prod=PROD, staging=staging)
    for name, other in [("prod", "staging"), ("staging", "prod")]:
        (problem,) = problems_of(source, name)
        assert problem.code == "LC055"
        assert other in problem.message


def test_store_can_refer_to_the_secret_of_another_store(variables: None) -> None:
    reader = {**PROD, "metadata_backend": {"type": "postgres", "secret_name": "prod_catalog"}}
    assert validate(stores(prod=PROD, reader=reader)) == []


def test_generated_secret_names_are_unique(variables: None) -> None:
    metadata = {key: value for key, value in PROD["metadata_backend"].items() if key != "secret_name"}
    storage = {key: value for key, value in PROD["storage_backend"].items() if key != "secret_name"}
    table = {"metadata_backend": metadata, "storage_backend": storage}
    names = ["a", "a_b", "metadata", "a_metadata", "a_storage", "lakeconf"]
    config = init(stores(**dict.fromkeys(names, table)))
    made = [s.name for name in names for s in config.get_store(name).statements if isinstance(s, CreateSecret)]
    assert len(set(made)) == len(made) == 3 * len(names)
