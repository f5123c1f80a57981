"""What a transaction has done to the columns of a table, for the writes that follow in it.

Until the commit, reads see the table without these changes, and DuckLake does not support every change after another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakeconf.catalog.tables import Column
from lakeconf.errors import SchemaError
from lakeconf.sql import folded

# The parts of a name, such as `device.os`.
Path = Sequence[str]


@dataclass(frozen=True)
class ChangedColumns:
    """Changes of columns and nested fields, in this order."""

    dropped: Sequence[Path] = ()
    renamed: Sequence[tuple[Path, str]] = ()  # each with its new last name
    promoted: Sequence[Path] = ()
    added: Sequence[Path] = ()
    nested: frozenset[str] = frozenset()  # the added columns that have fields or elements, in lower case
    defaults: Mapping[str, str] = field(default_factory=dict)  # SQL values of added columns, by name


@dataclass(frozen=True)
class EvolvedColumns:
    """The columns that a transaction has changed. Names of columns are in lower case."""

    nested: frozenset[str] = frozenset()  # the added columns that have fields or elements
    # The SQL values that added columns have in all rows; columns without one are NULL.
    defaults: Mapping[str, str] = field(default_factory=dict)
    # The columns with a default for rows that are older than them; None before a change. Those of fields are not lost.
    defaulted: frozenset[str] | None = None
    promoted: frozenset[str] = frozenset()  # those of them that it has promoted
    # True if rows cannot be read with the columns as they will be: a name may belong to another column.
    is_reshaped: bool = False

    def check(self, changes: ChangedColumns) -> None:
        """Rejects a change of a column after its promotion: DuckLake would forget its default for older rows."""
        for path in (*(path for path, _ in changes.renamed), *changes.promoted):
            if folded(path[0]) in self.promoted:
                raise SchemaError(
                    f"the transaction has promoted {path[0]!r}: after another change of the column, DuckLake would "
                    "forget its default, and older rows would have NULL",
                    hint="change it in another transaction, or promote it once to the widest type",
                )

    def check_read(self, table: str, names: Iterable[str]) -> None:
        """Rejects a statement that reads a column after its promotion: DuckLake finds NULL in place of its default."""
        for name in names:
            if folded(name) in self.promoted:
                raise SchemaError(
                    f"the transaction has promoted {name!r} of {table}: until its commit, DuckLake reads NULL in place "
                    "of the default of the column in older rows, so a statement could store it",
                    hint="commit the promotion first",
                )

    def after(self, changes: ChangedColumns, columns: Sequence[Column]) -> EvolvedColumns:
        """The columns after further changes of the columns of a table."""
        moved = [*changes.dropped, *(path for path, _ in changes.renamed)]
        below = any(len(path) > 1 and folded(path[0]) not in self.nested for path in changes.added)
        gone = {folded(path[0]) for path in moved if len(path) == 1}
        kept = {name: value for name, value in self.defaults.items() if name not in gone}
        added = {folded(name): value for name, value in changes.defaults.items()}
        defaulted = self._defaulted(changes, columns) | added.keys()
        return EvolvedColumns(
            self.nested | changes.nested,
            kept | added,
            defaulted,
            (self.promoted | {folded(path[0]) for path in changes.promoted}) & defaulted,
            self.is_reshaped or bool(moved) or below,
        )

    def _defaulted(self, changes: ChangedColumns, columns: Sequence[Column]) -> frozenset[str]:
        names = self.defaulted
        if names is None:
            names = frozenset(folded(column.name) for column in columns if column.initial_default is not None)
        names -= {folded(path[0]) for path in changes.dropped if len(path) == 1}
        for path, new in changes.renamed:
            if len(path) == 1 and folded(path[0]) in names:
                names = names - {folded(path[0])} | {folded(new)}
        return names
