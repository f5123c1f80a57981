"""Changes the columns of a table to match the rows of a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeconf.errors import DataLossError, PipelineError
from lakeconf.lake.table import Table
from lakeconf.pipelines.model import Model
from lakeconf.sql import folded, identifier
from lakeconf.write.evolution import evolution_for


@dataclass(frozen=True)
class ColumnChanges:
    """Changes to the columns of an existing table.

    Attributes:
        added: New columns and their DuckDB types.
        renamed: Map of old to new names, as for `Table.evolve`.
        retyped: The old and the new type by the column's name.
        dropped: Columns that the rows no longer have.
    """

    added: Mapping[str, str] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    dropped: Sequence[str] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.renamed or self.retyped or self.dropped)

    def __str__(self) -> str:
        parts = [f"adds {name} {kind}" for name, kind in self.added.items()]
        parts += [f"renames {old} to {new}" for old, new in self.renamed.items()]
        parts += [f"changes {name} from {old} to {new}" for name, (old, new) in self.retyped.items()]
        return ", ".join([*parts, *(f"drops {name}" for name in self.dropped)])


def column_changes(model: Model, existing: Mapping[str, str], wanted: Mapping[str, str]) -> ColumnChanges:
    """Compares the columns of a model's table with those of its rows, ignoring case.

    Args:
        model: The model; `renamed` lists its renamed columns.
        existing: The columns of the table and their DuckDB types.
        wanted: The columns of the rows and their DuckDB types.

    Raises:
        PipelineError: `renamed` contradicts the rows.
    """
    _check_renamed(model, wanted)
    known, new = {folded(name): name for name in existing}, {folded(name) for name in wanted}
    renamed = {
        known[folded(old)]: name
        for old, name in model.renamed.items()
        if folded(old) in known and folded(name) not in known
    }
    kept = {renamed.get(name, name): kind for name, kind in existing.items()}
    evolution = evolution_for(wanted, kept)
    types = {folded(name): kind for name, kind in wanted.items()}
    added = {name: kind for name, kind in wanted.items() if folded(name) not in {folded(one) for one in kept}}
    retyped = {
        name: (kind, types[folded(name)]) for name, kind in kept.items() if identifier(name) in evolution.promote
    }
    dropped = [name for name in existing if name not in renamed and folded(name) not in new]
    return ColumnChanges(added, renamed, retyped, dropped)


def apply(table: Table, changes: ColumnChanges) -> None:
    """Renames and drops columns of a table; the write of the rows then adds and widens columns.

    Args:
        table: The table, in an open transaction.
        changes: The result of `column_changes`.
    """
    rename = {identifier(old): new for old, new in changes.renamed.items()}
    if changes.dropped:
        # DuckLake cannot drop a table's last column: add new columns first.
        table.evolve(rename=rename, add={identifier(name): kind for name, kind in changes.added.items()})
        table.evolve(drop=[identifier(name) for name in changes.dropped])
    elif rename:
        table.evolve(rename=rename)


def check_dropped(table: str, dropped: Sequence[str], allowed: Sequence[str], hint: str) -> None:
    """Checks that only allowed columns are dropped.

    Args:
        table: The table.
        dropped: The columns to drop.
        allowed: The columns that may be dropped, in any case.
        hint: How to allow more.

    Raises:
        DataLossError: A column may not be dropped.
    """
    known = {folded(name) for name in allowed}
    refused = [name for name in dropped if folded(name) not in known]
    if refused:
        plural = "s" if len(refused) > 1 else ""
        raise DataLossError(f"this would drop the column{plural} {', '.join(refused)} of {table}", hint=hint)


def drop_hint(dropped: Sequence[str]) -> str:
    """Returns a hint on how to allow a model or a run to drop columns."""
    listed = ", ".join(f'"{name}"' for name in dropped)
    return (
        f"write dropped = [{listed}] in the model, or run with --allow-drop-columns (allow_drop_columns=True); "
        "for a renamed column, use `renamed`"
    )


def _check_renamed(model: Model, wanted: Mapping[str, str]) -> None:
    names = {folded(name) for name in wanted}
    for old, new in model.renamed.items():
        if folded(new) not in names:
            raise PipelineError(
                f"`renamed` of the model {model.table} renames {old!r} to {new!r}, but the model has no column {new!r}",
                hint=f'write the old name first: renamed = {{old = "new"}}; the columns are {", ".join(wanted)}',
            )
        if folded(old) in names:
            raise PipelineError(
                f"`renamed` of the model {model.table} renames {old!r} to {new!r}, but the model still has {old!r}",
                hint=f"remove {old!r} from the model, or from `renamed`",
            )
