"""Reads tables of the configuration: models, and other tables of which pydantic knows the keys."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeAlias, TypeVar, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, create_model

from lakeconf.config.backend_tables import field_fix, unknown_key_hint
from lakeconf.config.codes import Code
from lakeconf.config.config import Config
from lakeconf.config.schema import for_toml
from lakeconf.config.toml_text import toml_value
from lakeconf.errors import ConfigError, PipelineError, Problem, suggestion
from lakeconf.pipelines.models.body import shown_place
from lakeconf.pipelines.models.column_tests import DeclaredTests
from lakeconf.pipelines.models.kinds import KINDS, Append, Kind, Name, Seed, key

Table = TypeVar("Table", bound=BaseModel)
Sql: TypeAlias = Annotated[Name | None, key("The file with the query, relative to this file.", "models/daily.sql")]
_VALUES: Mapping[str, TypeAdapter[Any]] = {name: TypeAdapter(kind) for name, kind in KINDS.items()}
# Keys with keys of their own: the model of a table, and for tables by name the names between.
_BELOW = {"tests": 2, "given": 3}
# The names in pydantic's locations of the two forms of given rows.
FORMS = ("a list of rows", "a table of rows")


class Declaration(BaseModel):
    """The keys of a model in the file that every kind has."""

    model_config = ConfigDict(extra="forbid")

    kind: Annotated[str, key("How a run changes the table; default full.", "incremental")] = "full"
    partitioned_by: Annotated[list[str], key("The partition keys of the table.", ["day"])] = Field(default_factory=list)
    renamed: Annotated[
        dict[str, str],
        key("Renamed columns, which keep their values: the new name by the old name.", {"prize": "price"}),
    ] = Field(default_factory=dict)
    dropped: Annotated[
        list[str], key("Columns that the model no longer has and that a run may drop.", ["discount"])
    ] = Field(default_factory=list)
    audits: Annotated[
        dict[str, str],
        key("Queries for rows that must not exist, by name.", {"no_debt": "FROM marts.daily WHERE price < 0"}),
    ] = Field(default_factory=dict)
    comment: Annotated[str | None, key("The comment of the table.", "Revenue by day.")] = None
    tests: Annotated[
        DeclaredTests, key("Tests of columns, which every run checks before it commits.", {"not_null": ["day"]})
    ] = Field(default_factory=DeclaredTests)
    tags: Annotated[list[str], key("Names by which commands select the model.", ["nightly"])] = Field(
        default_factory=list
    )


class QueryDeclaration(Declaration):
    """The keys of a model that computes its rows with a query; only an append of files may lack it."""

    sql: Sql
    dialect: Annotated[
        Literal["duckdb", "spark"],
        key("The SQL of the query: duckdb, which DuckDB runs, or spark, which Spark runs; default duckdb.", "spark"),
    ] = "duckdb"
    inputs: Annotated[
        dict[str, str],
        key("The tables that the query reads, by the names that it gives them.", {"events": "raw.events"}),
    ] = Field(default_factory=dict)


def _table(kind: type[Kind]) -> type[Declaration]:
    hints = get_type_hints(kind, include_extras=True)
    fields: dict[str, Any] = {
        field.name: (hints[field.name], _default(field)) for field in dataclasses.fields(kind) if field.name in hints
    }
    if kind is Append:
        fields["sql"] = (Sql, None)
    return create_model(kind.name, __base__=Declaration if kind is Seed else QueryDeclaration, **fields)


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return Field(default_factory=field.default_factory)
    return ... if field.default is dataclasses.MISSING else field.default


# A union by the key `kind`: the keys of each kind of models.
TABLES: Mapping[str, type[Declaration]] = {name: _table(kind) for name, kind in KINDS.items()}


def parsed(config: Config, name: str, table: Any) -> tuple[Declaration, Kind]:
    """Checks the table of a model."""
    place = ("pipeline", "models", name)
    only_tables = isinstance(table, Mapping) and all(isinstance(value, Mapping) for value in table.values())
    every = {field_name for model in TABLES.values() for field_name in model.model_fields}
    check_quotes(config, place[:-1], name, table, () if only_tables else every)
    kind = table.get("kind", "full") if isinstance(table, Mapping) else "full"
    if isinstance(kind, str) and kind not in TABLES:
        hint = suggestion(kind, KINDS, f"use one of: {', '.join(KINDS)}")
        raise ConfigError([config.problem(Code.WRONG_VALUE, f"unknown kind {kind!r}", (*place, "kind"), hint=hint)])
    model = TABLES[kind if isinstance(kind, str) else "full"]
    declared = checked_table(config, place, model, table)
    checked = KINDS[kind](**{field.name: getattr(declared, field.name) for field in dataclasses.fields(KINDS[kind])})
    if isinstance(checked, Append) and checked.files is None and getattr(declared, "sql", None) is None:
        hint = ", or ".join(field_fix(key_name, model.model_fields[key_name]) for key_name in ("sql", "files"))
        raise ConfigError([config.problem(Code.MISSING_KEY, "is missing", (*place, "sql"), hint=hint)])
    return declared, checked


def check_kind(table: str, kind: Kind) -> None:
    """Checks the values of a kind, which Python code may have made."""
    if not isinstance(kind, tuple(KINDS.values())):
        hint = f"pass one of: {', '.join(kind_class.__name__ for kind_class in KINDS.values())}, such as Full()"
        raise PipelineError(f"the kind of the model {table} is {kind!r}", hint=hint, model=table)
    for name, problem in _wrong_values(kind):
        hint = field_fix(name, TABLES[kind.name].model_fields[name])
        raise PipelineError(f"{name} of the model {table}: {problem}", hint=hint, model=table)


def _wrong_values(kind: Kind) -> Iterator[tuple[str, str]]:
    """The names of wrong values, and what is wrong."""
    try:
        read = _VALUES[kind.name].validate_python(vars(kind))
    except ValidationError as error:
        yield from ((str(detail["loc"][0]), detail["msg"]) for detail in error.errors(include_url=False))
        return
    # pydantic also reads other types from strings, as in TOML.
    for name, value in vars(kind).items():
        if isinstance(value, str) and not isinstance(getattr(read, name), str):
            yield name, "is a string"


def checked_table(config: Config, place: tuple[str, ...], model: type[Table], table: Any) -> Table:
    """Reads a table: what pydantic reports becomes one problem for each key; unknown keys come first."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        every = error.errors(include_url=False, include_input=False)
    problems: dict[tuple[str, ...], Problem] = {}
    unknown = [detail for detail in every if detail["type"] == "extra_forbidden"]
    for detail in unknown or every:
        # Below a key with several types, pydantic reports one error for each of them.
        names = [part for part in detail["loc"] if isinstance(part, str) and part not in FORMS]
        names = names[: _BELOW.get(names[0] if names else "", 1)]
        code, message = {
            "missing": (Code.MISSING_KEY, "is missing"),
            "extra_forbidden": (Code.UNKNOWN_KEY, "unknown key"),
        }.get(detail["type"], (Code.WRONG_VALUE, detail["msg"]))
        hint = _hint(model, names, is_unknown=bool(unknown))
        problems.setdefault(tuple(names), config.problem(code, message, (*place, *names), hint=hint))
    raise ConfigError(list(problems.values()))


