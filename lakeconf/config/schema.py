"""Generates the JSON Schema of lakeconf.toml from the models, for completion and validation in editors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lakeconf.backends.backend import Backend
from lakeconf.backends.registry import metadata_backend, metadata_types, storage_backend, storage_types
from lakeconf.backends.store_options import COMMITTERS, OPTIONS
from lakeconf.config.read_store import ALIAS, STORE_NAME

_JSON_TYPES = {bool: "boolean", int: "integer", str: "string"}
_VARIABLE = {"type": "string", "pattern": r"\$\{", "description": "A variable: ${NAME} or ${NAME:-default}."}
_ATTACH = "Options of ATTACH; options that begin with meta_ are passed to the catalog's database."
_PIPELINE: Mapping[str, Any] = {
    "type": "object",
    "description": "The models that `lakeconf run` runs.",
    "properties": {
        "python": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Python files that declare models, relative to this file.",
            "examples": [["models.py"]],
        },
        "models": {"$ref": "#/$defs/models"},
        "tests": {
            "type": "object",
            "description": "Unit tests of models that `lakeconf test` runs, by name.",
            "additionalProperties": {"$ref": "#/$defs/unit_test"},
            "examples": [{"by_day": {"model": "marts.by_day", "given": {"raw.sales": [{"id": 1}]}, "expect": [{}]}}],
        },
    },
    "additionalProperties": False,
}


def json_schema(models: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Returns the JSON Schema of lakeconf.toml, including the backends of installed packages.

    Source: https://json-schema.org/draft/2020-12
    """
    definitions: dict[str, Any] = {
        "attach_options": _options("attach_options", _ATTACH)
        | {
            "patternProperties": {"^meta_[a-z0-9_]+$": {"type": ["string", "integer", "boolean"]}},
            "examples": [{"read_only": True}],
        },
        "maintenance": _options("maintenance", "Limits of maintenance that sets none of its own.")
        | {"examples": [{name: option.example for name, option in OPTIONS["maintenance"].items()}]},
        **(models or {"models": {"type": "object"}, "unit_test": {"type": "object"}}),
    }
    types = {"metadata_backend": metadata_types(), "storage_backend": storage_types()}
    classes = {"metadata_backend": metadata_backend, "storage_backend": storage_backend}
    backends = {key: _backends(key, types[key], of_type, definitions) for key, of_type in classes.items()}
    definitions["store"] = _store(backends, types, definitions)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "lakeconf.toml",
        "description": "DuckLake stores, each a metadata backend and a storage backend.",
        "type": "object",
        "properties": {
            "default_store": {"type": "string", "description": "The store to use if none is named."},
            "pipeline": _PIPELINE,
            "stores": {
                "type": "object",
                "description": "The stores by name.",
                "patternProperties": {f"^{STORE_NAME.pattern}$": {"$ref": "#/$defs/store"}},
                "additionalProperties": False,
                "minProperties": 1,
            },
        },
        "required": ["stores"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _store(
    backends: Mapping[str, Any], types: Mapping[str, tuple[str, ...]], definitions: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the schema of a store; a store that extends another may omit inherited keys."""
    partial = {section: _partial(section, types[section], definitions) for section in backends}
    whole = {"properties": dict(backends), "required": ["metadata_backend"]}
    return {
        "type": "object",
        "description": "Where a lake is and how to attach it.",
        "properties": {
            "alias": {
                "type": "string",
                "anyOf": [{"pattern": f"^{ALIAS}$"}, {"pattern": r"\$\{"}],
                "description": "The name under which the lake is attached; default: the store's name.",
                "examples": ["lake"],
            },
            "attach_options": {"$ref": "#/$defs/attach_options"},
            "branch_of": {
                "type": "string",
                "description": "The store of the lake that this one is a branch of: see `lakeconf branch`.",
                "examples": ["prod"],
            },
            "committer": {
                "anyOf": [{"enum": list(COMMITTERS)}, _VARIABLE],
                "description": "How merges of Spark are committed; default auto, which is public.",
                "examples": ["public"],
            },
            "extends": {
                "type": "string",
                "description": "The store to inherit keys from; a key set here replaces only that key.",
                "examples": ["prod"],
            },
            "maintenance": {"$ref": "#/$defs/maintenance"},
            "metadata_backend": {"description": "Where the catalog is."},
            "storage_backend": {"description": "Where the Parquet files are."},
        },
        "additionalProperties": False,
        "if": {"required": ["extends"]},
        "then": {"properties": partial},
        "else": whole,
    }


def _backends(
    section: str, types: tuple[str, ...], find: Callable[[str], type[Backend]], definitions: dict[str, Any]
) -> dict[str, Any]:
    for name in types:
        key = f"{section}.{name}"
        schema = find(name).model_json_schema(ref_template=f"#/$defs/{key}.{{model}}")
        definitions.update({f"{key}.{inner}": value for inner, value in schema.pop("$defs", {}).items()})
        properties = {field: _property(value) for field, value in schema["properties"].items()}
        properties["type"] = {"const": name, "description": schema.get("description", "")}
        required = ["type", *(field for field in schema.get("required", []) if field != "type")]
        definitions[key] = {
            "type": "object",
            "title": name,
            "description": schema.get("description", ""),
            "properties": properties,
            "required": required,
            "additionalProperties": schema.get("additionalProperties", True),
        }
    return _by_type(section, types, {name: {"$ref": f"#/$defs/{section}.{name}"} for name in types}) | {
        "required": ["type"]
    }


def _by_type(section: str, types: tuple[str, ...], schemas: Mapping[str, Any]) -> dict[str, Any]:
    """Selects the schema of a backend by its `type`: with `oneOf`, a wrong key is reported as an error of all types."""
    conditions = [
        {"if": {"type": "object", "properties": {"type": {"const": name}}, "required": ["type"]}, "then": schemas[name]}
        for name in types
    ]
    kind = {"enum": list(types), "description": f"The type of the {section.replace('_', ' ')}."}
    return {"type": "object", "properties": {"type": kind}, "allOf": conditions}


def _partial(section: str, types: tuple[str, ...], definitions: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the schema of a backend that inherits keys: its type may be inherited, and then any type's keys fit."""
    models = {name: {**definitions[f"{section}.{name}"], "required": []} for name in types}
    schema = _by_type(section, types, models)
    keys = sorted({key for model in models.values() for key in model["properties"]})
    any_key: dict[str, Any] = {"propertyNames": {"enum": keys}}
    inherited = {"if": {"type": "object", "not": {"required": ["type"]}}, "then": any_key}
    fits = {
        "if": {"type": "object", "not": {"required": ["type"]}, **any_key},
        "then": {"anyOf": list(models.values())},
    }
    return {**schema, "allOf": [*schema["allOf"], inherited, fits]}


def for_toml(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Adapts the schema of a key to TOML, which has no null."""
    # A value of another type would not be in the list either: two errors at one key.
    left_out = ("title", "default", *(["type"] if "enum" in schema else []))
    kept = {key: value for key, value in schema.items() if key not in left_out}
    choices = [choice for choice in kept.pop("anyOf", []) if choice != {"type": "null"}]
    if not choices:
        return kept
    return (choices[0] if len(choices) == 1 else {"anyOf": choices}) | kept


def _property(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Adapts a field's schema, and allows variables if the field is not a string."""
    adapted = for_toml(schema)
    described = {key: adapted.pop(key) for key in ("description", "examples") if key in adapted}
    choices = adapted.get("anyOf", [adapted])
    if any(choice.get("type") == "string" and "enum" not in choice for choice in choices):
        return adapted | described
    return {"anyOf": [*choices, _VARIABLE]} | described


def _options(table: str, description: str) -> dict[str, Any]:
    properties = {
        name: _property(
            {"type": _JSON_TYPES[option.kind], "description": option.description, "examples": [option.example]}
        )
        for name, option in OPTIONS[table].items()
    }
    return {"type": "object", "description": description, "properties": properties, "additionalProperties": False}
