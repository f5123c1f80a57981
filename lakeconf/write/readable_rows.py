"""The rows of a table that a merge or an update reads, with their ids."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from lakeconf.catalog.predicate.nodes import Predicate
from lakeconf.catalog.predicate.where import Where
from lakeconf.catalog.table import NO_ID, TableInfo, load_table
from lakeconf.commit.change import Target
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import Engine
from lakeconf.engines.positions import FILE_ID, FILE_ROW_NUMBER, PositionEngine
from lakeconf.engines.schema_check import RESERVED
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.write import writes
from lakeconf.write.staged_rows import check_row_ids


def rows_to_change(
    engine: Engine, transaction: Transaction, target: Target, read: TableInfo, where: Where | Predicate | None
) -> nw.LazyFrame[Any]:
    """The table's rows at the read snapshot, with their ids as `ROW_ID`, and `places`.

    Args:
        engine: The engine that reads them.
        transaction: The transaction.
        target: The table, as it will be after the transaction.
        read: The table at the read snapshot; see `readable`.
        where: A condition for the rows; None for all.
    """
    names = {column.name for column in read.columns}
    rows = engine.scan_rows(writes.quoted_name(target.info), transaction.snapshot_id, where)
    new = [column.name for column in target.info.columns if column.name not in names]
    return rows.with_columns(nw.lit(None).alias(column) for column in new) if new else rows


def places(engine: Engine) -> list[str]:
    """The columns with the positions of rows that the frames of an engine have."""
    return [FILE_ID, FILE_ROW_NUMBER] if isinstance(engine, PositionEngine) else []


def readable(transaction: Transaction, target: Target) -> TableInfo:
    """The table at the read snapshot; refuses one whose rows a merge or a computed update cannot read or identify.

    Args:
        transaction: The transaction.
        target: The table, as it will be after the transaction.

    Raises:
        LakeconfError: The transaction has created the table, or renamed or dropped its columns.
        UnsupportedError: A column has a name that hides row ids, or the transaction has written to the table.
    """
    info = target.info
    _check_names(info)
    if info.table_id != NO_ID and writes.has_rows(transaction, info):
        raise UnsupportedError(
            f"the transaction already contains a write to {info.full_name}, and this write reads the table before it",
            hint="commit the transaction first, or write to the table only once in it",
        )
    if info.table_id == NO_ID:
        raise LakeconfError(
            f"{info.full_name} is created in this transaction, so it has no rows to compare with",
            hint="append to it",
        )
    check_row_ids(info)
    read = load_table(transaction.session.reader, writes.quoted_name(info), transaction.snapshot_id)
    if not {column.name for column in read.columns} <= {column.name for column in info.columns}:
        raise LakeconfError(
            f"columns of {info.full_name} were renamed or dropped in this transaction", hint="commit it first"
        )
    return read


def _check_names(info: TableInfo) -> None:
    """Refuses columns that narwhals cannot name in an expression, or that collide with lakeconf's own columns."""
    for column in info.columns:
        reserved = column.name.lower().startswith(RESERVED)
        if reserved or any(character in column.name for character in '."`'):
            raise UnsupportedError(
                f"a merge or a computed update cannot use the column name {column.name!r} of {info.full_name}",
                hint="rename the column: table.evolve(rename={…: …}); append, overwrite, delete and update with "
                "constants work without renaming",
            )
