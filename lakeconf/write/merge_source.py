"""The frame of a merge, and the engine that joins it with the table: DuckDB if little data can change, else Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb

from lakeconf.byte_size import byte_size
from lakeconf.catalog.predicate.nodes import Predicate
from lakeconf.catalog.scan import plan_scan
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.commit.change import Target
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import Engine, Staged, StagingRequest
from lakeconf.engines.schema_check import selected
from lakeconf.engines.small_merges import size_refusal, type_refusal
from lakeconf.logs import EventLogger
from lakeconf.sql import folded, literal
from lakeconf.write import writes
from lakeconf.write.key_bounds import key_bounds
from lakeconf.write.merge_clauses import Clauses
from lakeconf.write.plain_expressions import are_plain

_EXPRESSION = "a clause has an expression that DuckDB may compute differently"

_log = EventLogger("stage")


@dataclass(frozen=True)
class Source:
    """The rows of a merge's frame, and how to join them with the table.

    Attributes:
        rows: A frame of `engine` with the table's columns that the merge's frame has, in the table's types.
        engine: The engine that joins and stages the actions.
        where: A condition for the rows of the table that can match; None for all rows.
        decision: The engine and the reason for it; None if there is no choice.
    """

    rows: Any
    engine: Engine
    where: Predicate | None = None
    decision: str | None = None


@contextmanager
def merge_source(
    transaction: Transaction, target: Target, read: TableInfo, adopted: Any, given: Sequence[Column], clauses: Clauses
) -> Iterator[Source]:
    """Prepares the frame of a merge; on Spark, stages it first, so that it is computed once.

    Args:
        transaction: The transaction.
        target: The table.
        read: The table at the read snapshot.
        adopted: The frame, checked against the table.
        given: The table's columns that the frame has.
        clauses: The clauses of the merge.

    Returns:
        The source; its rows are valid until the end of the block.
    """
    engine = transaction.session.engine
    conformed = engine.conform(adopted, {column: target.types[column.name] for column in given})
    small = engine.for_small_merges()
    if small is None or isinstance(conformed, duckdb.DuckDBPyRelation):
        yield Source(conformed, small or engine)
        return
    types = {column.name: target.types[column.name] for column in given}
    staged = engine.stage_rows(conformed, StagingRequest(target.info, types, transaction.next_token()))
    try:
        size = _size(transaction, staged)
        where = None if clauses.not_matched_by_source else _bounds(transaction, read, staged, size, clauses)
        refusal, sizes = _refusal(transaction, target, size, where, clauses)
        chosen = engine if refusal else small
        decision = f"{chosen.name}: {refusal or sizes}"
        _log.info("merge into %s by %s", target.info.full_name, decision)
        yield Source(chosen.staged_rows(staged, list(types)), chosen, where, decision)
    finally:
        _release(engine, staged)


def _release(engine: Engine, staged: Staged) -> None:
    try:
        engine.release(staged)
    except Exception as error:  # noqa: BLE001 - a cleanup removes the files; the outcome of the merge does not change
        _log.warning("cannot remove the staged frame of a merge: %s", type(error).__name__)


def _bounds(transaction: Transaction, read: TableInfo, staged: Staged, size: int, clauses: Clauses) -> Predicate | None:
    """The condition for rows that can match, on the columns of the table at the read snapshot."""
    wanted = set(map(folded, clauses.on))
    keys = [key for key in read.columns if folded(key.name) in wanted]
    partitioned = {field.field_id for field in read.partition_fields}
    listed = [key for key in keys if key.field_id in partitioned and size_refusal(size, 0) is None]
    return key_bounds(transaction.session.writer, staged.files, keys, listed)


def _size(transaction: Transaction, staged: Staged) -> int:
    """The size of staged files in bytes."""
    listed = ", ".join(map(literal, staged.files))
    ((size,),) = transaction.session.writer.rows(f"SELECT sum(file_size_bytes) FROM parquet_file_metadata([{listed}])")
    return int(size)


def _refusal(
    transaction: Transaction, target: Target, size: int, where: Predicate | None, clauses: Clauses
) -> tuple[str | None, str]:
    """Why DuckDB must not compute a merge, or None; and the sizes that decided."""
    info = target.info
    refusal = type_refusal(info.columns, selected(info, clauses.on))
    if refusal is None and not are_plain(clauses, info.columns):
        refusal = _EXPRESSION
    if refusal is not None:
        return refusal, ""
    plan = plan_scan(transaction.session.reader, writes.quoted_name(info), transaction.snapshot_id, None, where)
    files = sum(file.file_size_bytes for file in plan.files)
    sizes = f"the frame has {byte_size(size)}; files that can match: {len(plan.files)}, {byte_size(files)}"
    return size_refusal(size, files), sizes
