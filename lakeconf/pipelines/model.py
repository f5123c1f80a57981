"""A model: what makes the rows of one table, from which inputs."""

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

# Arguments of a model that are no inputs, and the placeholders of the same names in SQL.
BOUNDS = ("start", "end")


class Body(Protocol):
    """What computes the rows of a model."""

    def arguments(self) -> Sequence[str]:
        """What the inputs are called in it."""
        ...

    def code(self) -> str:
        """What it says, without comments."""
        ...

    def code_now(self) -> str | None:
        """The same as it stands on the disk by now."""
        ...

    def place(self, error: BaseException | None = None) -> str | None:
        """The file and the line where it stands, or where an error was raised in it; None where it is in no file."""
        ...

    def rows(self, lake: Lake, frames: Mapping[str, Any], bounds: Mapping[str, date | datetime]) -> Any:
        """The rows, as a lazy frame of the lake's engine.

        Args:
            lake: The lake.
            frames: The inputs, by what they are called.
            bounds: When the time range starts and ends; empty where there is none.
        """
        ...


_PLACE = (("line", "line"), ("column", "col"))


@dataclass(frozen=True)
class Function:
    """A function from lazy frames of narwhals to one."""

    function: Callable[..., Any]

    def arguments(self) -> Sequence[str]:
        return [name for name in inspect.signature(self.function).parameters if name not in BOUNDS]

    def code(self) -> str:
        return function_code(self.function)

    def code_now(self) -> str | None:
        found = codes_on_disk(Path(inspect.getfile(self.function)), self.function.__name__)
        # A file may have several of one name, in other functions.
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
                f"{self.function.__qualname__} gave a {type(made).__name__}", hint="return a frame of narwhals"
            ) from error


@dataclass(frozen=True)
class Query:
    """A query in DuckDB's SQL; Spark is given its translation.

    Attributes:
        text: The query; `$start` and `$end` are the time range.
        path: The file that it comes from.
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
        """The query as sqlglot reads it.

        Raises:
            PipelineError: It is not one query of DuckDB's SQL.
        """
        where = f" in {self.path}" if self.path else ""
        try:
            (found,) = sqlglot.parse(self.text, dialect="duckdb")
        except (sqlglot.errors.SqlglotError, ValueError) as error:
            # The message of sqlglot quotes the file, which may be any: its line and column must do.
            places = getattr(error, "errors", None) or [{}]
            place = "".join(f", {name} {places[0][key]}" for name, key in _PLACE if places[0].get(key) is not None)
            reason = "it cannot be parsed" if isinstance(error, sqlglot.errors.SqlglotError) else "there are several"
            raise PipelineError(f"the SQL{where} is not one query of DuckDB's: {reason}{place}") from None
        if not isinstance(found, exp.Query):
            raise PipelineError(f"the SQL{where} is no query", hint="write SELECT … FROM …")
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
            raise PipelineError("the SQL is not one query for DuckDB", hint="write SELECT … FROM …")
        return lake.query(sql, {view: frames[name] for view, name in views.items()})


@dataclass(frozen=True)
class Model:
    """What makes the rows of a table.

    Attributes:
        table: The table, as `schema.table`.
        kind: What a run does to it.
        body: What computes its rows; None for a seed, and for files that are taken as they are.
        inputs: Tables by what they are called in the body: `schema.table`, or `store.schema.table` of another store.
            The ones left out are found by their names among the pipeline's models.
        partitioned_by: As for `Lake.create_table`.
        renamed: Columns that keep their rows under a new name: new names by old ones, as for `Table.evolve`.
        dropped: Columns that the model no longer has and that a run may drop from the table.
        audits: What breaks a condition that must hold on the new state, by the condition's name; see `Lake.audit`.
        comment: What the table is.
        folder: Where relative paths of files start.
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
        """The argument whose new rows or changes alone the model is given; None where there is none.

        Raises:
            PipelineError: It has several inputs, and says of none that it is the one.
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
        """What the inputs are called in the body."""
        if self.body is None:
            return ()
        found = self.body.arguments()
        return found[1:] if isinstance(self.kind, Append) and self.kind.files is not None else found

    def definition(self) -> str:
        """The hash of the definition: what makes the rows. Comments are no part of it."""
        return self._digest("" if self.body is None else self.body.code())

    def definition_now(self) -> str:
        """The same of what stands on the disk by now."""
        return self._digest("" if self.body is None else self.body.code_now() or "gone")

    def _digest(self, code: str) -> str:
        kind = self.kind.identity() + (file_digest(self.folder / self.kind.csv) if isinstance(self.kind, Seed) else "")
        checks = [sql_code(check) if isinstance(check, str) else function_code(check) for check in self.audits.values()]
        return digest(self.table, kind, code, repr(sorted(self.inputs.items())), *self.audits, *checks)

    def _only_argument(self) -> str:
        if len(self.arguments) == 1:
            return self.arguments[0]
        raise PipelineError(
            f"the model {self.table} appends, and does not say the new rows of which input",
            hint=f"Append(new_rows_of=…): {self._inputs_text()}; or Append(files=…)",
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
    """Makes a model of a function from lazy frames of narwhals to one; its docstring is the table's comment.

    Its arguments are its inputs: each is called like a table (`raw_events` is `raw.events`, `events` too where no other
    model's table ends so), or is in `inputs`. An incremental model may take `start` and `end` as well.

    Args:
        table: The table that it makes, as `schema.table`.
        kind: What a run does to the table.
        inputs: Tables by argument: `schema.table`, or `store.schema.table` of another store.
        partitioned_by: As for `Lake.create_table`.
        renamed: Columns that keep their rows under a new name: new names by old ones, as for `Table.evolve`.
        dropped: Columns that the model no longer has and that a run may drop from the table.
        audits: What breaks a condition that must hold on the new state, by the condition's name; see `Lake.audit`.

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
        raise PipelineError(f"the SQL has a placeholder ${name}", hint=f"there are {known}")
    value = bounds[name]
    kind = "TIMESTAMP" if isinstance(value, datetime) else "DATE"
    return exp.cast(exp.Literal.string(str(value)), kind)
