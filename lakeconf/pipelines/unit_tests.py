"""Rows in the configuration as SQL: the inputs of a model in a unit test."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from typing import Annotated, Any, Literal, TypeAlias

import duckdb
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError
from pydantic_core import ErrorDetails

from lakeconf.config.config import Config
from lakeconf.config.toml_text import toml_value
from lakeconf.connection.connection import fetched
from lakeconf.errors import ConfigError, LakeconfError, PipelineError, Problem, suggestion
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.body import Query
from lakeconf.pipelines.intervals import Batch, in_utc, moment
from lakeconf.pipelines.kinds import Append, Flag, Incremental, Merge, Seed, Time
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.places import key_place, key_problems, unquoted_name_problems
from lakeconf.pipelines.row_comparison import Cell, RowDifference, compared, exact_sql, exact_value
from lakeconf.pipelines.rows import adopted, computed, placeholder_values
from lakeconf.sql import folded, identifier, literal
from lakeconf.write.ddl import type_sql

GivenRow = Mapping[str, Any]


_INT64 = range(-(2**63), 2**63)


def columns_of_rows(rows: Sequence[GivenRow], types: Mapping[str, str]) -> dict[str, str | None]:
    """Returns the columns of rows and their DuckDB types; None for nested values without a declared type."""
    found: dict[str, str | None] = {name: type_sql(name, text) for name, text in types.items()}
    known = {folded(name): name for name in found}
    for row in rows:
        seen = set()
        for name in row:
            if folded(name) in seen:
                raise PipelineError(
                    f"a row has the column {name!r} twice", hint="remove one of them: names ignore case"
                )
            seen.add(folded(name))
            if folded(name) not in known:
                known[folded(name)] = name
                found[name] = _inferred(name, [value for one in rows for value in _values(one, name)])
    return found


def rows_sql(rows: Sequence[GivenRow], types: Mapping[str, str]) -> str:
    """Returns a query for rows."""
    columns = columns_of_rows(rows, types)
    if not columns:
        raise PipelineError("the columns of a table without rows are unknown", hint="write { columns = { id = … } }")
    names = [f"lakeconf_{index}" for index in range(len(columns))]
    selected = ", ".join(
        f"{name if kind is None else f'CAST({name} AS {kind})'} AS {identifier(column)}"
        for name, (column, kind) in zip(names, columns.items(), strict=True)
    )
    listed = [f"({', '.join(_value(row, column, kind) for column, kind in columns.items())})" for row in rows]
    values = ", ".join(listed or [f"({', '.join(['NULL'] * len(columns))})"])
    # Without a number, DuckDB may return the rows in another order.
    return f"SELECT {selected} FROM (VALUES {values}) AS given({', '.join(names)}){'' if rows else ' WHERE false'}"


def _values(row: GivenRow, name: str) -> list[Any]:
    return [value for key, value in row.items() if folded(key) == folded(name)]


def _value(row: GivenRow, name: str, kind: str | None) -> str:
    found = _values(row, name)
    return _sql(found[0], typed=kind is not None) if found else "NULL"


def _inferred(name: str, values: Sequence[Any]) -> str | None:
    kinds = {_kind(value) for value in values}
    if len(kinds) == 1:
        return kinds.pop()
    for wide, narrow in (("DOUBLE", {"BIGINT", "DOUBLE"}), ("TIMESTAMP", {"DATE", "TIMESTAMP"})):
        if kinds <= narrow:
            return wide
    listed = ", ".join(sorted(kind or "nested" for kind in kinds))
    raise PipelineError(f"the column {name!r} has values of several types: {listed}", hint="declare its type")


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int):
        return "BIGINT" if value in _INT64 else "HUGEINT"
    if isinstance(value, float):
        return "DOUBLE"
    if isinstance(value, datetime):
        return "TIMESTAMP" if value.tzinfo is None else "TIMESTAMP WITH TIME ZONE"
    simple = {str: "VARCHAR", date: "DATE", time: "TIME"}
    return next((kind for python, kind in simple.items() if isinstance(value, python)), None)


def _sql(value: Any, *, typed: bool) -> str:
    """A value as SQL. Casts of text are exact: `9.99` becomes a DECIMAL without a rounded DOUBLE in between."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{literal(str(key))}: {_sql(one, typed=typed)}' for key, one in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(_sql(one, typed=typed) for one in value)}]"
    if isinstance(value, bool):
        return literal(value)
    if isinstance(value, float) and not math.isfinite(value):
        text = "nan" if math.isnan(value) else "infinity" if value > 0 else "-infinity"
    elif isinstance(value, datetime):
        text = value.isoformat(" ")
    else:
        text = value.isoformat() if isinstance(value, date | time) else str(value)
    return literal(text) if typed else f"CAST({literal(text)} AS {_kind(value)})"


