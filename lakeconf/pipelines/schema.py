"""Generates the JSON Schema of the models and their unit tests in lakeconf.toml."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from pydantic import TypeAdapter

from lakeconf.pipelines.declaration import KEYS, Declaration, keys_of
from lakeconf.pipelines.kinds import KINDS

# The dates and times that a model accepts as text; a format such as `date` is not checked by default.
_TIME = {
    "type": "string",
    "pattern": r"^\d{4}-\d\d-\d\d([Tt _]\d\d:\d\d(:\d\d([.,]\d+)?)? ?([Zz]|[+-]\d\d:?\d\d)?)?$",
}
_SCALARS = ["string", "boolean", "number"]
# Values that the types of the keys allow and a model refuses.
_LIMITS: dict[str, dict[str, Any]] = {
    "lookback": {"minimum": 0},
    "batch": {"minimum": 1},
    "sql": {"minLength": 1},
    "files": {"minLength": 1},
    "on": {"minLength": 1, "minItems": 1},
}
_TEST_LIMITS: dict[str, dict[str, Any]] = {
    "accepted_values": {"additionalProperties": {"type": "array", "items": {"type": _SCALARS}, "minItems": 1}},
    "relationships": {"additionalProperties": {"type": "string", "pattern": r"^[^.]+\.[^.]+\.[^.]+$"}},
    "unique": {"items": {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1}},
}
_DEFAULT = "full"
_ROWS = {"type": "array", "items": {"type": "object"}}
_TYPES = {"type": "object", "additionalProperties": {"type": "string"}}
# Keywords about items and keys only apply to arrays and objects: with `anyOf`, a wrong key would be an error of both.
_GIVEN = {
    "type": ["array", "object"],
    "items": {"type": "object"},
    "properties": {
        "rows": {**_ROWS, "description": "The rows; a key that a row lacks is NULL."},
        "columns": {**_TYPES, "description": "Types of columns; default: those of the values."},
    },
    "additionalProperties": False,
}
UNIT_TEST_KEYS: Mapping[str, tuple[str, Any, Mapping[str, Any]]] = {
    "model": ("The table of the model.", "marts.daily", {"type": "string"}),
    "given": (
        "The rows of each input, by table; `files` for the rows of files.",
        {"raw.events": [{"id": 1}], "raw.users": {"columns": {"id": "UUID"}, "rows": []}},
        {"type": "object", "additionalProperties": _GIVEN},
    ),
    "expect": ("The expected rows; a key that a row lacks is NULL.", [{"id": 1}], _ROWS),
    "columns": (
        "The compared columns; default: those of `expect`.",
        ["id"],
        {"type": "array", "items": {"type": "string"}},
    ),
    "ordered": ("True if the order of the rows counts.", True, {"type": "boolean"}),
    "start": ("Start of the time range of an incremental model.", "2026-01-01", _TIME),
    "end": ("End of the time range.", "2026-01-02", _TIME),
}


def models_schema() -> dict[str, Any]:
    """Returns the definitions for a schema: `models`, all models, `model.<kind>` for each kind, and `unit_test`."""
    definitions: dict[str, Any] = {}
    for kind in KINDS:
        definitions[f"model.{kind}"] = _of_kind(kind, definitions)
    by_kind = [
        {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": _reference(kind)}
        for kind in KINDS
    ]
    # The kinds are cases: with `oneOf`, a wrong key would be an error of every kind.
    model = {
        "type": "object",
        "properties": {"kind": {"enum": list(KINDS), **_described("kind")}},
        "if": {"type": "object"},
        "then": {
            "allOf": [*by_kind, {"if": {"not": {"required": ["kind"]}}, "then": _reference(_DEFAULT)}],
        },
    }
    models = {
        "type": "object",
        "description": "SQL models, seeds and files to load, by the table that they write: `schema.table`.",
        "propertyNames": {"pattern": r"^[^.]+\.[^.]+$"},
        "additionalProperties": model,
        "examples": [{"analytics.daily_revenue": {"kind": "full", "sql": "models/daily_revenue.sql"}}],
    }
    return {"models": models, "unit_test": _unit_test(), **definitions}


def _unit_test() -> dict[str, Any]:
    return {
        "type": "object",
        "description": "Given rows of the inputs of a model, and the rows that it must compute.",
        "properties": {
            key: {**schema, "description": meaning, "examples": [example]}
            for key, (meaning, example, schema) in UNIT_TEST_KEYS.items()
        },
        "required": ["model", "expect"],
        "additionalProperties": False,
    }


def _reference(kind: str) -> dict[str, str]:
    return {"$ref": f"#/$defs/model.{kind}"}


def _described(key: str) -> dict[str, Any]:
    meaning, example = KEYS[key]
    return {"description": meaning, "examples": [str(example) if isinstance(example, date) else example]}


def _of_kind(kind: str, definitions: dict[str, Any]) -> dict[str, Any]:
    shared = Declaration.model_json_schema(ref_template="#/$defs/model.{model}")
    own = TypeAdapter(KINDS[kind]).json_schema()
    types = shared["properties"] | own.get("properties", {})
    definitions.update({f"model.{name}": _tests(value) for name, value in shared["$defs"].items()})
    schema: dict[str, Any] = {
        "type": "object",
        "title": kind,
        "properties": {key: _property(key, types[key]) for key in keys_of(kind)} | {"kind": {"const": kind}},
        "required": [*own.get("required", []), *([] if kind in ("append", "seed") else ["sql"])],
        "additionalProperties": False,
    }
    if kind == "append":
        schema |= {"if": {"not": {"required": ["files"]}}, "then": {"required": ["sql"]}}
    return schema


def _property(key: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Adapts the schema of a key to TOML, which has no null."""
    # A value of another type would not be in the list either: two errors at one key.
    left_out = ("title", "default", *(["type"] if "enum" in schema else []))
    kept = {name: value for name, value in schema.items() if name not in left_out}
    choices = [choice for choice in kept.pop("anyOf", [kept]) if choice != {"type": "null"}]
    types: dict[str, Any] = dict(choices[0]) if len(choices) == 1 else {"anyOf": choices}
    types = _TIME if any(choice.get("format") == "date" for choice in choices) else types
    return types | _LIMITS.get(key, {}) | _described(key)


def _tests(schema: Mapping[str, Any]) -> dict[str, Any]:
    properties = {
        name: {key: value for key, value in one.items() if key not in ("title", "default")} | _TEST_LIMITS.get(name, {})
        for name, one in schema["properties"].items()
    }
    return {**schema, "properties": properties}
