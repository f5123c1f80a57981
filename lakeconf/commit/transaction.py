"""A transaction: collects the actions of writes, and commits them as one snapshot."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

from lakeconf.commit.conflicts import Base
from lakeconf.commit.driver import drive
from lakeconf.commit.session import Session
from lakeconf.commit.staging import StagingArea
from lakeconf.commit.transaction_commit import CommitContents, CommitHeader, TransactionCommit
from lakeconf.errors import CommitUnknownError, LakeconfError
from lakeconf.guard.locks import Held
from lakeconf.logs import event_logger

_log = event_logger("commit")


@dataclass
class Transaction:
    """Actions that are committed as one snapshot."""

    session: Session
    snapshot_id: int  # the snapshot that it reads
    # The snapshot from which its conflict checks start. A copy, because other threads may refresh the lake, or commit
    # with it, before this transaction ends.
    base: Base
    header: CommitHeader = field(default_factory=CommitHeader)
    held: Held | None = None  # the lake's lock that protects the transaction; None if the metadata backend has no locks
    explicit: bool = False  # True for `lake.transaction()`; False for the transaction of a single write
    contents: CommitContents = field(default_factory=CommitContents)
    # The tables that a branch got while the transaction was open, each with the snapshot that created it.
    own_since: dict[str, int] = field(default_factory=dict)
    staging: StagingArea = field(init=False)  # the rows that its writes have staged
    _commit: TransactionCommit = field(init=False)
    # Held by the thread that adds a write, so that threads sharing a transaction take turns.
    _turn: threading.RLock = field(default_factory=threading.RLock)
    _ended: bool = False

    def __post_init__(self) -> None:
        session, header = self.session, self.header
        self.staging = StagingArea(session.engine, session.writer, session.reader, header.token)
        self._commit = TransactionCommit(session, self.base, header, self.contents, self.staging, self.held)

    def snapshot_of(self, table: str) -> int:
        """The snapshot at which it reads a table, by its full name in lower case."""
        return self.own_since.get(table, self.snapshot_id)

    def check_open(self) -> None:
        """Rejects writes, audits and runs in a transaction that has ended."""
        if self._ended:
            raise LakeconfError("nothing can be written: the transaction has ended", hint="start another transaction")

    def end(self) -> None:
        """Closes the transaction to further writes, once the write of another thread has ended; it can be committed."""
        self._ended = True
        with self._turn:
            pass

    @contextlib.contextmanager
    def adding(self) -> Iterator[None]:
        """Excludes the writes of other threads, and removes what a write has staged if it fails.

        A caller may catch the error and continue, so no part of the failed write may be committed: the contents get all
        actions of a write at its end.
        """
        with self._turn:
            self.check_open()  # it may have ended while this write waited
            with self.staging.removed_after_errors():
                yield

    def commit(self) -> int:
        """Commits the collected actions, and moves the session to the new snapshot."""
        snapshot_id, token = self.snapshot_id, self.header.token
        with self.session.writer_lock:
            try:
                if self.contents.actions or self.contents.events:
                    began = time.monotonic()
                    tables = ", ".join(sorted({action.table for action in self.contents.actions}))
                    _log.info("committing %d changes to %s (write %s)", len(self.contents.actions), tables, token)
                    with self._commit.locked():
                        snapshot_id = drive(self._commit, "the commit")
                    _log.info("committed %s as snapshot %d in %.1f s", token, snapshot_id, time.monotonic() - began)
            finally:
                self._commit.release_staged()
            if snapshot_id == self._commit.committed_snapshot and self.contents.only_changes_rows:
                self.session.reader.wrote_rows(snapshot_id)
            return self.session.advance(snapshot_id, own=self._commit.committed_snapshot, token=token)

    def discard(self) -> None:
        """Removes the staged rows of a transaction that is not committed."""
        self._commit.release_staged()

    @property
    def result(self) -> tuple[int, int] | None:
        """The snapshot of the commit and the number of its new rows; None unless it is certainly in the catalog."""
        rows = self._commit.row_count
        return None if rows is None else (self._commit.committed_snapshot or self.session.snapshot_id, rows)

    @property
    def unknown(self) -> CommitUnknownError | None:
        """The error that says what to do if nobody knows whether the transaction is committed; None otherwise."""
        return self._commit.unknown
