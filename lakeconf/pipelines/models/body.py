"""What computes the rows of a model: a function, or a query in DuckDB's or Spark's SQL. Errors name the place in it."""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, TypeAlias

import narwhals as nw

from lakeconf.catalog.queries.parsed_query import (
    NotOneQuery,
    ParsedQuery,
    Span,
    original_offset,
    parse_query,
    replaced,
    unique_view,
)
from lakeconf.catalog.queries.stored_queries import prepare_query
from lakeconf.config.codes import Code
from lakeconf.config.file_limits import MAX_DEPTH, MAX_UNTRUSTED_TOKENS, too_deep, too_long
from lakeconf.config.toml_text import drawn
from lakeconf.connection.duckdb_errors import place_of, reported
from lakeconf.engines.engine import spark_operations
from lakeconf.engines.schema_check import check_distinct
from lakeconf.errors import LakeconfError, PipelineError, Problem, QueryError, SchemaError, UnsafeQueryError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.models.definition_hash import FunctionSource, function_code, loaded_source, sql_code
from lakeconf.secret import Secret, scrub

# A configuration may name any file as SQL: only lines of files that end in this are shown.
_ENDING = ".sql"
# Table functions that make rows and read nothing.
_SERIES = frozenset({"generate_series", "range", "unnest"})
_EXPLAIN = "EXPLAIN "
_QUERY = "write SELECT … FROM …"
_FUNCTION = 'read a table: a model of kind = "append" loads files; only range, generate_series and unnest are allowed'
_DEEP = f"nest at most {MAX_DEPTH} levels: move inner queries to WITH, or to another model"
# Arguments of a model that are not inputs, and placeholders of the same names in SQL.
BOUNDS = ("start", "end")
_CAST = re.compile(r"(try_)?cast\b|::", re.IGNORECASE)


def shown_place(path: Path | None, line: int | None = None, column: int | None = None) -> str:
    """Returns `file:line:column`, relative to the working directory; empty if nothing is known."""
    if path is None:
        return "" if line is None else f"the SQL, line {line}, column {column}"
    here = Path.cwd()
    file = str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
    return file if line is None else f"{file}:{line}:{column}"


class ModelSqlError(PipelineError):
    """The SQL of a model is not a single query.

    Attributes:
        problem: The problem with its place; without a place if it is unknown.
    """

    def __init__(self, problem: Problem) -> None:
        place = shown_place(problem.file, problem.line, problem.column)
        text = f"{place}: {problem.message}" if place else problem.message
        super().__init__("\n".join(filter(None, (text, problem.excerpt))), hint=problem.hint)
        self.problem = problem


def _position_in_lake(lake: Lake, sql: str, frames: Iterable[str]) -> int | None:
    """Returns the byte of a query at which DuckDB finds an error, on the connection of the lake; None if unknown."""
    reader = lake._session.reader  # noqa: SLF001 - the place of an error is not part of a lake's interface
    try:
        prepare_query(reader, sql, frames=frames)
    except LakeconfError:
        return None
    with reader.connection.errors_as_json():
        try:
            reader.connection.execute(f"{_EXPLAIN}{sql}")
        except LakeconfError as error:
            report = reported(error.message)
            return None if report is None or report.position is None else report.position - len(_EXPLAIN)
    return None


@dataclass(frozen=True)
class Function:
    """A function that takes lazy narwhals frames and returns one.

    Each kind of body has `arguments`, the names of its inputs; `code`, without comments; `at`, the start of a message
    with its file and line, or those of an error; and `rows`, a lazy frame of the lake's engine.
    """

    function: Callable[..., Any]
    _source: FunctionSource | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_source", loaded_source(self.function))

    def arguments(self) -> Sequence[str]:
        return [name for name in inspect.signature(self.function).parameters if name not in BOUNDS]

    def code(self) -> str:
        return function_code(self.function, self._source)

    def at(self, error: BaseException | None = None) -> str:
        file, line = inspect.getfile(self.function), self.function.__code__.co_firstlineno
        for frame in traceback.extract_tb(None if error is None else error.__traceback__):
            line = frame.lineno or line if frame.filename == file else line
        return f"{shown_place(Path(file))}:{line}: "

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:  # noqa: ARG002 - as in other bodies
        parameters = inspect.signature(self.function).parameters
        result = self.function(**frames, **{name: value for name, value in bounds.items() if name in parameters})
        try:
            return nw.from_native(result)
        except TypeError as error:
            raise SchemaError(
                f"{self.function.__qualname__} returned a {type(result).__name__}", hint="return a narwhals frame"
            ) from error


