"""The JSON Schema accepts valid configurations and refuses those that an editor should mark."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from store_shapes import ALLOWED, configuration, has_credentials

from lakeconf.backends.registry import METADATA_BACKENDS, STORAGE_BACKENDS
from lakeconf.backends.store_options import OPTIONS
from lakeconf.config.schema import json_schema

REPOSITORY = Path(__file__).parent.parent.parent
BROKEN = REPOSITORY / "tests" / "config" / "broken"
# A schema cannot check values of variables, relations between keys or TOML syntax: those files are left out.
SEEN_BY_SCHEMA = [
    path.stem
    for path in sorted(BROKEN.glob("*.txt"))
    if any(f"[{code}]" in path.read_text() for code in ("LC010", "LC011", "LC012", "LC020", "LC050"))
    and not path.stem.startswith(("override", "default_store_override", "variable", "extends_a", "pyproject"))
]
SHAPES = [(*pair, inline) for pair in ALLOWED for inline in (False, True) if has_credentials(*pair) or not inline]


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_examples_of_the_schema_are_valid(validator: Any) -> None:
    for example in validator.schema["examples"]:
        validator.validate(example)


def test_the_configuration_of_the_repository_is_valid(validator: Any) -> None:
    validator.validate(tomllib.loads((REPOSITORY / "lakeconf.toml").read_text()))


@pytest.mark.parametrize(("metadata", "storage", "inline"), SHAPES)
def test_every_combination_of_backends_is_valid(metadata: str, storage: str, inline: bool, validator: Any) -> None:
    validator.validate(configuration(metadata, storage, inline=inline))


@pytest.mark.parametrize(
    "store",
    [
        {"extends": "prod"},
        {"extends": "prod", "storage_backend": {"prefix": "x"}},
        {"extends": "prod", "metadata_backend": {"type": "sqlite", "uri": "x"}},
        {"metadata_backend": {"type": "postgres", "secret_name": "x", "port": "${PORT}"}},
        {
            "metadata_backend": {"type": "sqlite", "uri": "x"},
            "attach_options": {"read_only": "${RO:-true}", "meta_x": 1},
        },
        {"metadata_backend": {"type": "sqlite", "uri": "x"}, "alias": "${ALIAS}"},
        {"extends": "prod", "maintenance": {"deadline": "${LIMIT}", "memory_limit": "4GB"}},
    ],
)
def test_stores_with_extends_and_variables_are_valid(store: dict[str, Any], validator: Any) -> None:
    validator.validate({"stores": {"dev": store}})


@pytest.mark.parametrize("name", SEEN_BY_SCHEMA)
def test_broken_configurations_are_refused(name: str, validator: Any) -> None:
    text = (BROKEN / f"{name}.toml").read_bytes().decode("utf-8-sig")
    assert not validator.is_valid(tomllib.loads(text))


@pytest.mark.parametrize(
    ("store", "path", "message"),
    [
        (
            {"metadata_backend": {"type": "sqlite", "url": "x", "uri": "x"}},
            ["metadata_backend"],
            "Additional properties are not allowed ('url' was unexpected)",
        ),
        ({"metadata_backend": {"type": "sqlite"}}, ["metadata_backend"], "'uri' is a required property"),
        ({"metadata_backend": {"uri": "x"}}, ["metadata_backend"], "'type' is a required property"),
        (
            {"metadata_backend": {"type": "sqlit", "uri": "x"}},
            ["metadata_backend", "type"],
            "'sqlit' is not one of ",
        ),
        (
            {"extends": "a", "storage_backend": {"type": "s3", "regoin": "x"}},
            ["storage_backend"],
            "Additional properties are not allowed ('regoin' was unexpected)",
        ),
        ({"extends": "a", "storage_backend": {"regoin": "x"}}, ["storage_backend"], "'regoin' is not one of "),
        ({"extends": "a", "storage_backend": {"type": "s3", "bucket": 1}}, ["storage_backend", "bucket"], "1 is not "),
        ({"extends": "a", "storage_backend": "s3"}, ["storage_backend"], "'s3' is not of type 'object'"),
    ],
)
def test_a_wrong_key_is_one_precise_problem(
    store: dict[str, Any], path: list[str], message: str, validator: Any
) -> None:
    (found,) = validator.iter_errors({"stores": {"dev": store}})
    assert list(found.absolute_path) == ["stores", "dev", *path]
    assert found.message.startswith(message)


def test_number_of_broken_configurations() -> None:
    assert len(SEEN_BY_SCHEMA) > 60


def test_everything_has_a_description() -> None:
    definitions = json_schema()["$defs"]
    backends = [f"metadata_backend.{name}" for name in METADATA_BACKENDS]
    backends += [f"storage_backend.{name}" for name in STORAGE_BACKENDS]
    for name in (*backends, "attach_options", "maintenance", "store"):
        assert definitions[name]["description"]
        for key, value in definitions[name]["properties"].items():
            assert value.get("description") or "$ref" in value, f"{name}.{key}"
    assert set(definitions["attach_options"]["properties"]) == set(OPTIONS["attach_options"])


def test_every_field_has_a_valid_example(validator: Any) -> None:
    definitions = validator.schema["$defs"]
    for name in [
        *map("metadata_backend.{}".format, METADATA_BACKENDS),
        *map("storage_backend.{}".format, STORAGE_BACKENDS),
    ]:
        for key, schema in definitions[name]["properties"].items():
            if key == "type":
                continue
            assert schema.get("examples"), f"{name}.{key}"
            for example in schema["examples"]:
                jsonschema.Draft202012Validator({**schema, "$defs": definitions}).validate(example)
