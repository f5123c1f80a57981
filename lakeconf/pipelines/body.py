"""Bodies of models: a function in Python or a query in SQL, which computes the rows of one table from its inputs."""

from __future__ import annotations

import inspect
import itertools
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from pathlib import Path
from typing import Any, Protocol

import narwhals as nw
import sqlglot
from sqlglot import TokenType, exp

from lakeconf.catalog import quiet_parser
from lakeconf.catalog.table_references import (
    Span,
    is_series,
    named_as,
    replaced,
    semicolons,
    span_of,
    table_references,
)
from lakeconf.commit.audits import is_query
from lakeconf.connection.error_places import place_of
from lakeconf.engines.base import spark_operations
from lakeconf.engines.schema_check import check_distinct
from lakeconf.errors import LakeconfError, PipelineError, QueryError, SchemaError, UnsafeQueryError
from lakeconf.lake.frame_names import unique_view
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.definition_hash import codes_on_disk, function_code, loaded_source, sql_code
from lakeconf.pipelines.places import shown_place
from lakeconf.pipelines.sql_errors import ModelSqlError, ModelText, function_problem, query_error, syntax_error
from lakeconf.pipelines.sql_place import error_offset, text_offset
from lakeconf.secret import Secret, scrub

# Arguments of a model that are not inputs, and placeholders of the same names in SQL.
BOUNDS = ("start", "end")
_CAST = re.compile(r"(try_)?cast\b|::", re.IGNORECASE)


class Body(Protocol):
    """Computes the rows of a model."""

    def arguments(self) -> Sequence[str]:
        """Returns the names of the inputs in the body."""
        ...

    def code(self) -> str:
        """Returns the code without comments."""
        ...

    def code_now(self) -> str | None:
        """Returns the code of the file as it is now, without comments; None if the file no longer contains it."""
        ...

    def place(self, error: BaseException | None = None) -> str | None:
        """Returns the file and line of the body, or of an error raised in it; None if it is not in a file."""
        ...

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:
        """Returns the rows as a lazy frame of the lake's engine.

        Args:
            lake: The lake.
            frames: The inputs, by argument name.
            bounds: `start` and `end` of the time range; empty without one.
        """
        ...


