"""Large deletes and overwrites as staged commits, so that the memory of the driver does not depend on their rows."""

from __future__ import annotations

from dataclasses import replace

from lakeconf.catalog.table import TableInfo
from lakeconf.commit.change import Change, Target
from lakeconf.commit.dropped_files import DeletedFiles, divided_files
from lakeconf.commit.position_delete import ROWS_PER_STATEMENT, PositionDelete, in_files
from lakeconf.commit.session import Session
from lakeconf.commit.sorted_positions import SortedPositions
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.staged_delete import StagedDelete
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import Staged
from lakeconf.engines.staging import announce, staging_folder
from lakeconf.errors import CommitError
from lakeconf.logs import EventLogger
from lakeconf.write import writes
from lakeconf.write.sorted_positions import sorted_positions
from lakeconf.write.staged_key import add_key
from lakeconf.write.staged_refusal import delete_refusal
from lakeconf.write.staged_rows import are_in_files

_log = EventLogger("stage")
# DuckLake's DELETE needs 6 MB for so many rows. It keeps deletes of few rows in the catalog; if they were in a file of
# positions, its change feed would be wrong for files that are merged or flushed.
FEWEST_POSITIONS = 100_000


def stage_delete(transaction: Transaction, target: Target) -> None:
    """Lets a staged commit carry out the changes of a transaction, if it can: a delete, and new rows if there are any.

    The changes keep their statements. The commit uses them if a staged commit cannot delete rows that another writer
    has added in the meantime.

    Args:
        transaction: The transaction, whose changes are those of one write.
        target: The table.
    """
    session, info = transaction.session, target.info
    deleted, *rest = transaction.changes
    found, added = deleted.found, [_with_files(change, info) for change in rest]
    if found is None or not all(change.by_files for change in added):
        return
    if session.committer == "auto" and sum(file.record_count for file in found.plan.files) <= ROWS_PER_STATEMENT:
        return
    covered = {file.data_file_id for file in found.covered}
    files = divided_files(found.plan, covered, session.reader.data_path)
    if files is None or not (files.dropped or files.searched):
        return
    by_position = bool(files.searched or found.plan.inlined_row_count)
    if by_position and session.committer == "auto" and _count(session, info, found, files) <= FEWEST_POSITIONS:
        transaction.changes[0] = replace(deleted, found=replace(found, has_few_others=True))
        return
    refused = delete_refusal(transaction, info, adds_rows=bool(added), by_position=by_position)
    if refused is not None:
        _log.debug("statements delete the rows of %s: %s", info.full_name, refused)
        return
    staged = StagedDelete(info, found.plan.predicate, found.condition)
    transaction.changes[:] = [deleted, *added]
    if by_position:
        staged = _with_positions(transaction, target, staged, deleted, files)
    transaction.changes[0] = replace(deleted, by_files=FileChange(info, deleted=staged))
    add_key(transaction)


def _count(session: Session, info: TableInfo, found: PositionDelete, files: DeletedFiles) -> int:
    """The number of rows to delete that are not those of dropped files."""
    known = set(found.searched)
    others = [*(file.path for file in files.searched if file not in known), *found.plan.inlined_tables]
    count = sum(found.found.values())
    if others:
        rows = f"{writes.quoted(session, info)} AT (VERSION => {found.plan.snapshot_id})"
        query = f"SELECT count(*) FROM {rows} WHERE {in_files(others)} AND ({found.condition})"
        ((counted,),) = session.writer.rows(query)
        count += int(counted)
    return count


def _with_files(change: Change, info: TableInfo) -> Change:
    """A change that adds its staged files to a table; the same change if they do not have all of its rows."""
    staged = change.staged
    if staged is None or not are_in_files(staged):
        return change
    return replace(change, by_files=FileChange(info, staged.files))


def _with_positions(
    transaction: Transaction, target: Target, staged: StagedDelete, deleted: Change, files: DeletedFiles
) -> StagedDelete:
    """Adds the folder of the files of deleted positions, and the positions that executors have found."""
    session, info = transaction.session, target.info
    folder = staging_folder(info, transaction.next_token())
    announce(session.writer, folder, session.reader.lake_id)
    # First the change, so that a failure below removes the folder.
    empty = Staged("", folder=folder, row_count=0)
    transaction.add(Change((), info.full_name, empty, written_for=deleted.written_for, by_files=FileChange(info)))
    return replace(staged, folder=folder, found=_found_positions(transaction, target, deleted, files))


def _found_positions(
    transaction: Transaction, target: Target, deleted: Change, files: DeletedFiles
) -> SortedPositions | None:
    found = deleted.found
    if deleted.staged is None or found is None:
        return None
    searched = tuple(file for file in files.searched if file in set(found.searched))
    positions = sorted_positions(transaction, target, deleted.staged, "true", searched)
    expected = {file.data_file_id: found.found[file.path] for file in searched if found.found.get(file.path)}
    if positions is None or positions.counts != expected:
        raise CommitError(f"Spark sorted other positions of {target.info.full_name} than it found: nothing was written")
    return positions
