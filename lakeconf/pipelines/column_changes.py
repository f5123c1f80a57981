"""What happens to the columns of a model's table when its rows have other columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakeconf.catalog.column_types import NESTED_IDS, fields_of, parsed_type, type_of_parts
from lakeconf.engines.schema_check import fits
from lakeconf.errors import DataLossError, PipelineError
from lakeconf.lake.table import Table
from lakeconf.pipelines.file_rows import column_key
from lakeconf.pipelines.models.kinds import Append
from lakeconf.pipelines.models.model import Model
from lakeconf.sql import folded, identifier
from lakeconf.write.operations.evolve import evolution_for


@dataclass(frozen=True)
class ColumnChanges:
    """Changes to the columns of an existing table."""

    added: Mapping[str, str] = field(default_factory=dict)  # new columns and their DuckDB types
    renamed: Mapping[str, str] = field(default_factory=dict)  # map of old to new names, as for `Table.evolve`
    # The old and the new type by the column's name.
    retyped: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    dropped: Sequence[str] = ()  # columns that the rows no longer have
    replaced: Sequence[str] = ()  # those of `retyped` that are created again

    def __bool__(self) -> bool:
        return bool(self.added or self.renamed or self.retyped or self.dropped)

    def __str__(self) -> str:
        parts = [f"adds {name} {kind}" for name, kind in self.added.items()]
        parts += [f"renames {old} to {new}" for old, new in self.renamed.items()]
        parts += [f"changes {name} from {old} to {new}" for name, (old, new) in self.retyped.items()]
        return ", ".join([*parts, *(f"drops {name}" for name in self.dropped)])


def column_changes(
    model: Model, existing: Mapping[str, str], columns: Mapping[str, str], *, replaces: bool = False
) -> ColumnChanges:
    """Compares the columns of a model's table with those of its rows, ignoring case.

    If the rows replace all others, a column whose type cannot hold them is created again.
    """
    _check_renamed(model, columns)
    by_folded, new = {folded(name): name for name in existing}, {folded(name) for name in columns}
    renamed = {
        by_folded[folded(old)]: name
        for old, name in model.renamed.items()
        if folded(old) in by_folded and folded(name) not in by_folded
    }
    kept = {renamed.get(name, name): kind for name, kind in existing.items()}
    evolution = evolution_for(columns, kept)
    types = {folded(name): kind for name, kind in columns.items()}
    added = {
        name: kind
        for name, kind in columns.items()
        if folded(name) not in {folded(column_name) for column_name in kept}
    }
    retyped = {
        name: (kind, types[folded(name)]) for name, kind in kept.items() if identifier(name) in evolution.promote
    }
    dropped = [name for name in existing if name not in renamed and folded(name) not in new]
    replaced = [
        name
        for name, kind in kept.items()
        if replaces and folded(name) in types and name not in retyped
        if not fits(parsed_type(types[folded(name)]), parsed_type(kind))
        if not any(path.startswith(f"{identifier(name)}.") for path in evolution.add)
    ]
    retyped |= {name: (kept[name], types[folded(name)]) for name in replaced}
    return ColumnChanges(added, renamed, retyped, dropped, replaced)


def apply(table: Table, changes: ColumnChanges) -> None:
    """Renames and drops columns of a table; the write of the rows then adds and widens columns."""
    rename = {identifier(old): new for old, new in changes.renamed.items()}
    if rename:
        table.evolve(rename=rename)
    if changes.replaced:
        former = {name: f"lakeconf_former_{number}" for number, name in enumerate(changes.replaced)}
        table.evolve(
            rename={identifier(name): old for name, old in former.items()},
            add={identifier(name): changes.retyped[name][1] for name in changes.replaced},
        )
        table.evolve(drop=list(former.values()))
    if changes.dropped:
        # DuckLake cannot drop a table's last column: add new columns first.
        table.evolve(add={identifier(name): kind for name, kind in changes.added.items()})
        table.evolve(drop=[identifier(name) for name in changes.dropped])


def check_dropped(
    model: Model, existing: Mapping[str, str], columns: Mapping[str, str], dropped: Sequence[str]
) -> None:
    """Checks that the columns of the table, which have types, that the rows lack are those that the model drops."""
    allowed = {folded(name) for name in model.dropped}
    refused = [name for name in dropped if folded(name) not in allowed]
    if not refused:
        return
    listed = ", ".join(f'"{name}"' for name in dropped)
    if isinstance(model.kind, Append) and not model.kind.columns:
        by_name = {folded(name): kind for name, kind in columns.items()}
        types = {name: _together(kind, by_name.get(folded(name), kind)) for name, kind in existing.items()}
        types |= {name: kind for name, kind in columns.items() if folded(name) not in map(folded, existing)}
        declared = ", ".join(column_key(name, kind) for name, kind in types.items())
        hint = (
            f"declare the columns of the files, so that rows without a column have NULL: columns = {{ {declared} }}; "
            f"or, to delete the column and its values, write dropped = [{listed}] in the model"
        )
    else:
        hint = (
            f"write dropped = [{listed}] in the model, or run with --allow-drop-columns (allow_drop_columns=True); "
            "for a renamed column, use `renamed`"
        )
    plural = "s" if len(refused) > 1 else ""
    raise DataLossError(f"this would drop the column{plural} {', '.join(refused)} of {model.table}", hint=hint)


def _together(stored: str, read: str) -> str:
    """The type of a column that holds the values of a table and those of files, which may have more fields."""
    ours, theirs = parsed_type(stored), parsed_type(read)
    if ours.id != theirs.id or ours.id not in NESTED_IDS:
        return read if fits(ours, theirs) and not fits(theirs, ours) else stored
    fields = {folded(name): part for name, part in fields_of(theirs).items()}
    parts = {name: _together(str(part), str(fields.get(folded(name), part))) for name, part in fields_of(ours).items()}
    if ours.id == "struct":
        known = set(map(folded, parts))
        parts |= {name: str(part) for name, part in fields_of(theirs).items() if folded(name) not in known}
        return str(parsed_type(type_of_parts("struct", parts.items())))
    return type_of_parts(ours.id, parts.items())


def _check_renamed(model: Model, columns: Mapping[str, str]) -> None:
    names = {folded(name) for name in columns}
    for old, new in model.renamed.items():
        if folded(new) not in names:
            raise PipelineError(
                f"`renamed` of the model {model.table} renames {old!r} to {new!r}, but the model has no column {new!r}",
                hint=f'write the old name first: renamed = {{old = "new"}}; the columns are {", ".join(columns)}',
            )
        if folded(old) in names:
            raise PipelineError(
                f"`renamed` of the model {model.table} renames {old!r} to {new!r}, but the model still has {old!r}",
                hint=f"remove {old!r} from the model, or from `renamed`",
            )
