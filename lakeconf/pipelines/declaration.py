"""Reads the table of a model in the configuration."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from lakeconf.config.codes import Code
from lakeconf.config.model import Config
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import ConfigError, suggestion
from lakeconf.pipelines.column_tests import DeclaredTests
from lakeconf.pipelines.kinds import KINDS, Append, Kind, Seed
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
    """Returns the keys of a kind of models, the shared ones first.

    Args:
        kind: Its name.
    """
    shared = (key for key in Declaration.model_fields if key not in _OF_SQL or KINDS[kind] is not Seed)
    return (*shared, *(field.name for field in dataclasses.fields(KINDS[kind])))


def parsed(config: Config, name: str, table: Any) -> tuple[Declaration, Kind]:
    """Checks the table of a model.

    Args:
        config: The configuration.
        name: The name of the model.
        table: Its table in the file.

    Raises:
        ConfigError: A key is unknown, missing or invalid.
    """
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
