"""Models, and the tests of their columns, which each run checks before it commits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from lakeconf.catalog.tables import split_name
from lakeconf.errors import PipelineError
from lakeconf.pipelines.models.body import Body, Function
from lakeconf.pipelines.models.definition_hash import digest, file_digest
from lakeconf.pipelines.models.kinds import Append, Kind, Merge, Seed, key
from lakeconf.sql import identifier, literal, qualified

Value = str | bool | int | float


@dataclass(frozen=True)
class ColumnTest:
    """A test; rows that violate it prevent the commit."""

    name: str  # the name that errors show
    query: Callable[[str], str]  # given the quoted name of the table, the SQL for the rows that violate it
    refers_to: str | None = None  # the other table that it reads, as `schema.table`; None if it reads none


def not_null(column: str) -> ColumnTest:
    """A column has no NULL."""
    return ColumnTest(f"not_null {column}", lambda table: f"FROM {table} WHERE {identifier(column)} IS NULL")


def unique(*columns: str) -> ColumnTest:
    """No two rows have the same values in the columns; rows with a NULL in one of them do not count.

    Raises:
        PipelineError: No column is given.
    """
    if not columns:
        raise PipelineError("the test unique names no column", hint='write unique("id")')
    names = ", ".join(map(identifier, columns))
    are_set = " AND ".join(f"{identifier(column)} IS NOT NULL" for column in columns)
    return ColumnTest(
        f"unique {', '.join(columns)}",
        lambda table: (
            f"SELECT {names}, count(*) AS lakeconf_rows FROM {table} "
            f"WHERE {are_set} GROUP BY {names} HAVING count(*) > 1"
        ),
    )


def accepted_values(column: str, values: Sequence[Value]) -> ColumnTest:
    """A column has only these values, or NULL.

    Raises:
        PipelineError: There are no values, or one is NULL.
    """
    if not values or any(value is None for value in values):
        raise PipelineError(
            f"the test accepted_values of {column!r} needs values other than NULL",
            hint="list values other than NULL, which is always accepted",
        )
    listed = ", ".join(map(literal, values))
    name = identifier(column)
    # NULL is neither in the list nor outside it.
    return ColumnTest(f"accepted_values {column}", lambda table: f"FROM {table} WHERE {name} NOT IN ({listed})")


def relationships(column: str, table: str, to: str) -> ColumnTest:
    """Every value of a column is in a column of another table of the same store; NULL is accepted.

    Args:
        column: The column of the model.
        table: The other table, as `schema.table`.
        to: Its column.

    Raises:
        TableNotFoundError: The name of the other table is invalid.
    """
    parts = split_name(table)
    other = qualified(*parts)
    own, there = identifier(column), f"lakeconf_other.{identifier(to)}"
    # Every column has its table: a column that only one of the tables has must not be taken from the other.
    return ColumnTest(
        f"relationships {column} → {table}.{to}",
        lambda source: (
            f"SELECT lakeconf_own.{own} FROM {source} AS lakeconf_own WHERE lakeconf_own.{own} IS NOT NULL "
            f"AND NOT EXISTS (SELECT 1 FROM {other} AS lakeconf_other WHERE {there} = lakeconf_own.{own})"
        ),
        ".".join(parts),
    )


_COLUMNS = {"type": ["string", "array"], "items": {"type": "string"}, "minItems": 1}
Columns = Annotated[str | Annotated[list[str], Field(min_length=1)], WithJsonSchema(_COLUMNS)]


class DeclaredTests(BaseModel):
    """The table `tests` of a model in the configuration."""

    model_config = ConfigDict(extra="forbid")

    not_null: Annotated[list[str], key("Columns without NULL.", ["id"])] = Field(default_factory=list)
    unique: Annotated[
        list[Columns],
        key("Columns, or lists of columns, whose values occur once; NULL may repeat.", ["id", ["day", "shop"]]),
    ] = Field(default_factory=list)
    accepted_values: Annotated[
        dict[str, Annotated[list[Value], Field(min_length=1)]],
        key("The only values of a column, apart from NULL.", {"kind": ["view", "sale"]}),
    ] = Field(default_factory=dict)
    relationships: Annotated[
        dict[str, Annotated[str, Field(pattern=r"^[^.]+\.[^.]+\.[^.]+$")]],
        key("The column of another table that has every value of a column.", {"shop": "raw.shops.id"}),
    ] = Field(default_factory=dict)

    def tests(self) -> list[ColumnTest]:
        """The declared tests."""
        tests = [*map(not_null, self.not_null)]
        tests += [
            unique(*([key_columns] if isinstance(key_columns, str) else key_columns)) for key_columns in self.unique
        ]
        tests += [accepted_values(column, values) for column, values in self.accepted_values.items()]
        for column, target in self.relationships.items():
            table, _, to = target.rpartition(".")
            tests.append(relationships(column, table, to))
        return tests


@dataclass(frozen=True)
class Model:
    """Computes the rows of a table.

    Attributes:
        table: The table, as `schema.table`.
        kind: How a run changes the table.
        body: Computes the rows; None for a seed, and for files that are loaded unchanged.
        inputs: Tables by argument of the body, as `schema.table`. Arguments that are not listed are matched by name
            with the tables of the pipeline's models.
        partitioned_by: As for `Lake.create_table`.
        renamed: Renamed columns, which keep their values: map of old to new names, as for `Table.evolve`.
        dropped: Columns that the model no longer has and that a run may drop from the table.
        audits: Queries that find violations in the new state, by name; see `Lake.audit`.
        comment: The comment of the table.
        folder: The base folder of relative paths.
        tests: Tests of columns, such as `not_null("id")`, that each run checks like audits.
        tags: Names by which commands select the model: `tag:nightly`.
        declared_at: Returns the place of one of its keys in the configuration; None for a model in Python.
    """

    table: str
    kind: Kind
    body: Body | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    partitioned_by: Sequence[str] = ()
    renamed: Mapping[str, str] = field(default_factory=dict)
    dropped: Sequence[str] = ()
    audits: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    folder: Path = field(default_factory=Path.cwd)
    tests: Sequence[ColumnTest] = ()
    tags: Sequence[str] = ()
    declared_at: Callable[[str], str] | None = field(default=None, repr=False, compare=False)

    @property
    def driving_input(self) -> str | None:
        """The argument for which the model receives only new rows or changes; None if it receives all rows.

        Raises:
            PipelineError: The kind names an unknown input, or names none although the model has several.
        """
        if isinstance(self.kind, Merge):
            chosen = self.kind.changes_of
        elif isinstance(self.kind, Append) and self.kind.files is None:
            chosen = self.kind.new_rows_of or (self.arguments[0] if len(self.arguments) == 1 else "")
        else:
            return None
        if chosen == "":
            raise PipelineError(
                f"the model {self.table} appends, but does not name the input that provides new rows",
                hint=f"set Append(new_rows_of=…) to one of: {', '.join(self.arguments) or 'no inputs'}; "
                "or set Append(files=…)",
            )
        if chosen is not None and chosen not in self.arguments:
            named = f"name one of its inputs: {', '.join(self.arguments)}"
            hint = named if self.arguments else "omit it: there are no inputs"
            raise PipelineError(f"the model {self.table} has no input {chosen!r}", hint=hint)
        return chosen

    @property
    def arguments(self) -> Sequence[str]:
        """The names of the inputs in the body."""
        if self.body is None:
            return ()
        names = self.body.arguments()
        return names[1:] if isinstance(self.kind, Append) and self.kind.files is not None else names

    @property
    def checks(self) -> Sequence[tuple[str, str]]:
        """The audits and the tests, by the names that errors show."""
        return [*self.audits.items(), *self.test_queries]

    @property
    def test_queries(self) -> Sequence[tuple[str, str]]:
        """The queries of the tests, by the names that errors show."""
        quoted = qualified(*self.table.split("."))
        return [(test.name, test.query(quoted)) for test in self.tests]

    def at(self, key: str) -> str:
        """Returns the start of a message about a key: its place in the configuration, or else that of the code."""
        if self.declared_at is not None:
            return f"{self.declared_at(key)}: "
        return self.place

    @property
    def place(self) -> str:
        """The start of a message about the code; empty if it has no place."""
        return "" if self.body is None else self.body.at()

    def definition(self) -> str:
        """Returns the hash of what decides about the rows: not of comments, audits and tests."""
        kind = self.kind.identity() + (file_digest(self.folder / self.kind.csv) if isinstance(self.kind, Seed) else "")
        return digest(
            self.table, kind, "" if self.body is None else self.body.code(), repr(sorted(self.inputs.items()))
        )


def model(
    table: str,
    kind: Kind,
    *,
    inputs: Mapping[str, str] | None = None,
    partitioned_by: Sequence[str] = (),
    renamed: Mapping[str, str] | None = None,
    dropped: Sequence[str] = (),
    audits: Mapping[str, str] | None = None,
    tests: Sequence[ColumnTest] = (),
    tags: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], Model]:
    """Declares a function as a model. The function takes lazy narwhals frames and returns one.

    The arguments of the function are its inputs. Each has the name of a table (`raw_events` means `raw.events`; so does
    `events` if no other model's table has that name), or is listed in `inputs`. An incremental model may also take
    `start` and `end`. The docstring becomes the comment of the table.

    Args:
        table: The table that it computes, as `schema.table`.
        kind: How a run changes the table.
        inputs: As for `Model`, like the other arguments.

    Returns:
        A decorator.
    """

    def decorated(function: Callable[..., Any]) -> Model:
        return Model(
            table, kind, Function(function), inputs or {}, partitioned_by, renamed or {}, dropped, audits or {},
            inspect.getdoc(function), Path(inspect.getfile(function)).parent, tests, tags,
        )  # fmt: skip

    return decorated
