"""What the writes of a transaction have staged: their names, their announced folders, and who removes them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from lakeconf.engines.engine import Staged
from lakeconf.engines.file_names import announce, staging_folder
from lakeconf.logs import event_logger

if TYPE_CHECKING:
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.catalog.tables import TableInfo
    from lakeconf.connection.connection import Connection
    from lakeconf.engines.engine import Engine

_log = event_logger("commit")


class CommittedFiles(NamedTuple):
    """The staged files that a commit has made files of the lake."""

    paths: frozenset[str] = frozenset()
    keeps_positions: bool = False  # True if the folders of positions contain delete files


class StagingArea:
    """The staged rows of one transaction.

    Args:
        engine: Removes them.
        writer: Announces folders.
        reader: Names the lake in announcements.
        token: The id of the commit, with which all names begin.
    """

    def __init__(self, engine: Engine, writer: Connection, reader: CatalogReader, token: str) -> None:
        self._engine, self._writer, self._reader, self._token = engine, writer, reader, token
        self._count = 0
        self._owned: list[Staged] = []

    def next_token(self) -> str:
        """A unique name for the next staged frame."""
        self._count += 1
        return f"{self._token}{self._count}"

    def own(self, staged: Staged) -> Staged:
        """Removes staged rows when the transaction ends, except for files that it has committed."""
        self._owned.append(staged)
        return staged

    def announced_folder(self, table: TableInfo) -> str:
        """A new folder with a manifest; the caller owns its files."""
        folder = staging_folder(table, self.next_token())
        announce(self._writer, folder, self._reader.lake_id)
        return folder

    def positions_folder(self, table: TableInfo) -> str:
        """A new folder for the positions of deleted rows; it stays if a staged commit needs it."""
        folder = self.announced_folder(table)
        self.own(Staged("", folder=folder))
        return folder

    @contextlib.contextmanager
    def removed_after_errors(self) -> Iterator[None]:
        """Removes what a write inside the `with` block has staged if it fails."""
        first = len(self._owned)
        try:
            yield
        except BaseException:
            failed, self._owned = self._owned[first:], self._owned[:first]
            self._remove(failed, CommittedFiles())
            raise

    def release(self, committed: CommittedFiles) -> None:
        """Removes everything, except for files that are committed."""
        owned, self._owned = self._owned, []
        self._remove(owned, committed)

    def abandon(self) -> None:
        """Leaves everything where it is: the commit may have succeeded."""
        self._owned = []

    def _remove(self, owned: list[Staged], committed: CommittedFiles) -> None:
        with ExitStack() as removals:  # the last one first, and all of them, also after Ctrl-C
            for staged in owned:
                removals.callback(self._remove_one, staged, committed)

    def _remove_one(self, staged: Staged, committed: CommittedFiles) -> None:
        # Statements need no files of positions.
        is_committed = committed.paths.issuperset(staged.files) if staged.files else committed.keeps_positions
        try:
            self._engine.release(replace(staged, keeps_files=staged.keeps_files and is_committed))
        except Exception as error:  # noqa: BLE001 - the outcome of the commit does not change
            _log.warning("cannot remove files of write %s: %s", self._token, type(error).__name__)