FILES = "files"


# The form `{ rows = […], columns = {…} }` of given rows, in errors of pydantic.
TABLE = "table"


# A test compares each row with each; more are a mistake, such as a join without a condition.
MAX_ROWS = 10_000


_FEED = {"snapshot_id": "BIGINT", "rowid": "BIGINT", "change_type": "VARCHAR"}


Row = dict[str, Any]


Status = Literal["passed", "failed", "error"]


class Given(BaseModel):
    """The rows of an input.

    Attributes:
        rows: The rows; a key that a row lacks is NULL.
        columns: Types of columns; default: those that the model of the input declares, or those of the values.
    """

    model_config = ConfigDict(extra="forbid")

    rows: list[Row] = Field(default_factory=list)
    columns: dict[str, str] = Field(default_factory=dict)


def _form(value: object) -> str:
    return TABLE if isinstance(value, Mapping | Given) else "rows"


# One form is chosen, so that a wrong key is not an error of both.
GivenRows: TypeAlias = Annotated[Annotated[list[Row], Tag("rows")] | Annotated[Given, Tag(TABLE)], Discriminator(_form)]


class DeclaredUnitTest(BaseModel):
    """The table of a unit test in the configuration.

    Attributes:
        model: The table of the model.
        given: The rows of each input, by table; `files` for the rows of files.
        expect: The expected rows; a key that a row lacks is NULL. Columns that no row has are not compared.
        columns: The compared columns; default: those of `expect`.
        ordered: True if the order of the rows counts.
        start: Start of the time range of an incremental model.
        end: End of the time range.
    """

    model_config = ConfigDict(extra="forbid")

    model: str
    given: dict[str, GivenRows] = Field(default_factory=dict)
    expect: list[Row]
    columns: list[str] = Field(default_factory=list)
    ordered: Flag = False
    start: Time | None = None
    end: Time | None = None


@dataclass(frozen=True)
class UnitTest:
    """A unit test of a model.

    Attributes:
        name: The name.
        declared: Its table in the configuration.
        place: The place of its table, as `file:line:column`.
    """

    name: str
    declared: DeclaredUnitTest
    place: str = ""


@dataclass(frozen=True)
class UnitTestResult:
    """The result of a unit test.

    Attributes:
        test: The test.
        status: `passed`; `failed` if the rows differ; `error` if the model cannot be computed.
        difference: The rows that differ.
        error: The error.
    """

    test: UnitTest
    status: Status
    difference: RowDifference = field(default_factory=lambda: RowDifference(()))
    error: LakeconfError | None = None


def check_unit_test(pipeline: Pipeline, test: UnitTest) -> Model:
    """Returns the model of a test."""
    declared = test.declared
    model = pipeline.by_table.get(declared.model)
    if model is None:
        hint = suggestion(declared.model, pipeline.by_table, f"use one of: {', '.join(pipeline.by_table)}")
        raise PipelineError(f"unknown model {declared.model!r}", hint=hint)
    if model.body is None:
        raise PipelineError(f"the model {model.table} has no code to test", hint="select a model that reads it")
    known = _inputs(pipeline, model)
    given = {folded(table) for table in declared.given}
    for table in declared.given:
        if folded(table) not in map(folded, known.values()):
            hint = suggestion(
                table, known.values(), f"name one of its inputs: {', '.join(known.values()) or 'it has none'}"
            )
            raise PipelineError(f"the model {model.table} has no input {table!r}", hint=hint)
    for table in known.values():
        if folded(table) not in given:
            raise PipelineError(f"the test gives no rows of the input {table}", hint=f'write given."{table}" = [ … ]')
    if isinstance(model.kind, Incremental) and None in (declared.start, declared.end):
        raise PipelineError(f"the model {model.table} is incremental", hint="set start and end of the time range")
    return model


