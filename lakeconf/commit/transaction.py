"""The changes of a transaction, and the tables as they will be after its commit."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace

from lakeconf import __version__
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.stored_queries import StoredQueries
from lakeconf.catalog.table import TableInfo
from lakeconf.commit import audits, journal
from lakeconf.commit.audits import Audit
from lakeconf.commit.committer import Commit, Phase
from lakeconf.commit.conflicts import (
    Base,
    ReadDependency,
    check_columns,
    check_conflicts,
    check_not_overtaken,
    run_counted,
)
from lakeconf.commit.deletions import PositionDelete, StatementsNeeded, check_delete_files
from lakeconf.commit.journal import TABLE, CommitKey, ModelRun
from lakeconf.commit.moved_values import MovedRows
from lakeconf.commit.recovery import without_retries
from lakeconf.commit.session import Session
from lakeconf.commit.staged_commit import FileChange, StagedCatalog
from lakeconf.ducklake import commit_json
from lakeconf.engines.base import Staged, announce
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.guard.locks import Held, pauses
from lakeconf.logs import EventLogger
from lakeconf.sql import literal


@dataclass(frozen=True)
class Change:
    """One change in a commit.

    Attributes:
        statements: SQL, run in order inside the commit's transaction.
        table: The table's full name.
        staged: Rows that the change commits; they are removed if the commit fails.
        depends_on: The table state that other writers must not have changed since the read snapshot; None for a plain
            append.
        key: Idempotency key; the change is skipped if it was already committed.
        defines: True if the statements create a table or change its columns.
        deletes: True if the statements delete rows.
        written_for: The table for which the rows were written; None if this transaction creates or changes the table.
        counts: The number of rows that each statement must change; empty if it is not known in advance.
        sql: The user's own SQL among the statements; the views and macros that it may use are checked at the commit.
        inserts: True if the statements insert rows whose number is not known in advance.
        found: Rows to delete, which were found before the commit; None if `statements` find them.
        decision: For a merge on Spark, the engine that computed it and the reason for the choice.
        by_files: What a staged commit does for the change, instead of statements; either all changes of a transaction
            have it, or none. A delete keeps its statements, for rows that a staged commit cannot delete.
        kept: The columns that the statements do not set in the rows that they update, and that files store inexactly,
            with their types.
    """

    statements: tuple[str, ...]
    table: str
    staged: Staged | None = None
    depends_on: ReadDependency | None = None
    key: CommitKey | None = None
    defines: bool = False
    deletes: bool = False
    written_for: TableInfo | None = None
    counts: tuple[int, ...] = ()
    sql: str | None = None
    inserts: bool = False
    decision: str | None = None
    found: PositionDelete | None = None
    by_files: FileChange | None = None
    kept: Mapping[str, str] = field(default_factory=dict)

    def resolved(self, reader: CatalogReader, begun: int) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
        """The statements for a commit that builds on the snapshot `begun`, and `counts` for them."""
        return (self.statements, self.counts) if self.found is None else self.found.statements(reader, begun)

    @property
    def has_statements(self) -> bool:
        """True if a commit can carry out the change without `by_files`."""
        return bool(self.statements or self.found)

    @property
    def writes_files(self) -> bool:
        """True if DuckLake may write files for the change: not if the staged files become files of the table."""
        if not self.has_statements or self.defines or self.by_files:
            return False
        staged = self.staged
        if staged is None or self.deletes or not staged.keeps_files:
            return True
        return not staged.files or staged.rest is not None

    @property
    def registers_files(self) -> bool:
        """True if the statements register staged files as files of the table, or may have to."""
        return self.staged is not None and bool(self.staged.files) and (self.by_files is None or self.has_statements)


@dataclass(frozen=True)
class Target:
    """A table as a transaction will leave it.

    Attributes:
        info: The table; its columns are those that rows are written with.
        types: Its columns and the DuckDB names of their types.
        ended_by: What the transaction did last, such as `dropped main.events`, if it cannot use the table any more.
        exists: False if the name is free after the transaction.
    """

    info: TableInfo
    types: Mapping[str, str]
    ended_by: str | None = None
    exists: bool = True


def tables_to_lock(changes: Iterable[Change], *, registers_alone: bool) -> set[str]:
    """The tables whose locks a commit holds, from before it begins until the reply.

    DuckLake keeps the name mappings of registered files in memory. On a catalog that it reads on separate connections,
    a transaction also loads a mapping that another one commits after its snapshot. DuckLake later loads this mapping
    again and uses freed memory: the process crashes or hangs (duckdb/ducklake#1431). So only one commit at a time
    registers files on such a catalog. The lock of the table of commits excludes the others, in all processes.

    Args:
        registers_alone: True if no two commits may register files at the same time.
    """
    found = set[str]()
    for change in changes:
        if change.depends_on is not None:
            found.add(change.table)
        if change.key or (registers_alone and change.registers_files):
            found.add(TABLE)
    return found


def row_count(changes: Iterable[Change]) -> int:
    """The number of rows that were staged for changes."""
    return sum(change.staged.row_count or 0 for change in changes if change.staged is not None)


_log = EventLogger("commit")


@dataclass
class Transaction:
    """Changes that are committed as one snapshot.

    Attributes:
        session: The open lake.
        snapshot_id: The snapshot that it reads.
        base: The snapshot from which its conflict checks start. A copy, because other threads may refresh the lake, or
            commit with it, before this transaction ends.
        message: The commit message.
        author: The author of the commit.
        extra: Additional keys for the commit info.
        explicit: True for `lake.transaction()`; False for the transaction of a single write.
        key: The idempotency key of its single write; None if there is none.
        token: The id of this write, which identifies its snapshot.
        changes: The collected changes.
        audits: Conditions on the new state.
        targets: Tables that this transaction created or changed, by full name in lower case.
        read: Other tables that the write in progress has looked up, in the same way; None if there is no such write.
        runs: The runs of models that this transaction records.
        held: The lake's lock that protects the transaction; None if the metadata backend has no locks.
        writing: Held by the thread that adds a write, so that threads sharing a transaction take turns.
        attempt: The last attempt to commit.
    """

    session: Session
    snapshot_id: int
    base: Base
    message: str | None = None
    author: str | None = None
    extra: Mapping[str, object] = field(default_factory=dict)
    explicit: bool = False
    key: CommitKey | None = None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    changes: list[Change] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    targets: dict[str, Target] = field(default_factory=dict)
    read: dict[str, Target] | None = None
    runs: list[ModelRun] = field(default_factory=list)
    held: Held | None = None
    writing: threading.RLock = field(default_factory=threading.RLock)
    _started: float = field(default_factory=time.monotonic)
    _repeated: set[CommitKey] = field(default_factory=set)
    _staged: int = 0
    _inserted: int = 0
    _ended: bool = False
    attempt: Commit = field(init=False)

    def __post_init__(self) -> None:
        self.attempt = self.session.new_commit(self.token)

    def check_open(self) -> None:
        """Refuses writes, audits and runs in a transaction that has ended."""
        if self._ended:
            raise LakeconfError("nothing can be written: the transaction has ended", hint="start another transaction")

    def end(self) -> None:
        """Closes the transaction to further writes, once the write of another thread has ended; it can be committed."""
        self._ended = True
        with self.writing:
            pass

    def add(self, change: Change) -> None:
        """Collects a change; nothing is executed yet."""
        self.changes.append(change)

    def next_token(self) -> str:
        """A unique name for the next staged frame."""
        self._staged += 1
        return f"{self.token}{self._staged}"

    def commit(self) -> int:
        """Commits the collected changes, and moves the session to the new snapshot."""
        with self.session.writer_lock:
            snapshot_id = self._commit() if self.changes or self.runs else self.snapshot_id
            return self.session.advance(snapshot_id, own=self.attempt.made, token=self.token)

    def outcome(self) -> tuple[int, int] | None:
        """The snapshot of the commit and the number of its new rows; None unless it is certainly in the catalog."""
        if self.attempt.phase is not Phase.COMMITTED:
            return None
        new = [change for change in self.changes if change.key not in self._repeated]
        return self.attempt.made or self.session.snapshot_id, row_count(new) + self._inserted

    def _commit(self) -> int:
        """Returns the new snapshot; if all changes were already committed, the snapshot of that commit."""
        began, tables = time.monotonic(), ", ".join(sorted({change.table for change in self.changes}))
        _log.info("committing %d changes to %s (write %s)", len(self.changes), tables, self.token)
        try:
            snapshot_id = self._commit_under_locks()
            _log.info("committed %s as snapshot %d in %.1f s", self.token, snapshot_id, time.monotonic() - began)
            return snapshot_id
        finally:
            # The phase decides, not the error: a signal can arrive at any time.
            if self.attempt.phase is Phase.COMMITTED:
                self._tidy(self.changes, committed=True)
            elif self.attempt.may_discard:
                self.discard()

    def discard(self) -> None:
        """Removes the staged rows."""
        self._tidy(self.changes, committed=False)

    def forget(self, changes: list[Change], targets: dict[str, Target]) -> None:
        """Restores earlier changes and targets, and removes the rows that were staged since then."""
        dropped = self.changes[len(changes) :]
        self.changes, self.targets = changes, targets
        self._tidy(dropped, committed=False)

    def _locks(self) -> AbstractContextManager[Held | None]:
        session = self.session
        alone = session.reader.reads_separately and session.guard.has_locks
        wanted = tables_to_lock(self.changes, registers_alone=alone) | ({journal.TABLE} if self.runs else set[str]())
        if not wanted:
            return contextlib.nullcontext()
        return self.session.guard(wanted)

    def _commit_under_locks(self) -> int:
        locks = self._locks()
        locks.__enter__()
        try:
            with without_retries(self.session.writer) if self._is_checked() else contextlib.nullcontext():
                return self._commit_with_retry()
        finally:
            # A lost lock does not affect the commit, whose outcome is already known.
            try:
                locks.__exit__(None, None, None)
            except LakeconfError as error:
                _log.warning("cannot release a lock of commit %s: %s", self.token, type(error).__name__)

    def _commit_with_retry(self) -> int:
        last: LakeconfError | None = None
        for _ in pauses():
            self.attempt = self.session.new_commit(self.token, staged=any(change.by_files for change in self.changes))
            if self.held is not None:
                self.held.renew()
            try:
                return self.attempt.run(self._work)
            except StatementsNeeded:
                self._use_statements()
            except LakeconfError as error:
                if not self.attempt.lost_race(error, conflicts=True):
                    raise
                _log.warning("another writer overtook commit %s; trying again", self.token)
                last = error
                self._clear_positions()
        raise CommitError(f"the commit lost every race with other writers: {last}", hint="try again later")

    def _clear_positions(self) -> None:
        """Removes the files of positions of an attempt that failed: the next one may not need all of them."""
        for change in self.changes:
            staged = change.staged
            if change.by_files and not change.has_statements and staged and staged.folder and not staged.files:
                self.session.engine.release(replace(staged, keeps_files=False))
                announce(self.session.writer, staged.folder, self.session.reader.lake_id)

    def _use_statements(self) -> None:
        """Continues without a staged commit."""
        _log.info("commit %s uses statements, because a staged commit cannot delete its rows", self.token)
        files_only = [change for change in self.changes if not change.has_statements]
        self.changes = [replace(change, by_files=None) for change in self.changes if change.has_statements]
        self._tidy(files_only, committed=False)

    def _is_checked(self) -> bool:
        """True if the commit depends on checks, which DuckLake's own retries would skip."""
        return bool(self.audits or self.runs) or any(change.depends_on or change.key for change in self.changes)

    def _work(self, begun: int) -> int | None:
        """Runs everything inside the transaction; see `Commit.run`."""
        writer, alias = self.session.writer, self.session.alias
        done = journal.find(writer, alias, [change.key for change in self.changes if change.key])
        self._repeated = set(done)
        self._inserted = 0
        changes = [change for change in self.changes if change.key not in done]
        if done and not changes:
            return max(done.values())
        dependencies = [change.depends_on for change in changes if change.depends_on]
        with self.session.reader.one_state() as reader:
            stored = StoredQueries.load(reader, begun, names=False)
            stored.check_expressions()
            for sql in [change.sql for change in changes if change.sql is not None]:
                stored.check_statement(sql)
            journal.check_runs(writer, alias, self.runs)
            check_conflicts(reader, dependencies, self.base, begun)
            check_columns(reader, [change.written_for for change in changes if change.written_for], begun)
            check_delete_files(reader, [change.depends_on for change in changes if change.deletes])
        if isinstance(catalog := self.attempt.catalog, StagedCatalog):
            info = (self.author, self.message, self._commit_info(changes))
            catalog.stage([change.by_files for change in changes], begun, info)
        else:
            self._carry_out(changes, begun)
        if self.held is not None:
            self.held.check()
        is_planned = any(change.found or change.by_files for change in changes)
        if is_planned or (dependencies and self.session.reader.reads_separately):
            check_not_overtaken(self.session.reader, begun)
        # Files that Spark wrote are registered, and DuckLake does not remove them.
        by_ducklake = {change.table for change in changes if change.writes_files}
        keeps = self.runs or any(change.key and not change.by_files for change in changes)
        self.attempt.catalog.keep_written(by_ducklake | ({journal.TABLE} if keeps else set[str]()), begun)
        return None

    def _carry_out(self, changes: list[Change], begun: int) -> None:
        writer, alias = self.session.writer, self.session.alias
        for change in changes:
            moved = MovedRows(writer, alias, change.table, change.kept) if change.kept else None
            resolved = change.resolved(self.session.reader, begun)
            self._inserted += run_counted(writer, change.table, *resolved, inserts=change.inserts)
            if moved is not None:
                moved.check()
        for audit in self.audits:
            audits.run(audit, writer, self.session.reader)
        for statement in journal.statements(
            alias, self.token, [change.key for change in changes if change.key], self.runs
        ):
            writer.execute(statement)
        # Do not write `alias.set_commit_message`: DuckDB could read the alias as the name of a schema.
        message = f"CALL ducklake_set_commit_message({literal(alias)}, ?, ?, extra_info => "
        writer.execute(f"{message}{literal(self._commit_info(changes))})", [self.author, self.message])

    def _commit_info(self, changes: list[Change]) -> str:
        info: dict[str, object] = {
            "lakeconf": __version__,
            "token": self.token,
            "engine": self.session.engine.name,
            **self.session.engine.details(),
            "committer": "staged" if isinstance(self.attempt.catalog, StagedCatalog) else "public",
            "rows": row_count(changes) + self._inserted,
            "seconds": round(time.monotonic() - self._started, 3),
        }
        decisions = {change.table: change.decision for change in changes if change.decision is not None}
        info |= {"merged_by": decisions} if decisions else {}
        return commit_json(info, self.extra)

    def _tidy(self, changes: list[Change], *, committed: bool) -> None:
        for change in changes:
            if change.staged is None:
                continue
            keeps_files = committed and change.staged.keeps_files and change.key not in self._repeated
            try:
                self.session.engine.release(replace(change.staged, keeps_files=keeps_files))
            except Exception as error:  # noqa: BLE001 - the commit's outcome does not change
                _log.warning("cannot remove files of write %s: %s", self.token, type(error).__name__)
