"""Creates or evolves the table of a model and writes its rows, in an open transaction."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import narwhals as nw

from lakeconf.errors import SchemaError
from lakeconf.lake.lake import Lake
from lakeconf.pipelines.columns import apply, check_dropped, column_changes, drop_hint
from lakeconf.pipelines.intervals import Batch
from lakeconf.pipelines.kinds import Append, Incremental, Merge
from lakeconf.pipelines.model import Model
from lakeconf.pipelines.plan import Step
from lakeconf.sql import folded, identifier, literal
from lakeconf.write.merge import Delete, Update


def write(
    transaction: Lake, step: Step, frame: nw.LazyFrame[Any], batch: Batch | None, *, allow_drop_columns: bool = False
) -> None:
    """Writes rows according to the model's kind.

    Args:
        transaction: The lake of the open transaction.
        step: The planned run of the model.
        frame: The rows.
        batch: The time range of the rows, for an incremental model.
        allow_drop_columns: True to drop columns of the table that the rows no longer have.

    Raises:
        SchemaError: The rows do not fit the table.
        DataLossError: A column would be dropped without consent.
    """
    model, kind = step.model, step.model.kind
    rows, deleted = split_deleted(kind, frame) if isinstance(kind, Merge) else (frame, None)
    _prepare(transaction, model, rows, allow_drop_columns=allow_drop_columns)
    table = transaction.table(model.table)
    if isinstance(kind, Incremental) and batch is not None:
        table.overwrite(rows, _range(transaction, model, kind, batch), evolve=True)
    elif isinstance(kind, Append) and not step.rebuild:
        table.append(rows, evolve=True)
    elif isinstance(kind, Merge) and not step.rebuild:
        table.merge(rows, kind.on, matched=Update() if kind.update else None, evolve=True)
        if deleted is not None:
            table.merge(deleted, kind.on, matched=Delete(), not_matched=None)
    else:
        table.overwrite(rows, evolve=True)


def split_deleted(kind: Merge, frame: nw.LazyFrame[Any]) -> tuple[nw.LazyFrame[Any], nw.LazyFrame[Any] | None]:
    """Splits a merge's rows into the rows to write and the keys to delete; None if the kind deletes no keys."""
    if kind.deleted is None:
        return frame, None
    keys = [kind.on] if isinstance(kind.on, str) else list(kind.on)
    deleted = nw.col(kind.deleted)
    # NOT NULL is NULL, and a filter leaves it out: only true deletes a key.
    kept = frame.filter(~deleted | deleted.is_null())
    return kept.drop(kind.deleted), frame.filter(deleted).select(*keys)


def _prepare(transaction: Lake, model: Model, rows: nw.LazyFrame[Any], *, allow_drop_columns: bool) -> None:
    """Creates the table, or renames and drops its columns to match the rows."""
    if model.table not in transaction.tables():
        transaction.create_table(model.table, rows, partitioned_by=model.partitioned_by, comment=model.comment)
        return
    table = transaction.table(model.table)
    changes = column_changes(model, table.schema, transaction.columns_of(rows))
    if not allow_drop_columns:
        check_dropped(model.table, changes.dropped, model.dropped, drop_hint(changes.dropped))
    apply(table, changes)


def _range(transaction: Lake, model: Model, kind: Incremental, batch: Batch) -> str:
    """Returns the SQL condition for the time range of a batch."""
    column, types = kind.time_column, transaction.table(model.table).schema
    found = {folded(name): text for name, text in types.items()}.get(folded(column))
    if found is None:
        raise SchemaError(
            f"the time column {column!r} of the model {model.table} is not in the table",
            hint=f"use one of its columns: {', '.join(types)}",
        )
    if found not in ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE"):
        raise SchemaError(
            f"the time column {column!r} of the model {model.table} has type {found}", hint="use DATE or TIMESTAMP"
        )
    name = identifier(column)
    return f"{name} >= {_moment(batch.start, found)} AND {name} < {_moment(batch.end, found)}"


def _moment(value: datetime, kind: str) -> str:
    if kind == "DATE":
        return f"DATE {literal(value.date().isoformat())}"
    if kind == "TIMESTAMP":
        return f"TIMESTAMP {literal(value.isoformat(' '))}"
    return f"TIMESTAMPTZ {literal(value.isoformat(' ') + '+00:00')}"