def chosen_tests(
    pipeline: Pipeline, tests: Sequence[UnitTest], names: Iterable[str], exclude: Iterable[str] = ()
) -> list[UnitTest]:
    """Returns the selected tests; all if `names` is empty."""
    given = list(names)
    wanted = _named(pipeline, tests, given) if given else {test.name for test in tests}
    left_out = _named(pipeline, tests, exclude)
    return [test for test in tests if test.name in wanted - left_out]


def run_unit_tests(
    pipeline: Pipeline,
    tests: Iterable[UnitTest],
    lake: Lake,
    progress: Callable[[UnitTestResult], None] = lambda _: None,
) -> list[UnitTestResult]:
    """Runs tests."""
    results = []
    for test in tests:
        result = _run(pipeline, test, lake)
        progress(result)
        results.append(result)
    return results


def _run(pipeline: Pipeline, test: UnitTest, lake: Lake) -> UnitTestResult:
    try:
        model = check_unit_test(pipeline, test)
        with in_utc([lake]):
            difference = _difference(pipeline, model, test.declared, lake)
    except LakeconfError as error:
        return UnitTestResult(test, "error", error=error)
    return UnitTestResult(test, "failed" if difference else "passed", difference)


def _difference(pipeline: Pipeline, model: Model, test: DeclaredUnitTest, lake: Lake) -> RowDifference:
    frames = {
        name: lake.sql(_given_sql(pipeline, model, test, table)) for name, table in _inputs(pipeline, model).items()
    }
    batch = None
    if test.start is not None and test.end is not None:
        batch = Batch(moment(test.start), moment(test.end), moment(test.end))
    if not isinstance(model.body, Query):
        frames = {name: adopted(lake, rows) for name, rows in frames.items()}
    frame = computed(model, lake, frames, placeholder_values(model, batch))
    returned = list(frame.collect_schema().names())
    by_name = {folded(name): name for name in returned}
    asked = [*test.columns, *(key for row in test.expect for key in row)] or returned
    columns = list({folded(name): name for name in asked}.values())
    for name in columns:
        if folded(name) not in by_name:
            hint = suggestion(name, returned, f"use one of: {', '.join(returned)}")
            raise PipelineError(f"the model {model.table} returns no column {name!r}", hint=hint)
    rows = _cells(lake, frame, [by_name[folded(name)] for name in columns])
    if len(rows) > MAX_ROWS:
        raise PipelineError(f"the model {model.table} returns more than {MAX_ROWS:,} rows", hint="give it fewer rows")
    return compared(columns, test.expect, rows, ordered=test.ordered)


def _cells(lake: Lake, frame: Any, columns: Sequence[str]) -> list[list[Cell]]:
    view = "lakeconf_returned"
    names = ", ".join(map(identifier, columns))
    relation: duckdb.DuckDBPyRelation = lake.query(f"SELECT {names} FROM {view}", {view: frame}).to_native()
    kinds = relation.types
    values = ", ".join(
        f"{exact_sql(name, kind)}, CAST({identifier(name)} AS VARCHAR)"
        for name, kind in zip(columns, kinds, strict=True)
    )
    query = lake.query(f"SELECT {values} FROM {view}", {view: frame})
    rows = fetched(query.head(MAX_ROWS + 1), lake._session.writer.secrets)  # noqa: SLF001 - for scrubbing only
    pairs = ([*zip(row[::2], row[1::2], kinds, strict=True)] for row in rows)
    return [[Cell(exact_value(value, kind), text) for value, text, kind in row] for row in pairs]


def _inputs(pipeline: Pipeline, model: Model) -> Mapping[str, str]:
    """The inputs of a model by argument, with those for the rows of files."""
    first = {}
    if model.body is not None and isinstance(model.kind, Append) and model.kind.files is not None:
        first = {model.body.arguments()[0]: FILES}
    return {**first, **pipeline.inputs(model)}


