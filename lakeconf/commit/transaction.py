"""The changes of a transaction, and the tables as they will be after its commit."""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias

from lakeconf import __version__
from lakeconf.catalog.stored_queries import StoredQueries
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit import journal
from lakeconf.commit.change import (
    Change,
    Files,
    Replacement,
    Statements,
    is_staged_commit,
    tables_to_lock,
    written_by_ducklake,
)
from lakeconf.commit.committer import Commit, Phase
from lakeconf.commit.conflicts import Base, check_columns, check_conflicts, check_not_overtaken, run_counted
from lakeconf.commit.deletions import Outcome, RowsMoved, check_delete_files
from lakeconf.commit.evolved_columns import EvolvedColumns
from lakeconf.commit.journal import CommitKey, Event
from lakeconf.commit.moved_values import AddedRows, MovedRows, RequiredValues, check_row_ids_in_catalog
from lakeconf.commit.recovery import without_retries
from lakeconf.commit.session import Session, default_author
from lakeconf.commit.staged_commit import StagedCatalog, table_of_keys, write_key
from lakeconf.ducklake import commit_json
from lakeconf.engines.engine import Staged, announce, staging_folder
from lakeconf.errors import CommitConflictError, CommitError, LakeconfError
from lakeconf.guard.locks import Held, pauses
from lakeconf.logs import EventLogger
from lakeconf.sql import literal

if TYPE_CHECKING:
    from lakeconf.commit.audits import Audit

# What `engine=` of a write demands: a statement, or an outcome of Spark.
EngineName: TypeAlias = Literal["duckdb", "spark"]
DUCKDB: Final = "duckdb"  # it is also the name of its engine


@dataclass(frozen=True)
class Target:
    """A table as a transaction will leave it."""

    info: TableInfo  # the table; its columns are those that rows are written with
    types: Mapping[str, str]  # its columns and the DuckDB names of their types
    # What the transaction did last, such as `dropped main.events`, if it cannot use the table any more.
    ended_by: str | None = None
    exists: bool = True  # False if the name is free after the transaction
    evolved: EvolvedColumns = field(default_factory=EvolvedColumns)  # what the transaction did to its columns


class _Mark(NamedTuple):
    """The state of a transaction before a write."""

    changes: list[Change]
    targets: dict[str, Target]
    resources: ExitStack


_log = EventLogger("commit")


