"""Lets executors sort the positions of staged rows."""

from __future__ import annotations

from collections.abc import Iterable

from lakeconf.catalog.data_file import DataFile
from lakeconf.commit.change import Change, Target
from lakeconf.commit.sorted_positions import SortedPositions, found_positions
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import Staged, StagingRequest
from lakeconf.engines.positions import PositionEngine


def sorted_positions(
    transaction: Transaction, target: Target, staged: Staged, condition: str, data_files: Iterable[DataFile]
) -> SortedPositions | None:
    """The positions of staged rows, and a change of the transaction that removes their files after the commit.

    Args:
        transaction: The transaction; its engine is a `PositionEngine`.
        target: The table.
        staged: The staged rows, with their positions.
        condition: Selects rows of data files.
        data_files: The data files in which the rows were found.

    Returns:
        The positions; None if several staged rows have the same one.
    """
    session, info = transaction.session, target.info
    engine = session.engine
    assert isinstance(engine, PositionEngine)  # noqa: S101 - it has staged the positions
    request = StagingRequest(info, {}, transaction.next_token())
    files = engine.sort_positions(staged, condition, request)
    # First the change, so that a failure below removes the files.
    transaction.add(Change((), info.full_name, files.staged, by_files=FileChange(info)))
    return found_positions(session.writer, tuple(data_files), files.paths)
