"""Reads the table of a model in the configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from lakeconf.config.codes import Code
from lakeconf.config.config import Config
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import ConfigError, suggestion
from lakeconf.pipelines.kinds import KINDS, Append, Kind, Seed
from lakeconf.pipelines.model import DeclaredTests
from lakeconf.pipelines.places import key_problems, unquoted_name_problems


class Key(NamedTuple):
    """What a key of a model means.

    Attributes:
        meaning: A sentence.
        example: A value.
    """

    meaning: str
    example: Any


class Declaration(BaseModel):
    """The keys of a model in the file that every kind supports."""

    model_config = ConfigDict(extra="allow")

    kind: str = "full"
    sql: str | None = None
    dialect: Literal["duckdb", "spark"] = "duckdb"
    inputs: dict[str, str] = Field(default_factory=dict)
    partitioned_by: list[str] = Field(default_factory=list)
    renamed: dict[str, str] = Field(default_factory=dict)
    dropped: list[str] = Field(default_factory=list)
    audits: dict[str, str] = Field(default_factory=dict)
    comment: str | None = None
    tests: DeclaredTests = Field(default_factory=DeclaredTests)
    tags: list[str] = Field(default_factory=list)


KEYS: Mapping[str, Key] = {
    "kind": Key("How a run changes the table; default full.", "incremental"),
    "sql": Key("The file with the query, relative to this file.", "models/daily.sql"),
    "dialect": Key(
        "The SQL of the query: duckdb, which DuckDB runs, or spark, which Spark runs; default duckdb.", "spark"
    ),
    "inputs": Key("The tables that the query reads, by the names that it gives them.", {"events": "raw.events"}),
    "partitioned_by": Key("The partition keys of the table.", ["day"]),
    "renamed": Key("Renamed columns, which keep their values: the new name by the old name.", {"prize": "price"}),
    "dropped": Key("Columns that the model no longer has and that a run may drop.", ["discount"]),
    "audits": Key("Queries for rows that must not exist, by name.", {"no_debt": "FROM marts.daily WHERE price < 0"}),
    "comment": Key("The comment of the table.", "Revenue by day."),
    "tests": Key("Tests of columns, which every run checks before it commits.", {"not_null": ["day"]}),
    "tags": Key("Names by which commands select the model.", ["nightly"]),
    "new_rows_of": Key("The input whose new rows the query receives; default: the only input.", "raw.events"),
    "files": Key("A pattern of files to load, relative to this file, or of URIs.", "landing/*.parquet"),
    "columns": Key("The columns of the files and their types; default: inferred.", {"price": "DECIMAL(18, 2)"}),
    "time_column": Key("The column of the result that assigns a row to an interval.", "day"),
    "interval": Key("The length of an interval.", "day"),
    "start": Key("The start of the first interval.", date(2026, 1, 1)),
    "lookback": Key("The number of intervals before new ones to process again.", 3),
    "batch": Key("The maximum number of intervals in a snapshot; default: all.", 30),
    "partial": Key("Also process an interval that has not ended.", example=True),
    "late": Key("What to do about done intervals whose inputs have changed.", "redo"),
    "on": Key("The key columns.", "id"),
    "changes_of": Key("The input whose changes the query receives; default: all rows of all inputs.", "raw.events"),
    "deleted": Key("A column of the result that is true for keys to delete.", "is_deleted"),
    "update": Key("Set to false to keep rows with existing keys unchanged.", example=False),
    "csv": Key("The CSV file, with a header, relative to this file.", "seeds/prices.csv"),
}


# The keys for a query, which a seed has not.
_OF_SQL = ("sql", "dialect", "inputs")


# The keys of `tests`.
TEST_KEYS: Mapping[str, Key] = {
    "not_null": Key("Columns without NULL.", ["id"]),
    "unique": Key("Columns, or lists of columns, whose values occur once; NULL may repeat.", ["id", ["day", "shop"]]),
    "accepted_values": Key("The only values of a column, apart from NULL.", {"kind": ["view", "sale"]}),
    "relationships": Key("The column of another table that has every value of a column.", {"shop": "raw.shops.id"}),
}


def keys_of(kind: str) -> tuple[str, ...]:
    """Returns the keys of a kind of models, the shared ones first."""
    shared = (key for key in Declaration.model_fields if key not in _OF_SQL or KINDS[kind] is not Seed)
    return (*shared, *(field.name for field in dataclasses.fields(KINDS[kind])))


def parsed(config: Config, name: str, table: Any) -> tuple[Declaration, Kind]:
    """Checks the table of a model."""
    place = ("pipeline", "models", name)
    only_tables = isinstance(table, Mapping) and all(isinstance(value, Mapping) for value in table.values())
    unquoted = unquoted_name_problems(config, place[:-1], name, table, () if only_tables else KEYS)
    if unquoted:
        raise ConfigError(unquoted)
    try:
        declared = Declaration.model_validate(table)
    except ValidationError as error:
        raise ConfigError(key_problems(config, place, error, _key, _fix)) from error
    if declared.kind not in KINDS:
        hint = suggestion(declared.kind, KINDS, f"use one of: {', '.join(KINDS)}")
        message = f"unknown kind {declared.kind!r}"
        raise ConfigError([config.problem(Code.WRONG_VALUE, message, (*place, "kind"), hint=hint)])
    known = keys_of(declared.kind)
    unknown = [
        config.problem(Code.UNKNOWN_KEY, "unknown key", (*place, key), hint=_unknown(key, declared.kind))
        for key in table
        if key not in known
    ]
    if unknown:
        raise ConfigError(unknown)
    try:
        kind: Kind = TypeAdapter(KINDS[declared.kind]).validate_python(declared.model_extra or {})
    except ValidationError as error:
        raise ConfigError(key_problems(config, place, error, _key, _fix)) from error
    _check_source(config, place, declared, kind)
    return declared, kind


def _unknown(key: str, kind: str) -> str:
    """Returns the hint for a key that a kind of models lacks."""
    known = keys_of(kind)
    if {key, kind} <= {"files", "csv", "append", "seed"}:
        other = "append" if kind == "seed" else "seed"
        twin = "csv" if key == "files" else "files"
        return f'write {twin} = {toml_value(KEYS[twin].example)}, or set kind = "{other}", which has {key}'
    kinds = [kind for kind in KINDS if key in keys_of(kind)]
    if kinds:
        return f'remove it, or set kind = "{kinds[0]}", which has this key'
    return suggestion(key, known, f"use one of: {', '.join(known)}")


def _check_source(config: Config, place: tuple[str, ...], declared: Declaration, kind: Kind) -> None:
    """A model in the file computes its rows with a query, or loads them from files."""
    from_files = isinstance(kind, Seed) or (isinstance(kind, Append) and kind.files is not None)
    if declared.sql is None and not from_files:
        other = f", or files = {toml_value(KEYS['files'].example)}" if isinstance(kind, Append) else ""
        hint = f"write sql = {toml_value(KEYS['sql'].example)}{other}"
        raise ConfigError([config.problem(Code.MISSING_KEY, "is missing", (*place, "sql"), hint=hint)])


def _key(location: Sequence[int | str]) -> tuple[str, ...]:
    """The key of a model that pydantic's location names, and the test below `tests`."""
    names = tuple(str(part) for part in location[:2] if isinstance(part, str))
    return names if names[:1] == ("tests",) else names[:1]


def _fix(key: tuple[str, ...], found: ErrorDetails) -> str:
    if len(key) > 1 and found["type"] == "extra_forbidden":
        return suggestion(key[1], DeclaredTests.model_fields, f"use one of: {', '.join(DeclaredTests.model_fields)}")
    if not key or key[0] not in KEYS:
        return 'write [pipeline.models."schema.table"] and its keys below it'
    meaning, example = KEYS[key[0]]
    return f"write {key[0]} = {toml_value(example)} ({meaning[0].lower()}{meaning[1:].rstrip('.')})"


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