@dataclass(frozen=True)
class Query:
    """A query in DuckDB's SQL, which DuckDB runs, also if the lake is open on Spark.

    Attributes:
        text: The query; `$start` and `$end` are the time range.
        path: The file that contains it.
        secrets: Values that errors never show.
    """

    text: str
    path: Path | None = None
    secrets: Sequence[Secret] = field(default=(), repr=False, compare=False, kw_only=True)

    def arguments(self) -> Sequence[str]:
        return list(dict.fromkeys(table.name for table in self.parsed.tables))

    def code(self) -> str:
        return sql_code(self.text)

    def at(self, error: BaseException | None = None) -> str:  # noqa: ARG002 - as in other bodies
        return "" if self.path is None else f"{shown_place(self.path)}: "

    def check_length(self) -> None:
        """Checks that an untrusted query can be parsed within seconds."""
        beyond = too_long(self.text, "SQL")
        if beyond is not None:
            message, hint = f"the SQL has more than {MAX_UNTRUSTED_TOKENS} tokens", "split it into several models"
            raise self._refused(message, beyond, hint=hint)

    @functools.cached_property
    def parsed(self) -> ParsedQuery:
        """The query as DuckDB's parser reads it."""
        deep = too_deep(self.text, "SQL")
        if deep is not None:
            raise self._refused("the SQL is nested too deeply", deep, hint=_DEEP)
        try:
            query = parse_query(self.text)
        except NotOneQuery as error:
            # The message may quote the file, which may be any file.
            reason = error.message if self._is_shown else "it cannot be parsed"
            raise self._refused(f"the SQL is not a single DuckDB query: {reason}", error.offset, hint=_QUERY) from None
        if query.describes:
            raise self._refused("the SQL describes tables, and has no rows of them", hint=_QUERY)
        for name, offset in query.functions:
            if name.lower() not in _SERIES:
                raise self._refused(f"the function {name} is not an input of a model", offset, hint=_FUNCTION)
        return query

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:
        views = {unique_view(): name for name in frames}
        changes = self._changes({name: view for view, name in views.items()}, bounds)
        inputs = {view: frames[name] for view, name in views.items()}
        try:
            rows = lake.sql(replaced(self.text, changes), **inputs)
        except (QueryError, SchemaError) as error:
            raise self._placed(error, lake, changes, views) from error
        try:
            check_distinct(nw.to_native(rows).columns, "the result of the SQL")
        except SchemaError as error:
            raise self._refused(error.message, hint=error.hint) from None
        return rows

    def write_error(self, error: LakeconfError, bounds: Mapping[str, date | datetime]) -> LakeconfError:
        """Returns an error of a write of the rows, with its place if DuckDB names a cast of the query."""
        position = place_of(error)
        if position is None:
            return error
        # Only the lengths of the names matter.
        changes = self._changes({name: unique_view() for name in self.arguments()}, bounds)
        sql = replaced(self.text, changes).encode()
        if not _CAST.match(sql[position:].decode(errors="ignore")):  # it is a cast of an input, such as a view
            return error
        return self._at(error, position, changes)

    def check(self, lake: Lake) -> None:
        """Checks that a lake can run the query as it is, such as for a view."""
        try:
            lake.sql(self.text)
        except QueryError as error:
            raise self._placed(error, lake, {}, ()) from error

    def _changes(self, views: Mapping[str, str], bounds: Mapping[str, date | datetime]) -> dict[Span, str]:
        """Returns what a run puts in place of parts of the text: views for tables, and values for placeholders."""
        values = {span: _bound(name, bounds) for name, span in self.parsed.parameters}
        return {**values, **{table.span: table.named_as(views[table.name]) for table in self.parsed.tables}}

    def _placed(
        self, error: LakeconfError, lake: Lake, changes: Mapping[Span, str], views: Iterable[str]
    ) -> LakeconfError:
        """Returns the error with the place in the SQL at which DuckDB finds it."""
        if isinstance(error, UnsafeQueryError):
            return error
        position = _position_in_lake(lake, replaced(self.text, changes), views)
        return error if position is None else self._at(error, position, changes)

    def _at(self, error: LakeconfError, position: int, changes: Mapping[Span, str]) -> LakeconfError:
        """Returns an error of DuckDB with its place in the text, given the byte in the query that a run makes of it."""
        before = replaced(self.text, changes).encode()[:position].decode(errors="ignore")
        offset = original_offset(changes, len(before))
        if not 0 <= offset <= len(self.text):
            return error
        first, _, rest = error.message.partition("\n\nLINE ")[0].partition("\n")
        place = shown_place(self.path, *self._line_and_column(offset))
        return type(error)("\n".join(filter(None, (f"{place}: {first}", self._excerpt(offset), rest))), hint=error.hint)

    @property
    def _is_shown(self) -> bool:
        """True if the text may be shown."""
        return self.path is None or self.path.resolve().suffix.lower() == _ENDING

    def _refused(self, message: str, offset: int | None = None, *, hint: str | None) -> ModelSqlError:
        """The error for a string that is not a query of a model, with its place if it is known."""
        problem = Problem(Code.WRONG_VALUE.code, message, hint, file=self.path and self.path.absolute())
        if offset is not None:
            line, column = self._line_and_column(offset)
            problem = problem._replace(line=line, column=column, excerpt=self._excerpt(offset))
        return ModelSqlError(problem)

    def _line_and_column(self, offset: int) -> tuple[int, int]:
        start = self.text.rfind("\n", 0, offset) + 1
        return self.text.count("\n", 0, offset) + 1, offset - start + 1

    def _excerpt(self, offset: int) -> str | None:
        """Returns the line of an offset with a caret below it; None if the line may contain a secret."""
        line, column = self._line_and_column(offset)
        lines, masked = self.text.split("\n"), scrub(self.text, self.secrets).split("\n")
        if not self._is_shown or len(lines) != len(masked) or lines[line - 1] != masked[line - 1]:
            return None
        return drawn(line, lines[line - 1][: column - 1], lines[line - 1][column - 1 :])


