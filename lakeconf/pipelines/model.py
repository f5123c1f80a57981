"""Models: each computes the rows of one table from its inputs."""

from __future__ import annotations

import inspect
import traceback
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from pathlib import Path
from typing import Any, Protocol

import narwhals as nw
import sqlglot
from sqlglot import exp

from lakeconf.commit.audits import Check, is_query
from lakeconf.errors import PipelineError, SchemaError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.definition_hash import codes_on_disk, digest, file_digest, function_code, sql_code
from lakeconf.pipelines.kinds import Append, Kind, Merge, Seed

# Arguments of a model that are not inputs, and placeholders of the same names in SQL.
BOUNDS = ("start", "end")


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


_PLACE = (("line", "line"), ("column", "col"))


@dataclass(frozen=True)
class Function:
    """A function that takes lazy narwhals frames and returns one."""

    function: Callable[..., Any]

    def arguments(self) -> Sequence[str]:
        return [name for name in inspect.signature(self.function).parameters if name not in BOUNDS]

    def code(self) -> str:
        return function_code(self.function)

    def code_now(self) -> str | None:
        found = codes_on_disk(Path(inspect.getfile(self.function)), self.function.__name__)
        # A file may contain several functions with this name, nested in others.
        own = self.code()
        return own if own in found else next(iter(found), None)

    def place(self, error: BaseException | None = None) -> str | None:
        file, line = inspect.getfile(self.function), self.function.__code__.co_firstlineno
        for frame in traceback.extract_tb(None if error is None else error.__traceback__):
            line = frame.lineno or line if frame.filename == file else line
        return f"{_relative(Path(file))}:{line}"

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
    """A query in DuckDB's SQL dialect; Spark runs a translation.

    Attributes:
        text: The query; `$start` and `$end` are the time range.
        path: The file that contains it.
    """

    text: str
    path: Path | None = None

    def arguments(self) -> Sequence[str]:
        return list(dict.fromkeys(_name(table) for table in _tables(self.parsed())))

    def code(self) -> str:
        return sql_code(self.text)

    def code_now(self) -> str | None:
        return self.code() if self.path is None else sql_code(self.path.read_text())

    def place(self, error: BaseException | None = None) -> str | None:  # noqa: ARG002 - the protocol
        return None if self.path is None else _relative(self.path)

    def parsed(self) -> exp.Query:
        """Parses the query with sqlglot.

        Raises:
            PipelineError: The text is not a single query in DuckDB's dialect.
        """
        where = f" in {self.path}" if self.path else ""
        try:
            (found,) = sqlglot.parse(self.text, dialect="duckdb")
        except (sqlglot.errors.SqlglotError, ValueError) as error:
            # sqlglot's message quotes the file, which may be any file: report only line and column.
            places = getattr(error, "errors", None) or [{}]
            place = "".join(f", {name} {places[0][key]}" for name, key in _PLACE if places[0].get(key) is not None)
            reason = "it cannot be parsed" if isinstance(error, sqlglot.errors.SqlglotError) else "there are several"
            raise PipelineError(f"the SQL{where} is not a single DuckDB query: {reason}{place}") from None
        if not isinstance(found, exp.Query):
            raise PipelineError(f"the SQL{where} is not a query", hint="write SELECT … FROM …")
        return found

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:
        parsed = self.parsed()
        views = {f"lakeconf_input_{uuid.uuid4().hex}": name for name in frames}
        names = {name: view for view, name in views.items()}
        for table in list(_tables(parsed)):
            alias = table.alias or table.name
            table.replace(exp.to_table(names[_name(table)]).as_(alias, quoted=True, table=True))
        for placeholder in list(parsed.find_all(exp.Parameter, exp.Placeholder)):
            placeholder.replace(_bound(placeholder, bounds))
        sql = parsed.sql(dialect="duckdb")
        if not is_query(sql):
            raise PipelineError("the SQL is not a single DuckDB query", hint="write SELECT … FROM …")
        return lake.query(sql, {view: frames[name] for view, name in views.items()})


