"""Deletes by condition on Spark: whole files by statistics, rows by their positions, which executors find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.predicate.nodes import Predicate
from lakeconf.catalog.pruning.coverage import Coverage
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import NO_ID
from lakeconf.commit.change import Change, Target
from lakeconf.commit.dropped_files import plan_delete
from lakeconf.commit.position_delete import ROWS_PER_STATEMENT, PositionDelete, is_exact
from lakeconf.commit.session import Session
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import SparkOperations, Staged, StagingRequest
from lakeconf.engines.positions import FILENAME, POSITION_TYPES
from lakeconf.errors import (
    CatalogError,
    LakeconfError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.logs import EventLogger
from lakeconf.sql import folded
from lakeconf.write import writes

_log = EventLogger("stage")
# The size of the columns from which a Spark job is used. An estimate: DuckDB reads 40 to 80 MB of columns in 0.25 s on
# two cores, and a Spark job takes about a second; see benchmarks/spark_delete.py.
SEARCHED_BYTES = 256 << 20
# Virtual columns of DuckLake that a column of the table hides.
_VIRTUAL = {"filename", "file_row_number"}


def deletion(transaction: Transaction, target: Target, predicate: Predicate | None, condition: str) -> Change:
    """The change that deletes the rows that satisfy a predicate.

    DuckDB finds the rows at the commit on the DuckDB engine, in small columns, and in tables that cannot be searched
    exactly. Otherwise Spark finds them now.

    Args:
        transaction: The transaction.
        target: The table, as it will be after the transaction.
        predicate: A predicate on its columns; None if there is none for the condition.
        condition: The same condition in DuckDB's SQL.
    """
    rows, staged = (predicate and _found(transaction, target, predicate, condition)) or (None, None)
    sql = f"DELETE FROM {writes.quoted(transaction.session, target.info)} WHERE {condition}"
    return _change(transaction, target, sql, rows, staged)


def deletion_of_all(transaction: Transaction, target: Target) -> Change:
    """The change that deletes all rows; those of a large table on Spark in several statements, for less memory.

    Args:
        transaction: The transaction.
        target: The table, as it will be after the transaction.
    """
    info, rows = target.info, None
    table = writes.quoted(transaction.session, info)
    if _is_searchable(transaction, target):
        planned = _planned(transaction, target, None)
        if planned is not None and _is_large(transaction, planned[0]):
            rows = PositionDelete(writes.quoted_name(info), table, planned[0], "true")
    return _change(transaction, target, f"DELETE FROM {table}", rows, None)


def _change(
    transaction: Transaction, target: Target, sql: str, rows: PositionDelete | None, staged: Staged | None
) -> Change:
    info = target.info
    return Change(
        (sql,) if rows is None else (),
        info.full_name,
        staged,
        depends_on=writes.read_dependency_at_commit(transaction, info),
        deletes=True,
        written_for=writes.written_for(transaction, info),
        found=rows,
    )


def _found(
    transaction: Transaction, target: Target, predicate: Predicate, condition: str
) -> tuple[PositionDelete, Staged | None] | None:
    """The matching rows, and their staged positions if there are any; None if DuckDB should find them at the commit."""
    session, info = transaction.session, target.info
    planned = _planned(transaction, target, predicate) if _is_searchable(transaction, target) else None
    if planned is None:
        return None
    plan, known = planned
    name = writes.quoted_name(info)
    covered = tuple(file for file in plan.files if file.data_file_id in known.covered)
    searched = [file for file in plan.files if file.data_file_id not in known.covered and is_exact(file)]
    table = writes.quoted(session, info)
    staged = None
    if searched and sum(known.column_bytes[file.data_file_id] for file in searched) >= SEARCHED_BYTES:
        staged = _stage(transaction, target, plan, searched)
    if staged is None:
        is_planned = covered or _is_large(transaction, plan)
        return (PositionDelete(name, table, plan, condition, covered), None) if is_planned else None
    found = _count(session, staged)
    rows = PositionDelete(name, table, plan, condition, covered, tuple(searched), found, staged.source)
    return rows, staged


def _planned(transaction: Transaction, target: Target, predicate: Predicate | None) -> tuple[ScanPlan, Coverage] | None:
    """The files that may contain matching rows, and which of them are covered; None if the plan cannot be used."""
    try:
        plan, known = plan_delete(transaction.session.reader, writes.quoted_name(target.info), predicate)
    except (CatalogError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError):
        return None  # the commit reports it
    # The predicate is for the columns that the transaction reads; the commit refuses to use it for others.
    if plan.table.columns != target.info.columns:
        return None
    # Another writer may have registered a file twice: its name and positions then identify two rows.
    if len({file.path for file in plan.files}) < len(plan.files):
        return None
    return plan, known


def _is_large(transaction: Transaction, plan: ScanPlan) -> bool:
    """True if one statement would need too much memory, or must not be used."""
    rows = sum(file.record_count for file in plan.files)
    return transaction.session.committer == "staged" or rows > ROWS_PER_STATEMENT


def _is_searchable(transaction: Transaction, target: Target) -> bool:
    info, session = target.info, transaction.session
    if not isinstance(session.engine, SparkOperations):
        return False
    if info.table_id == NO_ID or folded(info.full_name) in transaction.targets or writes.has_rows(transaction, info):
        return False
    if any(folded(column.name) in _VIRTUAL for column in info.columns):
        return False
    # DuckDB's names of files are relative if the data path is.
    return session.reader.data_path_is_absolute


def _stage(transaction: Transaction, target: Target, plan: ScanPlan, files: Sequence[DataFile]) -> Staged | None:
    """Stages the positions of the matching rows of files; None if Spark cannot find them exactly as DuckDB does."""
    engine = transaction.session.engine
    assert isinstance(engine, SparkOperations)  # noqa: S101 - checked by the caller
    request = StagingRequest(target.info, POSITION_TYPES, transaction.next_token())
    try:
        frame = engine.find_rows(replace(plan, files=tuple(files), inlined_tables=(), inlined_row_count=0))
        return engine.stage_rows(frame.to_native(), request)
    except LakeconfError as error:
        # DuckDB deletes the rows, or raises the error of the delete. Spark also refuses to cast some texts.
        _log.info("DuckDB finds the rows of %s: %s", target.info.full_name, error.message)
        return None


def _count(session: Session, staged: Staged) -> dict[str, int]:
    try:
        return dict(session.writer.rows(f"SELECT {FILENAME}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    except BaseException:
        session.engine.release(staged)
        raise
