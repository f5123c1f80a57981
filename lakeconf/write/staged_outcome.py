"""Prepares the files of a staged commit from the outcome of a merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.scan import plan_scan
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.change import Change, Target
from lakeconf.commit.position_writer import SORTED_IN_MEMORY
from lakeconf.commit.row_ids import have_row_ids, repeated_id
from lakeconf.commit.sorted_positions import SortedPositions
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import ROW_ID, Engine, Staged, StagingRequest
from lakeconf.engines.positions import FILE_ID, PositionEngine
from lakeconf.engines.staging import announce, staging_folder
from lakeconf.errors import CommitError
from lakeconf.write import writes
from lakeconf.write.merge_clauses import ACTION, DELETE, INSERT, UPDATE
from lakeconf.write.sorted_positions import sorted_positions
from lakeconf.write.staged_key import add_key
from lakeconf.write.staged_rows import are_in_files, check_matches

_GONE = f"{ACTION} IN ('{UPDATE}', '{DELETE}')"


def are_sorted(engine: Engine, acted: int) -> bool:
    """True if executors sort the positions of the changed rows, for flat memory; that finds repeated rows too.

    Args:
        engine: The engine that has staged the outcome.
        acted: The number of changed rows.
    """
    return acted > SORTED_IN_MEMORY and isinstance(engine, PositionEngine)


def add_changes(
    transaction: Transaction, target: Target, engine: Engine, counts: Mapping[str, int], on: Sequence[str]
) -> str | None:
    """Replaces the only change of a transaction, which has staged an outcome, by changes for a staged commit.

    Args:
        transaction: The transaction.
        target: The table.
        engine: The engine that has staged the outcome.
        counts: The number of rows for each action; at least one row is updated or deleted.
        on: The columns that a merge matches on.

    Returns:
        Why the files cannot be committed, so that the transaction has its only change again; None if they can be.

    Raises:
        CommitError: The files do not contain the expected rows, or several rows of the frame match one row.
    """
    session, info, (outcome,) = transaction.session, target.info, transaction.changes
    staged = outcome.staged
    assert staged is not None  # noqa: S101 - it has staged the outcome
    folder = staging_folder(info, transaction.next_token())
    gone = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    is_sorted = are_sorted(engine, gone)
    columns = f"{ROW_ID}, {FILE_ID}" if is_sorted else ROW_ID
    row_ids = f"SELECT {columns} FROM ({staged.source}) WHERE {_GONE}"
    deleted = FileChange(info, row_ids=row_ids, row_count=gone, folder=folder)
    outcome_change = replace(outcome, staged=replace(staged, row_count=gone), by_files=deleted)
    transaction.changes[-1] = outcome_change
    announce(session.writer, folder, session.reader.lake_id)
    _add(transaction, outcome, info, Staged("", folder=folder, row_count=0))
    if is_sorted:
        found = _positions(transaction, target, staged, gone, on)
        transaction.changes[0] = replace(outcome_change, by_files=replace(deleted, found=found))
    for action in (UPDATE, INSERT):
        if not counts.get(action):
            continue
        token, is_update = transaction.next_token(), action == UPDATE
        request = StagingRequest(info, target.types, token, registered=False, row_ids=is_update)
        part = engine.stage_part(staged, f"{ACTION} = '{action}'", request)
        # Updated rows are counted with the deleted ones.
        shown = replace(part, row_count=0) if action == UPDATE else part
        _add(transaction, outcome, info, shown, own_row_ids=action == UPDATE)
        if not are_in_files(part):
            transaction.forget([outcome], transaction.targets)
            return "the partitions of some rows"
        _check_rows(session.writer, info, part, counts[action])
        if action == UPDATE:
            _check_row_ids(session.writer, info, part, f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'")
    add_key(transaction)
    return None


def _positions(
    transaction: Transaction, target: Target, staged: Staged, gone: int, on: Sequence[str]
) -> SortedPositions:
    """The positions of the changed rows that are in files; checks that no row changes twice."""
    session, info = transaction.session, target.info
    in_catalog = f"FROM ({staged.source}) WHERE {_GONE} AND {FILE_ID} IS NULL"
    ((count,),) = session.writer.rows(f"SELECT count(*) {in_catalog}")
    data_files = plan_scan(session.reader, writes.quoted_name(info), transaction.snapshot_id, ()).files
    condition = f"{_GONE} AND {FILE_ID} IS NOT NULL"
    found = sorted_positions(transaction, target, staged, condition, data_files)
    if found is None or repeated_id(session.writer, f"SELECT {ROW_ID} {in_catalog}", count) is not None:
        check_matches(session.writer, info, staged, on, gone)
        raise CommitError(f"a row of {info.full_name} would change twice: nothing was written")
    if sum(found.counts.values()) + count != gone:
        raise CommitError(f"Spark sorted other rows of {info.full_name} than those that change: nothing was written")
    return found


def _add(
    transaction: Transaction, outcome: Change, info: TableInfo, staged: Staged, *, own_row_ids: bool = False
) -> None:
    by_files = FileChange(info, staged.files, own_row_ids=own_row_ids)
    transaction.add(replace(outcome, staged=staged, decision=None, by_files=by_files))


def _check_rows(writer: Connection, info: TableInfo, part: Staged, count: int) -> None:
    found = sum(footer.row_count for footer in read_footers(writer, part.files))
    if found != count:
        raise CommitError(f"Spark wrote {found} rows of {info.full_name} instead of {count}: nothing was written")


def _check_row_ids(writer: Connection, info: TableInfo, part: Staged, updated: str) -> None:
    """Refuses files of updated rows that do not contain exactly the ids of these rows."""
    if not have_row_ids(writer, part.files, updated):
        raise CommitError(f"Spark wrote other rows of {info.full_name} than those that change: nothing was written")