@dataclass(frozen=True)
class Model:
    """Computes the rows of a table.

    Attributes:
        table: The table, as `schema.table`.
        kind: How a run changes the table.
        body: Computes the rows; None for a seed, and for files that are loaded unchanged.
        inputs: Tables by argument of the body: `schema.table`, or `store.schema.table` for another store. Arguments
            that are not listed are matched by name with the tables of the pipeline's models.
        partitioned_by: As for `Lake.create_table`.
        renamed: Renamed columns, which keep their values: map of old to new names, as for `Table.evolve`.
        dropped: Columns that the model no longer has and that a run may drop from the table.
        audits: Queries or functions that find violations in the new state, by name; see `Lake.audit`.
        comment: The comment of the table.
        folder: The base folder of relative paths.
    """

    table: str
    kind: Kind
    body: Body | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    audits: Mapping[str, Check] = field(default_factory=dict)
    comment: str | None = None
    folder: Path = field(default_factory=Path.cwd)

    @property
    def driving_input(self) -> str | None:
        """The argument for which the model receives only new rows or changes; None if it receives all rows.

        Raises:
            PipelineError: The kind names an unknown input, or names none although the model has several.
        """
        if isinstance(self.kind, Merge):
            chosen = self.kind.changes_of
        elif isinstance(self.kind, Append) and self.kind.files is None:
            chosen = self.kind.new_rows_of or self._only_argument()
        else:
            return None
        if chosen is not None and chosen not in self.arguments:
            raise PipelineError(f"the model {self.table} has no input {chosen!r}", hint=f"it has {self._inputs_text()}")
        return chosen

    @property
    def arguments(self) -> Sequence[str]:
        """The names of the inputs in the body."""
        if self.body is None:
            return ()
        found = self.body.arguments()
        return found[1:] if isinstance(self.kind, Append) and self.kind.files is not None else found

    def definition(self) -> str:
        """Returns the hash of the definition, without comments."""
        return self._digest("" if self.body is None else self.body.code())

    def definition_now(self) -> str:
        """Returns the hash of the definition on disk as it is now."""
        return self._digest("" if self.body is None else self.body.code_now() or "missing")

    def _digest(self, code: str) -> str:
        kind = self.kind.identity() + (file_digest(self.folder / self.kind.csv) if isinstance(self.kind, Seed) else "")
        checks = [sql_code(check) if isinstance(check, str) else function_code(check) for check in self.audits.values()]
        return digest(self.table, kind, code, repr(sorted(self.inputs.items())), *self.audits, *checks)

    def _only_argument(self) -> str:
        if len(self.arguments) == 1:
            return self.arguments[0]
        raise PipelineError(
            f"the model {self.table} appends, but does not name the input that provides new rows",
            hint=f"set Append(new_rows_of=…) to one of: {self._inputs_text()}; or set Append(files=…)",
        )

    def _inputs_text(self) -> str:
        return ", ".join(self.arguments) or "no inputs"


def model(
    table: str,
    kind: Kind,
    *,
    inputs: Mapping[str, str] | None = None,
    partitioned_by: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
    dropped: Sequence[str] = (),
    audits: Mapping[str, Check] | None = None,
) -> Callable[[Callable[..., Any]], Model]:
    """Declares a function as a model. The function takes lazy narwhals frames and returns one.

    The arguments of the function are its inputs. Each has the name of a table (`raw_events` means `raw.events`; so does
    `events` if no other model's table has that name), or is listed in `inputs`. An incremental model may also take
    `start` and `end`. The docstring becomes the comment of the table.

    Args:
        table: The table that it computes, as `schema.table`.
        kind: How a run changes the table.
        inputs: Tables by argument: `schema.table`, or `store.schema.table` for another store.
        partitioned_by: As for `Lake.create_table`.
        renamed: Renamed columns, which keep their values: map of old to new names, as for `Table.evolve`.
        dropped: Columns that the model no longer has and that a run may drop from the table.
        audits: Queries or functions that find violations in the new state, by name; see `Lake.audit`.

    Returns:
        A decorator.
    """

    def decorated(function: Callable[..., Any]) -> Model:
        return Model(
            table,
            kind,
            Function(function),
            inputs or {},
            partitioned_by,
            renamed or {},
            dropped,
            audits or {},
            inspect.getdoc(function),
            Path(inspect.getfile(function)).parent,
        )

    return decorated


def _relative(path: Path) -> str:
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)


def _tables(parsed: exp.Query) -> list[exp.Table]:
    local = {cte.alias for cte in parsed.find_all(exp.CTE)}
    return [table for table in parsed.find_all(exp.Table) if table.db or table.name not in local]


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts)


def _bound(placeholder: exp.Expression, bounds: Mapping[str, date | datetime]) -> exp.Expression:
    name = placeholder.name
    if name not in bounds:
        known = ", ".join(f"${one}" for one in bounds) or "none: the model is not incremental"
        raise PipelineError(f"the SQL contains an unknown placeholder ${name}", hint=f"valid placeholders: {known}")
    value = bounds[name]
    kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
    return exp.cast(exp.Literal.string(str(value)), kind)
