"""Collects the changes of a write as plain data, and commits them as one snapshot or not at all."""

from __future__ import annotations

import contextlib
import json
import re
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from lakeconf import __version__
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection import Connection
from lakeconf.engines.base import Engine, Staged
from lakeconf.errors import CommitConflictError, CommitError, ConnectionFailed, LakeconfError
from lakeconf.locks import Lock, pauses
from lakeconf.sql import identifier, literal

_CHANGED = re.compile(r"(?P<change>[a-z_]+):(?P<table>\d+)(?:,|$)")
# Changes that move rows between files and leave the table as it is.
_UPKEEP = ("merge_adjacent", "compacted_table", "rewrite_delete", "inline_flush", "flushed_inlined")


@dataclass(frozen=True)
class Change:
    """A step of a commit.

    Attributes:
        statements: SQL, run in order inside the commit's transaction.
        staged: Rows that the step commits; removed where it does not.
        table: The table's full name.
        reads_table_id: The table whose state at the read snapshot the step relies on; None for a plain append.
    """

    statements: tuple[str, ...]
    table: str
    staged: Staged | None = None
    reads_table_id: int | None = None


@dataclass
class LakeState:
    """What the tables of an open lake share.

    Attributes:
        alias: The name that the lake is attached as.
        reader: The way to the catalog, on the connection for reading.
        writer: The connection that commits; nothing else runs on it.
        engine: What reads and writes the files.
        lock: The way to lock a table.
        reconnect: Opens another instance, to ask for the fate of a commit whose reply was lost.
        snapshot_id: The snapshot that reads see.
        read_only: Why nothing can be written; None where it can.
        pinned: True where the snapshot stays what it is.
        transaction: The open transaction, which collects what tables write.
    """

    alias: str
    reader: CatalogReader
    writer: Connection
    engine: Engine
    lock: Lock | None
    reconnect: Callable[[], Connection]
    snapshot_id: int
    read_only: str | None = None
    pinned: bool = False
    transaction: Transaction | None = None


