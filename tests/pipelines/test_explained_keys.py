"""The meaning of keys of `[pipeline]`, and the values of a declared model."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from lakeconf.config.model import Config, init
from lakeconf.errors import LakeconfError
from lakeconf.pipelines.column_tests import DeclaredTests
from lakeconf.pipelines.declaration import KEYS, TEST_KEYS, keys_of
from lakeconf.pipelines.explained_keys import described_keys, model_keys, model_values
from lakeconf.pipelines.kinds import KINDS
from lakeconf.pipelines.schema import UNIT_TEST_KEYS


def config(**models: Any) -> Config:
    store = {
        "metadata_backend": {"type": "postgres", "host": "h", "database": "d", "user": "u", "password": "hunter2"},
        "storage_backend": {"type": "local", "path": "d"},
    }
    found = init({"stores": {"dev": store}, "pipeline": {"models": models}})
    found.get_store("dev")  # knows its secrets
    return found


def test_every_key_is_described() -> None:
    assert [one.key for one in model_keys()] == [*KEYS, *UNIT_TEST_KEYS]
    assert described_keys("pipeline") == described_keys("pipeline.models") == model_keys()
    assert [one.key for one in described_keys("pipeline.tests")] == list(UNIT_TEST_KEYS)


@pytest.mark.parametrize("kind", KINDS)
def test_keys_of_a_kind_are_described(kind: str) -> None:
    assert {one.key for one in described_keys(kind)} == set(keys_of(kind))
    assert described_keys(f"pipeline.models.{kind}") == described_keys(kind)


def test_kinds_and_example_of_a_key() -> None:
    (found,) = described_keys("sql")
    assert found.kinds == "full, append, incremental, merge, view"
    assert [one.kinds for one in described_keys("kind")] == ["all kinds"]
    assert [one.example for one in described_keys("start")] == ["start = 2026-01-01", 'start = "2026-01-01"']


@pytest.mark.parametrize("key", TEST_KEYS)
def test_tests_of_columns_are_described(key: str) -> None:
    for name in (key, f"pipeline.models.tests.{key}"):
        (found,) = described_keys(name)
        assert (found.key, found.kinds) == (key, "tests of all kinds")
        DeclaredTests.model_validate(tomllib.loads(found.example)["tests"])


def test_values_of_a_model() -> None:
    found = model_values(config(**{"a.b": {"sql": "b.sql", "comment": "hunter2"}}), "pipeline.models.a.b")
    assert [one.key for one in found] == [f'pipeline.models."a.b".{key}' for key in keys_of("full")]
    values = {one.key.rpartition(".")[2]: (one.value, one.origin) for one in found}
    assert values["kind"] == ("full", "the default")
    assert values["sql"] == ('"b.sql"', 'pipeline.models."a.b".sql')
    assert values["tags"] == ("(not set)", "not set")
    assert "hunter2" not in repr(found)


@pytest.mark.parametrize(
    ("key", "message", "hint"),
    [
        ("pipeline.models.a.c", "the file declares no model 'a.c'", 'did you mean "a.b"?'),
        ("pipeline.models.a.b.cvs", "the model a.b of kind seed has no key 'cvs'", 'did you mean "csv"?'),
    ],
)
def test_unknown_model_or_key(key: str, message: str, hint: str) -> None:
    with pytest.raises(LakeconfError) as caught:
        model_values(config(**{"a.b": {"kind": "seed", "csv": "x"}}), key)
    assert (caught.value.message, caught.value.hint) == (message, hint)


@pytest.mark.parametrize("models", [[], {}, {"a.b": 1}])
def test_broken_models_are_no_models(models: Any) -> None:
    store = {"metadata_backend": {"type": "sqlite", "uri": "c"}, "storage_backend": {"type": "local", "path": "d"}}
    broken = init({"stores": {"dev": store}, "pipeline": {"models": models}})
    with pytest.raises(LakeconfError) as caught:
        model_values(broken, "pipeline.models.a.b")
    assert caught.value.hint == "declare it in [pipeline.models]"


@pytest.mark.parametrize("key", ["nothing", "pipeline.models.nothing"])
def test_unknown_key(key: str) -> None:
    with pytest.raises(LakeconfError) as caught:
        described_keys(key)
    assert caught.value.message == f"{key!r} is neither a code nor a key of a model"
