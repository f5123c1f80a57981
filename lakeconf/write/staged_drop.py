"""Large deletes and overwrites of whole files as staged commits.

DuckLake's DELETE needs memory for each row, also for the rows of files that it drops as a whole; a staged commit names
only the files.
"""

from __future__ import annotations

from dataclasses import replace

from lakeconf.catalog.snapshot import latest
from lakeconf.commit.change import Change, Target
from lakeconf.commit.dropped_files import FileDrop
from lakeconf.commit.position_delete import ROWS_PER_STATEMENT
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import Staged
from lakeconf.logs import EventLogger
from lakeconf.write.staged_key import add_key
from lakeconf.write.staged_refusal import drop_refusal

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
    deleted, *added = transaction.changes
    found = deleted.found
    if found is None or not all(_are_whole_files(change.staged) for change in added):
        return
    if session.committer == "auto" and sum(file.record_count for file in found.plan.files) <= ROWS_PER_STATEMENT:
        return
    refused = drop_refusal(transaction, info, adds_rows=bool(added))
    if refused is not None:
        _log.debug("statements delete the rows of %s: %s", info.full_name, refused)
        return
    drop = FileDrop(found.name, found.plan.predicate)
    if drop.files(session.reader, latest(session.reader).snapshot_id) is None:
        return
    transaction.changes[:] = [
        replace(deleted, by_files=FileChange(info, drop=drop)),
        *(_with_files(change, target) for change in added),
    ]
    add_key(transaction)


def _are_whole_files(staged: Staged | None) -> bool:
    return staged is not None and (staged.row_count == 0 or (staged.keeps_files and staged.rest is None))


def _with_files(change: Change, target: Target) -> Change:
    files = () if change.staged is None else change.staged.files
    return replace(change, by_files=FileChange(target.info, files))