def _hint(model: type[BaseModel], names: list[str], *, is_unknown: bool) -> str:
    if not names:
        return 'write [pipeline.models."schema.table"] and its keys below it'
    field = model.model_fields.get(names[0])
    if not is_unknown:
        return field_fix(names[0], field) if field is not None else f"change {names[0]}"
    if field is None:
        return _unknown(names[0], model)
    if len(names) > 2 and "." not in names[1]:
        return f"write {names[0]}.{toml_value(f'{names[1]}.{names[2]}')}: a name with a dot needs quotes"
    keys = DeclaredTests.model_fields if names[0] == "tests" else ("rows", "columns")
    return unknown_key_hint(names[-1], keys)


def _unknown(name: str, model: type[BaseModel]) -> str:
    """Returns the hint for a key that a kind of models lacks."""
    kinds = [kind for kind, table in TABLES.items() if name in table.model_fields]
    if kinds and issubclass(model, Declaration):
        return f'remove it, or set kind = "{kinds[0]}", which has this key'
    return unknown_key_hint(name, model.model_fields)


def key_place(config: Config, key: tuple[str, ...]) -> str:
    """Returns the place of a key in the configuration; the key itself if the configuration is not a file."""
    problem = config.place(key)
    return shown_place(problem.file, problem.line, problem.column) or problem.key or ""


def check_quotes(config: Config, tables: tuple[str, ...], name: str, table: Any, keys: Container[str]) -> None:
    """Rejects names with a dot and without quotes, which TOML reads as a table in a table."""
    problems = []
    for part, value in table.items() if isinstance(table, Mapping) and "." not in name else ():
        if isinstance(value, Mapping) and part not in keys:
            right = config.place((*tables, f"{name}.{part}")).key
            message = f"the name {name}.{part} lacks quotes, so TOML reads it as a table in a table"
            problems.append(config.problem(Code.UNKNOWN_KEY, message, (*tables, name, part), hint=f"write [{right}]"))
    if problems:
        raise ConfigError(problems)


def models_schema(unit_test: type[BaseModel]) -> dict[str, Any]:
    """Returns the definitions for a schema: `models`, all models, `model.<kind>` for each kind, and `unit_test`."""
    definitions: dict[str, Any] = {"unit_test": _schema(unit_test, {})}
    for kind, table in TABLES.items():
        schema = definitions[f"model.{kind}"] = _schema(table, definitions)
        schema["properties"]["kind"] = {"const": kind}
        if kind == Append.name:
            schema |= {"if": {"not": {"required": ["files"]}}, "then": {"required": ["sql"]}}
    references = {kind: {"$ref": f"#/$defs/model.{kind}"} for kind in KINDS}
    by_kind = [
        {"if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]}, "then": reference}
        for kind, reference in references.items()
    ]
    # The kinds are cases: with `oneOf`, a wrong key would be an error of every kind.
    described = for_toml(Declaration.model_json_schema()["properties"]["kind"])
    del described["type"]  # a value of another type is not in the list either
    model = {
        "type": "object",
        "properties": {"kind": {**described, "enum": list(KINDS)}},
        "if": {"type": "object"},
        "then": {"allOf": [*by_kind, {"if": {"not": {"required": ["kind"]}}, "then": references["full"]}]},
    }
    definitions["models"] = {
        "type": "object",
        "description": "SQL models, seeds and files to load, by the table that they write: `schema.table`.",
        "propertyNames": {"pattern": r"^[^.]+\.[^.]+$"},
        "additionalProperties": model,
        "examples": [{"analytics.daily_revenue": {"kind": "full", "sql": "models/daily_revenue.sql"}}],
    }
    return definitions


def _schema(table: type[BaseModel], definitions: dict[str, Any]) -> dict[str, Any]:
    schema = table.model_json_schema(ref_template="#/$defs/model.{model}")
    inner = {f"model.{name}": definition for name, definition in schema.pop("$defs", {}).items()}
    definitions |= inner
    for object_schema in (schema, *inner.values()):
        object_schema["properties"] = {name: for_toml(field) for name, field in object_schema["properties"].items()}
    return schema