@dataclass(frozen=True)
class Function:
    """A function that takes lazy narwhals frames and returns one."""

    function: Callable[..., Any]
    _source: str | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_source", loaded_source(self.function))

    def arguments(self) -> Sequence[str]:
        return [name for name in inspect.signature(self.function).parameters if name not in BOUNDS]

    def code(self) -> str:
        return function_code(self.function, self._source)

    def code_now(self) -> str | None:
        found = codes_on_disk(Path(inspect.getfile(self.function)), self.function.__name__)
        # A file may contain several functions with this name, nested in others.
        own = self.code()
        return own if own in found else next(iter(found), None)

    def place(self, error: BaseException | None = None) -> str | None:
        file, line = inspect.getfile(self.function), self.function.__code__.co_firstlineno
        for frame in traceback.extract_tb(None if error is None else error.__traceback__):
            line = frame.lineno or line if frame.filename == file else line
        return f"{shown_place(Path(file))}:{line}"

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:  # noqa: ARG002 - the protocol
        wanted = inspect.signature(self.function).parameters
        made = self.function(**frames, **{name: value for name, value in bounds.items() if name in wanted})
        try:
            return nw.from_native(made)
        except TypeError as error:
            raise SchemaError(
                f"{self.function.__qualname__} returned a {type(made).__name__}", hint="return a narwhals frame"
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
        return list(dict.fromkeys(_name(table) for table in _inputs(self.parsed())))

    def code(self) -> str:
        return sql_code(self.text)

    def code_now(self) -> str | None:
        if self.path is None:
            return self.code()
        try:
            return sql_code(self.path.read_bytes().decode())
        except (OSError, UnicodeDecodeError, sqlglot.errors.SqlglotError):
            return None

    def place(self, error: BaseException | None = None) -> str | None:  # noqa: ARG002 - the protocol
        return None if self.path is None else shown_place(self.path)

    def parsed(self) -> exp.Query:
        """Parses the query with sqlglot.

        Raises:
            PipelineError: The text is not a single query in DuckDB's dialect.
        """
        source = self._source
        try:
            parsed = quiet_parser.parsed(self.text)
            # A comment behind the semicolon is a statement for sqlglot.
            (found,) = (one for one in parsed if not isinstance(one, exp.Semicolon))
        except sqlglot.errors.SqlglotError as error:
            # sqlglot's message quotes the file, which may be any file.
            raise syntax_error(source, error) from None
        except ValueError:
            raise ModelSqlError(source.problem("the SQL is not a single DuckDB query: there are several")) from None
        if not isinstance(found, exp.Query):
            raise ModelSqlError(source.problem("the SQL is not a query", hint="write SELECT … FROM …"))
        for table in _inputs(found):
            if not isinstance(table.this, exp.Identifier):
                raise ModelSqlError(function_problem(source, table.this))
        return found

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:
        parsed = self.parsed()
        views = {unique_view(): name for name in frames}
        names = {name: view for view, name in views.items()}
        changes = self._changes(parsed, names, bounds)
        sql = replaced(self.text, changes)
        if not is_query(sql):
            raise PipelineError("the SQL is not a single DuckDB query", hint="write SELECT … FROM …")
        inputs = {view: frames[name] for view, name in views.items()}
        try:
            found = lake.query(sql, inputs)
        except (QueryError, SchemaError) as error:
            raise self._placed(error, lake, changes, views) from error
        try:
            check_distinct(found.to_native().columns, "the result of the SQL")
        except SchemaError as error:
            raise ModelSqlError(self._source.problem(error.message, hint=error.hint)) from None
        return found

    def write_error(self, error: LakeconfError, bounds: Mapping[str, date | datetime]) -> LakeconfError:
        """Returns an error of a write of the rows, with its place if DuckDB names a cast of the query.

        Args:
            error: The error.
            bounds: As for `rows`.
        """
        position = place_of(error)
        if position is None:
            return error
        # Only the lengths of the names matter.
        changes = self._changes(self.parsed(), {name: unique_view() for name in self.arguments()}, bounds)
        sql = replaced(self.text, changes)
        offset = len(sql.encode()[:position].decode(errors="ignore"))
        if not _CAST.match(sql, offset):  # it is a cast of an input, such as a view
            return error
        return self._at(error, text_offset(self.text, changes, offset), {})

    def check(self, lake: Lake) -> None:
        """Checks that a lake can run the query as it is, such as for a view.

        Raises:
            QueryError: DuckDB rejects the query.
        """
        try:
            lake.sql(self.text)
        except QueryError as error:
            raise self._placed(error, lake, {}, {}) from error

    @property
    def _source(self) -> ModelText:
        return ModelText(self.text, self.path, self.secrets)

    def _changes(
        self, parsed: exp.Query, views: Mapping[str, str], bounds: Mapping[str, date | datetime]
    ) -> dict[Span, str]:
        """Returns what a run puts in place of parts of the text: views for tables, and values for placeholders.

        Raises:
            PipelineError: A placeholder is unknown.
        """
        values = {one.name: _bound(one.name, bounds) for one in parsed.find_all(exp.Parameter, exp.Placeholder)}
        tokens = sqlglot.tokenize(self.text, read="duckdb")
        changes = semicolons(tokens)
        for sign, name in itertools.pairwise(tokens):
            if sign.token_type == TokenType.PARAMETER and name.text in values:
                changes[sign.start, name.end + 1] = values[name.text].sql(dialect="duckdb")
        for table in _inputs(parsed):
            changes[span_of(table)] = named_as(views[_name(table)], table)
        return changes

    def _placed(
        self,
        error: LakeconfError,
        lake: Lake,
        changes: Mapping[Span, str],
        views: Mapping[str, str],
    ) -> LakeconfError:
        """Returns the error with the place in the SQL at which DuckDB finds it."""
        if isinstance(error, UnsafeQueryError):
            return error
        return self._at(error, error_offset(lake, self.text, changes, views), views)

    def _at(self, error: LakeconfError, offset: int | None, views: Mapping[str, str]) -> LakeconfError:
        return error if offset is None else query_error(self._source, error, offset, views)


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

    def code_now(self) -> str | None:
        if self.path is None:
            return self.code()
        try:
            return replace(self, text=self.path.read_bytes().decode()).code()
        except (OSError, UnicodeDecodeError):
            return None

    def place(self, error: BaseException | None = None) -> str | None:  # noqa: ARG002 - the protocol
        return None if self.path is None else shown_place(self.path)

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
            at = "" if self.path is None else f"{self.place()}: "
            raise QueryError(scrub(f"{at}{error.message}", self.secrets), hint=error.hint) from None


def _inputs(query: exp.Query) -> list[exp.Table]:
    return [table for table in table_references(query) if not is_series(table)]


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _bound(name: str, bounds: Mapping[str, date | datetime]) -> exp.Expression:
    if name not in bounds:
        known = ", ".join(f"${one}" for one in bounds)
        hint = f"use one of: {known}" if known else 'set kind = "incremental", or remove it'
        raise PipelineError(f"the SQL contains an unknown placeholder ${name}", hint=hint)
    value = bounds[name]
    kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
    return exp.cast(exp.Literal.string(str(value)), kind)