@dataclass
class Transaction:
    """Changes that become one snapshot together.

    Attributes:
        state: The lake.
        message: The commit message.
        author: Who commits.
        extra: Keys of the caller's own for the commit info.
        token: The name of this write, by which its snapshot can be told.
    """

    state: LakeState
    message: str | None = None
    author: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    changes: list[Change] = field(default_factory=list)
    _started: float = field(default_factory=time.monotonic)

    def add(self, change: Change) -> None:
        """Collects a change; nothing happens yet."""
        self.changes.append(change)

    def commit(self) -> int:
        """Commits what was collected.

        Returns:
            The new snapshot; the latest one where there is nothing to commit.

        Raises:
            CommitConflictError: Another writer has changed what a change relies on; nothing was written.
            CommitError: Nothing was written, or, where the message says so, it could not be found out.
        """
        if not self.changes:
            return self.state.snapshot_id
        try:
            with self._locks():
                snapshot_id = self._commit_with_patience()
        except BaseException:
            self.discard()
            raise
        self._tidy(committed=True)
        return snapshot_id

    def discard(self) -> None:
        """Removes what was staged."""
        self._tidy(committed=False)

    def _locks(self) -> contextlib.ExitStack:
        stack = contextlib.ExitStack()
        relied_on = sorted({change.table for change in self.changes if change.reads_table_id is not None})
        if relied_on and self.state.lock is None:
            raise CommitError("the metadata backend has no lock, so that only appends are safe on it")
        with stack:
            for table in relied_on:
                stack.enter_context(self.state.lock(table))  # type: ignore[misc]  # checked above
            return stack.pop_all()

    def _commit_with_patience(self) -> int:
        last: LakeconfError | None = None
        for _ in pauses():
            try:
                return self._commit_once()
            except ConnectionFailed as error:
                if "database is locked" not in error.message:
                    raise
                last = error
        raise CommitError(f"the catalog stayed locked by another writer: {last}", hint="try again later")

    def _commit_once(self) -> int:
        writer = self.state.writer
        writer.execute("BEGIN")
        try:
            # From here on the transaction sees this snapshot; DuckLake itself finds what comes after it.
            ((begun,),) = writer.rows("FROM ducklake_current_snapshot(?)", [self.state.alias])
            self._check_conflicts(begun)
            for change in self.changes:
                for statement in change.statements:
                    writer.execute(statement)
            message = f"CALL {identifier(self.state.alias)}.set_commit_message(?, ?, extra_info => "
            writer.execute(f"{message}{literal(self._commit_info())})", [self.author, self.message])
        except BaseException:
            self._roll_back()
            raise
        try:
            writer.execute("COMMIT")
        except LakeconfError as error:
            self._roll_back()
            return self._settle(error)
        # A commit that changes nothing, such as the append of no rows, makes no snapshot.
        return self._find(self.state.reader) or begun

    def _roll_back(self) -> None:
        with contextlib.suppress(LakeconfError):
            self.state.writer.execute("ROLLBACK")

    def _settle(self, error: LakeconfError) -> int:
        """The snapshot of a commit whose reply was an error, where it was applied all the same."""
        try:
            with self.state.reconnect() as connection:
                reader = CatalogReader(connection, self.state.alias, self.state.reader.metadata_schema)
                found = self._find(reader)
        except LakeconfError as unknown:
            raise CommitError(
                f"the reply to a commit was lost, and the catalog does not answer: {unknown.message}",
                hint=f"before you try again, look for the token {self.token} in the snapshots' extra_info",
            ) from error
        if found is None:
            raise error
        return found

    def _find(self, reader: CatalogReader) -> int | None:
        with reader.transaction() as transaction:
            found = transaction.rows(
                "SELECT snapshot_id FROM ducklake_snapshot_changes "
                "WHERE snapshot_id >= ? AND contains(commit_extra_info, ?)",
                [self.state.snapshot_id, self.token],
            )
        return found[0][0] if found else None

    def _check_conflicts(self, begun: int) -> None:
        """Refuses where a table that a change relies on was changed between the read snapshot and `begun`."""
        relied_on = {
            change.reads_table_id: change.table for change in self.changes if change.reads_table_id is not None
        }
        read = self.state.snapshot_id
        if not relied_on or begun == read:
            return
        with self.state.reader.transaction() as transaction:
            newer = transaction.rows(
                "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes "
                "WHERE snapshot_id > ? AND snapshot_id <= ? ORDER BY snapshot_id",
                [read, begun],
            )
        for snapshot_id, changed in ((version, number) for version, made in newer for number in _changed_tables(made)):
            if changed in relied_on:
                raise CommitConflictError(
                    f"{relied_on[changed]} was read at snapshot {read}, and snapshot {snapshot_id} of another writer "
                    f"has changed it since",
                    hint="call lake.refresh() and do it again",
                )

    def _commit_info(self) -> str:
        staged = [change.staged for change in self.changes if change.staged is not None]
        info: dict[str, object] = {
            "lakeconf": __version__,
            "token": self.token,
            "engine": self.state.engine.name,
            **self.state.engine.details(),
            "rows": sum(rows.row_count or 0 for rows in staged),
            "seconds": round(time.monotonic() - self._started, 3),
        }
        return json.dumps(info | ({"extra": dict(self.extra)} if self.extra else {}))

    def _tidy(self, *, committed: bool) -> None:
        for change in self.changes:
            if change.staged is None:
                continue
            for statement in change.staged.discard:
                with contextlib.suppress(LakeconfError):
                    self.state.writer.execute(statement)
            if not (committed and change.staged.keeps_files):
                self.state.engine.remove(change.staged)


def _changed_tables(made: str | None) -> list[int]:
    """The ids of the tables whose rows or columns a snapshot has changed, from DuckLake's `changes_made`."""
    found = _CHANGED.finditer(made or "")
    return [int(change["table"]) for change in found if not change["change"].startswith(_UPKEEP)]
