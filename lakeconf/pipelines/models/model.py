"""Models: tables that a pipeline computes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lakeconf.errors import PipelineError
from lakeconf.pipelines.models.body import Body, Function
from lakeconf.pipelines.models.column_tests import ColumnTest
from lakeconf.pipelines.models.definition_hash import digest, file_digest
from lakeconf.pipelines.models.kinds import Append, Kind, Merge, Seed
from lakeconf.sql import qualified


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
