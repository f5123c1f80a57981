"""Prepares the files of a staged commit from the outcome of a merge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.change import Change, Target
from lakeconf.commit.row_ids import have_row_ids
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import ROW_ID, Engine, Staged, StagingRequest
from lakeconf.engines.staging import announce, staging_folder
from lakeconf.errors import CommitError
from lakeconf.write.merge_clauses import ACTION, DELETE, INSERT, UPDATE
from lakeconf.write.staged_key import add_key
from lakeconf.write.staged_rows import are_in_files


def add_changes(transaction: Transaction, target: Target, engine: Engine, counts: Mapping[str, int]) -> str | None:
    """Replaces the only change of a transaction, which has staged an outcome, by changes for a staged commit.

    Args:
        transaction: The transaction.
        target: The table.
        engine: The engine that has staged the outcome.
        counts: The number of rows for each action; at least one row is updated or deleted.

    Returns:
        Why the files cannot be committed, so that the transaction has its only change again; None if they can be.

    Raises:
        CommitError: The files do not contain the expected rows.
    """
    session, info, (outcome,) = transaction.session, target.info, transaction.changes
    staged = outcome.staged
    assert staged is not None  # noqa: S101 - it has staged the outcome
    folder = staging_folder(info, transaction.next_token())
    row_ids = f"SELECT {ROW_ID} FROM ({staged.source}) WHERE {ACTION} IN ('{UPDATE}', '{DELETE}')"
    gone = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    deleted = FileChange(info, row_ids=row_ids, row_count=gone, folder=folder)
    transaction.changes[-1] = replace(outcome, staged=replace(staged, row_count=gone), by_files=deleted)
    announce(session.writer, folder, session.reader.lake_id)
    _add(transaction, outcome, info, Staged("", folder=folder, row_count=0))
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