@dataclass
class Transaction:
    """Changes that are committed as one snapshot."""

    session: Session  # the open lake
    snapshot_id: int  # the snapshot that it reads
    # The snapshot from which its conflict checks start. A copy, because other threads may refresh the lake, or commit
    # with it, before this transaction ends.
    base: Base
    message: str | None = None
    author: str | None = None  # the author of the commit; None for the user and the host of this process
    extra: Mapping[str, object] = field(default_factory=dict)  # additional keys for the commit info
    explicit: bool = False  # True for `lake.transaction()`; False for the transaction of a single write
    key: CommitKey | None = None  # the idempotency key of its single write; None if there is none
    token: str = field(default_factory=lambda: uuid.uuid4().hex)  # the id of this write, which identifies its snapshot
    changes: list[Change] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    # Tables that this transaction created or changed, by full name in lower case.
    targets: dict[str, Target] = field(default_factory=dict)
    # Other tables that the write in progress has looked up, in the same way; None if there is no such write.
    read: dict[str, Target] | None = None
    events: list[Event] = field(default_factory=list)  # the events of models that this transaction records
    wanted: EngineName | None = None  # the engine that the write in progress demands; None if `write.decision` chooses
    held: Held | None = None  # the lake's lock that protects the transaction; None if the metadata backend has no locks
    # Held by the thread that adds a write, so that threads sharing a transaction take turns.
    writing: threading.RLock = field(default_factory=threading.RLock)
    _resources: ExitStack = field(default_factory=ExitStack)
    _started: float = field(default_factory=time.monotonic)
    _key_files: list[Files] = field(default_factory=list)
    _repeated: set[CommitKey] = field(default_factory=set)
    _staged: int = 0
    _inserted: int = 0
    _ended: bool = False
    attempt: Commit = field(init=False)

    def __post_init__(self) -> None:
        self.attempt = self.session.new_commit(self.token)
        self.author = self.author or default_author()

    def check_open(self) -> None:
        """Rejects writes, audits and runs in a transaction that has ended."""
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

    def own(self, staged: Staged) -> Staged:
        """Removes staged rows when the transaction ends, except for files of committed changes."""
        self._resources.callback(self._release, staged)
        return staged

    def new_folder(self, table: TableInfo) -> str:
        """Announces a folder for the positions of deleted rows; it stays if the transaction is committed."""
        folder = staging_folder(table, self.next_token())
        announce(self.session.writer, folder, self.session.reader.lake_id)
        self.own(Staged("", folder=folder))
        return folder

    def mark(self) -> _Mark:
        """Begins a write, which ends with `undo` or `keep`."""
        mark = _Mark(list(self.changes), dict(self.targets), self._resources)
        self._resources = ExitStack()
        return mark

    def undo(self, mark: _Mark) -> None:
        """Restores the changes before a write, and removes what it has staged."""
        self.changes, self.targets, resources = mark.changes, mark.targets, self._resources
        self._resources = mark.resources
        resources.close()

    def keep(self, mark: _Mark) -> None:
        """Makes what a write has staged a part of the transaction."""
        mark.resources.push(self._resources)
        self._resources = mark.resources

    def next_token(self) -> str:
        """A unique name for the next staged frame."""
        self._staged += 1
        return f"{self.token}{self._staged}"

    def commit(self) -> int:
        """Commits the collected changes, and moves the session to the new snapshot."""
        with self.session.writer_lock:
            try:
                snapshot_id = self._commit() if self.changes or self.events else self.snapshot_id
            finally:
                # The phase decides, not the error: a signal can arrive at any time.
                if self.attempt.is_unknown:
                    self._resources.pop_all()
                self.discard()
            return self.session.advance(snapshot_id, own=self.attempt.made, token=self.token)

    def outcome(self) -> tuple[int, int] | None:
        """The snapshot of the commit and the number of its new rows; None unless it is certainly in the catalog."""
        if self.attempt.phase is not Phase.COMMITTED:
            return None
        rows = sum(change.row_count for change in self._new_changes())
        return self.attempt.made or self.session.snapshot_id, rows + self._inserted

    def _new_changes(self) -> list[Change]:
        return [change for change in self.changes if change.key not in self._repeated]

    def _commit(self) -> int:
        """Returns the new snapshot; if all changes were already committed, the snapshot of that commit."""
        began, tables = time.monotonic(), ", ".join(sorted({change.table for change in self.changes}))
        _log.info("committing %d changes to %s (write %s)", len(self.changes), tables, self.token)
        snapshot_id = self._commit_under_locks()
        _log.info("committed %s as snapshot %d in %.1f s", self.token, snapshot_id, time.monotonic() - began)
        return snapshot_id

    def discard(self) -> None:
        """Removes the staged rows, except for files of committed changes."""
        self._resources.close()

    def _locks(self) -> AbstractContextManager[Held | None]:
        session = self.session
        alone = session.reader.reads_separately and session.guard.has_locks
        wanted = tables_to_lock(self.changes, registers_alone=alone) | ({journal.TABLE} if self.events else set[str]())
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
            self.attempt = self.session.new_commit(self.token, staged=is_staged_commit(self.changes))
            if self.held is not None:
                self.held.renew()
            try:
                return self.attempt.run(self._work)
            except RowsMoved as moved:
                _log.info("commit %s looks for the rows to delete again", self.token)
                last = moved.conflict
                self._search_again()
            except LakeconfError as error:
                if not self.attempt.lost_race(error, conflicts=True):
                    raise
                _log.warning("another writer overtook commit %s; trying again", self.token)
                last = error
            self._clear_positions()
        raise CommitError(f"the commit lost every race with other writers: {last}", hint="try again later")

    def _search_again(self) -> None:
        """Lets the engine find the rows of outcomes in the latest files, unless their files are the same."""
        for number, change in enumerate(self.changes):
            if isinstance(change.body, Outcome):
                self.changes[number] = replace(change, body=change.body.searched(self.session.reader))

    def _clear_positions(self) -> None:
        """Removes the files of positions of an attempt that failed: the next one may not need all of them."""
        for change in self.changes:
            if isinstance(change.body, Outcome):
                folder = change.body.delete_folder
                self.session.engine.release(Staged("", folder=folder, announced=False, keeps_files=False))

    def _is_checked(self) -> bool:
        """True if the commit depends on checks, which DuckLake's own retries would skip."""
        return bool(self.audits or self.events) or any(change.depends_on or change.key for change in self.changes)

    def _work(self, begun: int) -> int | None:
        """Runs everything inside the transaction; see `Commit.run`."""
        writer, alias = self.session.writer, self.session.alias
        done = journal.find(writer, alias, [change.key for change in self.changes if change.key])
        self._repeated = set(done)
        self._inserted = 0
        changes = self._new_changes()
        if done and not changes:
            return max(done.values())
        dependencies = [change.depends_on for change in changes if change.depends_on]
        with self.session.reader.one_state() as reader:
            stored = StoredQueries.load(reader, begun, names=False)
            stored.check_expressions()
            for change in changes:
                if isinstance(change.body, Statements) and change.body.checked is not None:
                    stored.check_statement(change.body.checked)
            journal.check_events(writer, alias, self.events)
            check_conflicts(reader, dependencies, self.base, begun)
            check_columns(reader, [change.written_for for change in changes if change.written_for], begun)
            deleted_from = [change.depends_on for change in changes if change.deletes]
            check_delete_files(reader, deleted_from)
            check_row_ids_in_catalog(reader, deleted_from, begun)
        if isinstance(catalog := self.attempt.catalog, StagedCatalog):
            info = (self.author, self.message, self._commit_info(changes))
            bodies = [*(change.body for change in changes), *self._with_keys(changes, begun)]
            is_empty = not catalog.stage(bodies, begun, info)
        else:
            is_empty = False
            self._carry_out(changes, begun)
        if self.held is not None:
            self.held.check()
        is_planned = any(isinstance(change.body, Outcome | Replacement) for change in changes)
        if is_planned or (dependencies and self.session.reader.reads_separately):
            check_not_overtaken(self.session.reader, begun)
        if is_empty:
            return begun
        written = set[str]() if isinstance(catalog, StagedCatalog) else written_by_ducklake(changes)
        if not isinstance(catalog, StagedCatalog) and (self.events or any(change.key for change in changes)):
            written.add(journal.TABLE)
        catalog.keep_written(written, [one.table for one in changes if one.creates], begun)
        return None

    def _with_keys(self, changes: list[Change], begun: int) -> list[Files]:
        """The files with the keys of changes, for a staged commit."""
        self._key_files = []
        for key in {change.key for change in changes if change.key}:
            info = table_of_keys(self.session.reader, begun)
            if info is None or info.partition_fields:
                raise CommitConflictError(f"another writer has changed {journal.TABLE}", hint="try again")
            folder = staging_folder(info, self.next_token())
            announce(self.session.writer, folder, self.session.reader.lake_id)
            path = f"{folder}key.parquet"
            self._key_files.append(Files(info, self.own(Staged("", files=(path,), folder=folder, row_count=0))))
            write_key(self.session.writer, info, journal.key_row(self.token, key), path)
        return self._key_files

    def _carry_out(self, changes: list[Change], begun: int) -> None:
        writer, alias = self.session.writer, self.session.alias
        written = set[str]()
        for change in changes:
            body = change.body
            compared: list[AddedRows | MovedRows | RequiredValues] = []
            compared += [AddedRows(writer, alias, change.table)] if change.deletes and change.table in written else []
            written |= {change.table} if change.adds_rows else set[str]()
            if isinstance(body, Statements):
                compared += [MovedRows(writer, alias, change.table, body.kept)] if body.kept else []
                compared += [RequiredValues(writer, alias, change.table, body.required)] if body.required else []
                self._inserted += run_counted(writer, change.table, body.sql, body.counts, inserts=body.inserts)
            elif isinstance(body, Outcome):
                run_counted(writer, change.table, *body.statements(self.session.reader, writer, begun))
            elif not isinstance(body, Replacement):
                for sql in body.statements(alias) if isinstance(body, Files) else body.sql:
                    writer.execute(sql)
            for rows in compared:
                rows.check()
        if self.audits:
            from lakeconf.commit import audits  # slow to import

            for audit in self.audits:
                audits.run(audit, writer, self.session.reader)
        for statement in journal.statements(
            alias, self.token, [change.key for change in changes if change.key], self.events
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
            "rows": sum(change.row_count for change in changes) + self._inserted,
            "seconds": round(time.monotonic() - self._started, 3),
        }
        decisions = {change.table: change.decision for change in changes if change.decision is not None}
        info |= {"written_by": decisions} if decisions and self.session.engine.name != DUCKDB else {}
        return commit_json(info, self.extra)

    def _release(self, staged: Staged) -> None:
        """Removes staged rows, except for files of committed changes."""
        keeps_files = self.attempt.phase is Phase.COMMITTED and staged.keeps_files
        if keeps_files and staged.files:
            known = {path for change in self._new_changes() for path in change.files}
            keeps_files = known.union(*(one.staged.files for one in self._key_files)).issuperset(staged.files)
        elif keeps_files:
            keeps_files = isinstance(self.attempt.catalog, StagedCatalog)  # statements need no files of positions
        try:
            self.session.engine.release(replace(staged, keeps_files=keeps_files))
        except Exception as error:  # noqa: BLE001 - the commit's outcome does not change
            _log.warning("cannot remove files of write %s: %s", self.token, type(error).__name__)
