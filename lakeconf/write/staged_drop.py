"""Large deletes and overwrites of whole files as staged commits.

DuckLake's DELETE needs memory for each row, also for the rows of files that it drops as a whole; a staged commit names
only the files.
"""

from __future__ import annotations

from dataclasses import replace

from lakeconf.catalog.table import TableInfo
from lakeconf.commit.change import Change, Target
from lakeconf.commit.dropped_files import FileDrop, whole_files
from lakeconf.commit.position_delete import ROWS_PER_STATEMENT
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Transaction
from lakeconf.logs import EventLogger
from lakeconf.write.staged_key import add_key
from lakeconf.write.staged_refusal import drop_refusal
from lakeconf.write.staged_rows import are_in_files

_log = EventLogger("stage")


def drop_files(transaction: Transaction, target: Target) -> None:
    """Lets a staged commit carry out the changes of a transaction, if it can: a delete, and new rows if there are any.

    The changes keep their statements. The commit uses them if, meanwhile, another writer has added rows to delete that
    are not all rows of a file.

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
    if whole_files(found.plan, covered, session.reader.data_path) is None:
        return
    refused = drop_refusal(transaction, info, adds_rows=bool(added))
    if refused is not None:
        _log.debug("statements delete the rows of %s: %s", info.full_name, refused)
        return
    drop = FileDrop(found.name, found.plan.predicate)
    transaction.changes[:] = [replace(deleted, by_files=FileChange(info, drop=drop)), *added]
    add_key(transaction)


def _with_files(change: Change, info: TableInfo) -> Change:
    """A change that adds its staged files to a table; the same change if they do not have all of its rows."""
    staged = change.staged
    if staged is None or not are_in_files(staged):
        return change
    return replace(change, by_files=FileChange(info, staged.files))
