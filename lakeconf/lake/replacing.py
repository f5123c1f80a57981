"""Writes the rows of data files again, and replaces the files in a staged commit: rows keep their ids."""

from __future__ import annotations

from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import TableInfo, load_table
from lakeconf.commit.change import Change
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.replaced_files import Replacement
from lakeconf.commit.row_ids import have_row_ids
from lakeconf.commit.session import Session
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import ROW_ID, Engine
from lakeconf.engines.sorting import SortedFiles, SortEngine, SortRequest
from lakeconf.errors import CommitError, UnsupportedError
from lakeconf.sql import literal
from lakeconf.write.staged_refusal import hides_places, lake_refusal
from lakeconf.write.writes import quoted


def newest(session: Session, name: str) -> TableInfo:
    """The table at the latest snapshot, to which reads move.

    Raises:
        TableNotFoundError: There is no such table any more.
    """
    session.advance(latest(session.reader).snapshot_id)
    return load_table(session.reader, name, session.snapshot_id)


def replacement_refusal(session: Session, info: TableInfo, snapshot_id: int, *, encrypted: bool) -> str | None:
    """Why the files of a table cannot be replaced with the ids of their rows; None if they can.

    Args:
        session: The open lake.
        info: The table.
        snapshot_id: The snapshot of the table.
        encrypted: True if a file is encrypted.
    """
    if session.committer == "public":
        return "the store's committer is public, which cannot register row ids"
    if hides_places(info):
        return "a column hides the row ids"
    if encrypted:
        return "the files are encrypted"
    return lake_refusal(session, info, snapshot_id)


def add_replacement(transaction: Transaction, engine: Engine, request: SortRequest) -> None:
    """Writes the rows of a group of files again, and adds the change that replaces the files.

    Args:
        transaction: The transaction, whose changes all replace files.
        engine: Writes the files.
        request: The group.

    Raises:
        UnsupportedError: The engine cannot write a column exactly.
        CommitError: The new files do not have the ids of the rows.
    """
    if not isinstance(engine, SortEngine):
        raise UnsupportedError(f"the engine {engine.name} cannot write files again")
    info, files = request.table, engine.stage_sorted(request)
    since = ReadDependency(info.table_id, info.full_name, transaction.snapshot_id, on_rows=False)
    change = FileChange(info, replacement=Replacement(request.group, files.footers))
    transaction.add(Change((), info.full_name, files.staged, since, deletes=True, written_for=info, by_files=change))
    _check_row_ids(transaction.session, request, files)


def _check_row_ids(session: Session, request: SortRequest, files: SortedFiles) -> None:
    """Refuses files that do not contain exactly the ids of the rows that they replace."""
    info = request.table
    listed = ", ".join(literal(file.path) for file in request.group.files)
    where = "" if request.is_whole else f" WHERE filename IN ({listed})"
    table = f"{quoted(session, info)} AT (VERSION => {request.snapshot_id})"
    with session.writer.cursor() as cursor:
        if not have_row_ids(cursor, files.staged.files, f"SELECT rowid AS {ROW_ID} FROM {table}{where}"):
            raise CommitError(f"the new files of {info.full_name} have other rows: nothing was written")