def _given_sql(pipeline: Pipeline, model: Model, test: DeclaredUnitTest, table: str) -> str:
    given = next(one for name, one in test.given.items() if folded(name) == folded(table))
    rows, types = (given, {}) if isinstance(given, list) else (given.rows, given.columns)
    source = model if table == FILES else pipeline.by_table.get(table)
    declared = source.kind.columns if source is not None and isinstance(source.kind, Append | Seed) else {}
    # A type for a declared column does not change its name: models in Python distinguish upper and lower case.
    spelled = {folded(name): name for name in declared}
    types = {**declared, **{spelled.get(folded(name), name): kind for name, kind in types.items()}}
    if isinstance(model.kind, Merge) and model.driving_input is not None:
        driving = pipeline.inputs(model)[model.driving_input]
        if driving == table:
            rows = [
                {"snapshot_id": 1, "rowid": number, "change_type": "insert", **row} for number, row in enumerate(rows)
            ]
            types = {**types, **_FEED}
    try:
        return rows_sql(rows, types)
    except LakeconfError as error:
        raise PipelineError(f"the given rows of {table}: {error.message}", hint=error.hint) from error


def _named(pipeline: Pipeline, tests: Sequence[UnitTest], names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    for name in names:
        if any(test.name == name for test in tests):
            found.add(name)
            continue
        if not set(name) & set("+*?[:") and name not in pipeline.by_table:
            known = [test.name for test in tests]
            otherwise = (
                f"use one of the tests: {', '.join(known)}" if known else "declare tests in [pipeline.tests.NAME]"
            )
            hint = suggestion(name, [*known, *pipeline.by_table], otherwise)
            raise PipelineError(f"no test and no model is named {name!r}", hint=hint)
        tables = {model.table for model in pipeline.chosen([name])}
        found |= {test.name for test in tests if test.declared.model in tables}
    return found


_FIXES = {
    "model": 'write model = "schema.table"',
    "given": 'write given."schema.table" = [{ id = 1 }], or { columns = { id = "UUID" }, rows = [] }',
    "expect": "write expect = [{ id = 1 }]",
    "columns": 'write columns = ["id"]',
    "ordered": "write ordered = true",
    "start": "write start = 2026-01-01",
    "end": "write end = 2026-01-02",
}


def declared_unit_tests(config: Config) -> list[UnitTest]:
    """Loads the unit tests."""
    problems = unit_test_problems(config)
    if problems:
        raise ConfigError(problems)
    return [
        UnitTest(name, DeclaredUnitTest.model_validate(table), key_place(config, ("pipeline", "tests", name)))
        for name, table in _tables(config).items()
    ]


def unit_test_problems(config: Config) -> list[Problem]:
    """Finds the problems of the tables of the unit tests, without loading models."""
    problems: list[Problem] = []
    tables = ("pipeline", "tests")
    for name, table in _tables(config).items():
        unquoted = unquoted_name_problems(config, tables, name, table, _FIXES)
        if unquoted:
            problems += unquoted
            continue
        try:
            DeclaredUnitTest.model_validate(table)
        except ValidationError as error:
            problems += key_problems(config, (*tables, name), error, _key, _fix)
    return problems


def _key(location: Sequence[int | str]) -> tuple[str, ...]:
    """The key of a test; below `given`, also the table and the key of its rows."""
    key, table, *rest = (*location, "", "", "")
    if key != "given" or not table:
        return (str(key),) if key else ()
    form, part, *_ = rest
    return (str(key), str(table), str(part)) if form == TABLE and part else (str(key), str(table))


def _fix(key: tuple[str, ...], found: ErrorDetails) -> str:
    if found["type"] == "extra_forbidden":
        if len(key) > 2 and "." not in key[1]:
            return f"write given.{toml_value(f'{key[1]}.{key[2]}')}: a name with a dot needs quotes"
        known = _FIXES if len(key) == 1 else Given.model_fields
        return suggestion(key[-1], known, f"use one of: {', '.join(known)}")
    return _FIXES["".join(key[:1])] if key else "write [pipeline.tests.NAME] and its keys below it"


def _tables(config: Config) -> Mapping[str, Any]:
    found = config.pipeline.get("tests", {})
    return found if isinstance(found, Mapping) else {}
