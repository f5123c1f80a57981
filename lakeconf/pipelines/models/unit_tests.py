"""Unit tests of models: their tables in the configuration, and how they run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, WithJsonSchema

from lakeconf.config.config import Config
from lakeconf.config.schema import for_toml
from lakeconf.errors import ConfigError, LakeconfError, PipelineError, Problem, suggestion
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.intervals import Batch, in_utc, moment
from lakeconf.pipelines.models.body import Query
from lakeconf.pipelines.models.compared_rows import Row, RowDifference, compared, rows_sql
from lakeconf.pipelines.models.declaration import FORMS, check_quotes, checked_table, key_place, models_schema
from lakeconf.pipelines.models.kinds import Append, Incremental, Merge, Seed, Time, key
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.pipeline import Pipeline
from lakeconf.pipelines.rows import adopted, computed, placeholder_values
from lakeconf.sql import folded

FILES = "files"
_FEED = {"snapshot_id": "BIGINT", "rowid": "BIGINT", "change_type": "VARCHAR"}
Status = Literal["passed", "failed", "error"]
Rows: TypeAlias = Annotated[list[Row], key("The rows; a key that a row lacks is NULL.", [{"id": 1}])]


class Given(BaseModel):
    """The rows of an input."""

    model_config = ConfigDict(extra="forbid")

    rows: Rows = Field(default_factory=list)
    columns: Annotated[dict[str, str], key("Types of columns; default: those of the values.", {"id": "UUID"})] = Field(
        default_factory=dict
    )


def _form(value: object) -> str:
    return FORMS[isinstance(value, Mapping | Given)]


# Keywords about items and keys only apply to arrays and objects: with `anyOf`, a wrong key would be an error of both.
_GIVEN = {"items": {"type": "object"}, **for_toml(Given.model_json_schema()), "type": ["array", "object"]}

# One form is chosen, so that a wrong key is not an error of both.
GivenRows: TypeAlias = Annotated[
    Annotated[list[Row], Tag(FORMS[0])] | Annotated[Given, Tag(FORMS[1])], Discriminator(_form), WithJsonSchema(_GIVEN)
]


class DeclaredUnitTest(BaseModel):
    """Given rows of the inputs of a model, and the rows that it must compute."""

    model_config = ConfigDict(extra="forbid")

    model: Annotated[str, key("The table of the model.", "marts.daily")]
    given: Annotated[
        dict[str, GivenRows],
        key(
            "The rows of each input, by table; `files` for the rows of files.",
            {"raw.events": [{"id": 1}], "raw.users": {"columns": {"id": "UUID"}, "rows": []}},
        ),
    ] = Field(default_factory=dict)
    expect: Annotated[list[Row], key("The expected rows; a key that a row lacks is NULL.", [{"id": 1}])]
    columns: Annotated[list[str], key("The compared columns; default: those of `expect`.", ["id"])] = Field(
        default_factory=list
    )
    start: Annotated[Time | None, key("Start of the time range of an incremental model.", date(2026, 1, 1))] = None
    end: Annotated[Time | None, key("End of the time range.", date(2026, 1, 2))] = None


@dataclass(frozen=True)
class UnitTest:
    """A unit test of a model."""

    name: str
    declared: DeclaredUnitTest  # its table in the configuration
    place: str = ""  # the place of its table, as `file:line:column`


@dataclass(frozen=True)
class UnitTestResult:
    """The result of a unit test."""

    test: UnitTest
    status: Status  # `passed`; `failed` if the rows differ; `error` if the model cannot be computed
    difference: RowDifference = field(default_factory=lambda: RowDifference(()))  # the rows that differ
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
    inputs = _inputs(pipeline, model)
    provided = {folded(table) for table in declared.given}
    for table in declared.given:
        if folded(table) not in map(folded, inputs.values()):
            hint = suggestion(
                table, inputs.values(), f"name one of its inputs: {', '.join(inputs.values()) or 'it has none'}"
            )
            raise PipelineError(f"the model {model.table} has no input {table!r}", hint=hint)
    for table in inputs.values():
        if folded(table) not in provided:
            raise PipelineError(f"the test gives no rows of the input {table}", hint=f'write given."{table}" = [ … ]')
    if isinstance(model.kind, Incremental) and None in (declared.start, declared.end):
        raise PipelineError(f"the model {model.table} is incremental", hint="set start and end of the time range")
    return model


def chosen_tests(pipeline: Pipeline, tests: Sequence[UnitTest], names: Sequence[str]) -> list[UnitTest]:
    """Returns the selected tests; all if `names` is empty."""
    chosen = _named(pipeline, tests, names) if names else {test.name for test in tests}
    return [test for test in tests if test.name in chosen]


def run_unit_tests(
    pipeline: Pipeline,
    tests: Iterable[UnitTest],
    lake: Lake,
    progress: Callable[[UnitTestResult], None] = lambda _: None,
) -> list[UnitTestResult]:
    """Runs tests."""
    results = []
    for test in tests:
        try:
            model = check_unit_test(pipeline, test)
            with in_utc(lake):
                difference = _difference(pipeline, model, test.declared, lake)
            result = UnitTestResult(test, "failed" if difference else "passed", difference)
        except LakeconfError as error:
            result = UnitTestResult(test, "error", error=error)
        progress(result)
        results.append(result)
    return results


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
    return compared(lake, frame, {name: by_name[folded(name)] for name in columns}, test.expect)


def _inputs(pipeline: Pipeline, model: Model) -> Mapping[str, str]:
    """The inputs of a model by argument, with those for the rows of files."""
    first = {}
    if model.body is not None and isinstance(model.kind, Append) and model.kind.files is not None:
        first = {model.body.arguments()[0]: FILES}
    return {**first, **pipeline.inputs(model)}


def _given_sql(pipeline: Pipeline, model: Model, test: DeclaredUnitTest, table: str) -> str:
    declared_rows = next(table_rows for name, table_rows in test.given.items() if folded(name) == folded(table))
    rows, types = (
        (declared_rows, {}) if isinstance(declared_rows, list) else (declared_rows.rows, declared_rows.columns)
    )
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
    chosen: set[str] = set()
    for name in names:
        if any(test.name == name for test in tests):
            chosen.add(name)
            continue
        if not set(name) & set("+*?[:") and name not in pipeline.by_table:
            test_names = [test.name for test in tests]
            otherwise = (
                f"use one of the tests: {', '.join(test_names)}"
                if test_names
                else "declare tests in [pipeline.tests.NAME]"
            )
            hint = suggestion(name, [*test_names, *pipeline.by_table], otherwise)
            raise PipelineError(f"no test and no model is named {name!r}", hint=hint)
        tables = {model.table for model in pipeline.chosen([name])}
        chosen |= {test.name for test in tests if test.declared.model in tables}
    return chosen


def declared_unit_tests(config: Config) -> list[UnitTest]:
    """Loads the unit tests, without the models."""
    tests, problems, tables = list[UnitTest](), list[Problem](), ("pipeline", "tests")
    declarations = config.pipeline.get("tests", {})
    for name, table in declarations.items() if isinstance(declarations, Mapping) else ():
        try:
            check_quotes(config, tables, name, table, DeclaredUnitTest.model_fields)
            declared = checked_table(config, (*tables, name), DeclaredUnitTest, table)
            tests.append(UnitTest(name, declared, key_place(config, (*tables, name))))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tests


def pipeline_schema() -> dict[str, Any]:
    """Returns the definitions of `[pipeline]` for the JSON Schema of lakeconf.toml."""
    return models_schema(DeclaredUnitTest)