@dataclass(frozen=True)
class SparkQuery:
    """A query in Spark's SQL, which Spark runs with the settings of the lake's session.

    Attributes:
        text: The query. It reads its inputs as temporary views; `:start` and `:end` are the time range.
        inputs: The names of the views, which are those of the inputs.
        path: The file that contains it.
        secrets: Values that errors never show.
    """

    text: str
    inputs: Sequence[str] = ()
    path: Path | None = None
    secrets: Sequence[Secret] = field(default=(), repr=False, compare=False, kw_only=True)

    def arguments(self) -> Sequence[str]:
        return self.inputs

    def code(self) -> str:
        return f"spark: {self.text.strip()}"

    def at(self, error: BaseException | None = None) -> str:  # noqa: ARG002 - as in other bodies
        return "" if self.path is None else f"{shown_place(self.path)}: "

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:
        engine = spark_operations(lake._session.engine, "a model in Spark's SQL")  # noqa: SLF001 - not for users
        # Spark has no type without a time zone for datetimes of Python.
        values = {
            name: f"TIMESTAMP_NTZ '{value}'" if isinstance(value, datetime) else f"DATE '{value}'"
            for name, value in bounds.items()
        }
        try:
            return engine.run_sql(self.text.rstrip().rstrip(";"), frames, values)
        except QueryError as error:
            raise QueryError(scrub(f"{self.at()}{error.message}", self.secrets), hint=error.hint) from None


# What computes the rows of a model.
Body: TypeAlias = Function | Query | SparkQuery


def _bound(name: str, bounds: Mapping[str, date | datetime]) -> str:
    if name not in bounds:
        existing = ", ".join(f"${bound}" for bound in bounds)
        hint = f"use one of: {existing}" if existing else 'set kind = "incremental", or remove it'
        raise PipelineError(f"the SQL contains an unknown placeholder ${name}", hint=hint)
    value = bounds[name]
    return f"CAST('{value}' AS {'TIMESTAMP' if isinstance(value, datetime) else 'DATE'})"
