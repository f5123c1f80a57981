"""The commit of a transaction: its locks, its checks inside the transaction of the catalog, and what it leaves."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakeconf import __version__
from lakeconf.catalog.health import check_delete_files, check_overlaps
from lakeconf.catalog.queries.stored_queries import StoredQueries
from lakeconf.commit import journal
from lakeconf.commit.actions import Action, Target
from lakeconf.commit.conflicts import Base, check_columns, check_conflicts, check_not_overtaken, check_views
from lakeconf.commit.driver import CommitProtocol, Phase
from lakeconf.commit.journal import CommitKey, Event
from lakeconf.commit.moved_values import check_row_ids_in_catalog
from lakeconf.commit.row_delta import RowsMovedError
from lakeconf.commit.session import Session, default_author
from lakeconf.commit.sql_commit import without_retries
from lakeconf.commit.staging import CommittedFiles, StagingArea
from lakeconf.ducklake import commit_json
from lakeconf.engines.engine import DUCKDB
from lakeconf.errors import CommitError, CommitUnknownError, LakeconfError
from lakeconf.guard.locks import Held
from lakeconf.logs import event_logger

if TYPE_CHECKING:
    from lakeconf.commit.audits import Audit

_log = event_logger("commit")


@dataclass(frozen=True)
class CommitHeader:
    """What a commit says about itself."""

    message: str | None = None
    author: str = field(default_factory=default_author)
    extra: Mapping[str, object] = field(default_factory=dict)  # additional keys for the commit info
    # The id of the commit, which identifies its snapshot.
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    started: float = field(default_factory=time.monotonic)


@dataclass
class CommitContents:
    """What a commit contains."""

    actions: list[Action] = field(default_factory=list)
    audits: list[Audit] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)  # the events of models that the commit records
    # Tables that the actions create or change, as they leave them, by full name in lower case.
    targets: dict[str, Target] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing yet."""
        return not (self.actions or self.targets or self.audits or self.events)

    @property
    def only_changes_rows(self) -> bool:
        """True if no action changes a definition."""
        return all(action.changes_rows for action in self.actions)

    @property
    def changed_tables(self) -> set[str]:
        """The full names of the tables of which actions change rows."""
        return {action.table for action in self.actions if action.adds_rows or action.deletes}

    @property
    def is_checked(self) -> bool:
        """True if the commit depends on checks, which DuckLake's own retries would skip."""
        return bool(self.audits or self.events) or any(
            action.depends_on or action.drops_view or action.key for action in self.actions
        )

    def extend(self, actions: Sequence[Action], key: CommitKey | None = None) -> None:
        """Adds the actions of a write."""
        self.actions += actions if key is None else [replace(action, key=key) for action in actions]
        for action in actions:
            self.targets.update(action.targets)

    def check_new_key(self, key: CommitKey | None) -> None:
        """Rejects a key that another write has."""
        if key is not None and any(action.key == key for action in self.actions):
            raise CommitError(
                f"the transaction already contains a write to {key.table} with the idempotency key {key.key!r}",
                hint="give each write of a transaction its own key",
            )

    def changes_rows_of(self, table: str) -> bool:
        """True if an action changes rows of a table, by its full name."""
        return any(action.table == table and action.changes_rows for action in self.actions)


class TransactionCommit:
    """The commit of a transaction, which `driver.drive` attempts."""

    def __init__(
        self,
        session: Session,
        base: Base,
        header: CommitHeader,
        contents: CommitContents,
        staging: StagingArea,
        held: Held | None,
    ) -> None:
        self._session, self._base, self._header, self._contents = session, base, header, contents
        self._staging, self._held = staging, held
        self._repeated: set[CommitKey] = set()  # keys that were committed before: their actions are skipped
        self._inserted = 0
        self._attempt = session.new_attempt(header.token)

    @property
    def committed_snapshot(self) -> int | None:
        """The snapshot that the commit created; None if there is none, or nobody knows."""
        return self._attempt.snapshot_id

    @property
    def unknown(self) -> CommitUnknownError | None:
        """The error that says what to do if nobody knows whether the commit succeeded; None otherwise."""
        return self._attempt.unknown()

    @property
    def row_count(self) -> int | None:
        """The number of new rows; None unless they are certainly in the catalog."""
        if self._attempt.phase is not Phase.COMMITTED:
            return None
        return sum(action.row_count for action in self._new_actions()) + self._inserted

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Holds the locks of tables for all attempts."""
        session = self._session
        tables = {journal.TABLE} if self._contents.events else set[str]()
        for action in self._contents.actions:
            tables |= action.locks()
        locks: AbstractContextManager[object] = session.guard(tables) if tables else contextlib.nullcontext()
        locks.__enter__()
        try:
            with without_retries(session.writer) if self._contents.is_checked else contextlib.nullcontext():
                yield
        finally:
            # A lost lock does not affect the commit, whose outcome is already known.
            try:
                locks.__exit__(None, None, None)
            except LakeconfError as error:
                _log.warning("cannot release a lock of commit %s: %s", self._header.token, type(error).__name__)

    def attempt(self, number: int) -> int:
        """Returns the new snapshot; if all actions were already committed, the snapshot of that commit."""
        del number
        is_staged = any(action.needs_staged_commit for action in self._contents.actions)
        self._attempt = self._session.new_attempt(self._header.token, staged=is_staged)
        if self._held is not None:
            self._held.renew()
        return self._attempt.run(self._carry_out)

    def lost_race(self, error: LakeconfError) -> bool:
        actions, token = self._contents.actions, self._header.token
        if isinstance(error, RowsMovedError):
            _log.info("commit %s looks for the rows to delete again", token)
            actions[:] = [action.searched_again(self._session.reader) for action in actions]
        elif self._attempt.lost_race(error, conflicts=True):
            _log.warning("another writer overtook commit %s; trying again", token)
        else:
            return False
        for action in actions:
            action.clean_up(self._session.engine)
        return True

    def release_staged(self) -> None:
        """Removes what was staged, except for files of the lake; everything stays if nobody knows what these are."""
        # The phase decides, not the error: a signal can arrive at any time.
        protocol, phase = self._attempt.protocol, self._attempt.phase
        if self._attempt.is_unknown:
            self._staging.abandon()
        elif phase is Phase.COMMITTED:
            paths = frozenset(path for action in self._new_actions() for path in action.files)
            self._staging.release(CommittedFiles(paths.union(protocol.key_files), protocol.keeps_positions))
        else:
            self._staging.release(CommittedFiles())

    def _new_actions(self) -> list[Action]:
        return [action for action in self._contents.actions if action.key not in self._repeated]

    def _carry_out(self, begun: int) -> int | None:
        """Checks and carries out everything inside the transaction; see `Attempt.run`."""
        session, protocol, events = self._session, self._attempt.protocol, self._contents.events
        keys = [action.key for action in self._contents.actions if action.key]
        committed = journal.find(session.writer, session.alias, keys) if keys else {}
        self._repeated, self._inserted = set(committed), 0
        actions = self._new_actions()
        if committed and not actions:
            return max(committed.values())
        keys = [key for key in dict.fromkeys(keys) if key not in committed]
        self._check(actions, begun)
        self._inserted = protocol.carry_out(actions, begun)
        self._run_audits()
        protocol.record(keys, events, self._staging)
        info = self._commit_info(actions, protocol)
        has_changes = protocol.describe(self._header.author, self._header.message, info)
        if self._held is not None:
            self._held.check()
        if any(action.is_planned for action in actions):
            check_not_overtaken(session.reader, begun)
        if not has_changes:
            return begun
        created = [action.table for action in actions if action.creates]
        written = protocol.written_tables(actions, records=bool(keys or events))
        protocol.keep_written(written, created, begun)
        return None

    def _check(self, actions: Sequence[Action], begun: int) -> None:
        """Checks that nothing has changed on which the actions depend."""
        session = self._session
        dependencies = [action.depends_on for action in actions if action.depends_on]
        written_for = [action.written_for for action in actions if action.written_for]
        deleted_from = {
            action.depends_on.table_id: action.depends_on.table
            for action in actions
            if action.deletes and action.depends_on
        }
        with session.reader.one_state() as reader:
            stored = StoredQueries.load(reader, begun, names=False)
            stored.check_expressions()
            for action in actions:
                if action.user_sql is not None:
                    stored.check_statement(action.user_sql)
            if self._contents.events:
                journal.check_events(session.writer, session.alias, self._contents.events)
            if dependencies:
                check_conflicts(reader, dependencies, self._base, begun)
            if written_for:
                check_columns(reader, written_for, begun)
            check_views(reader, (action.drops_view for action in actions if action.drops_view), begun)
            if deleted_from:
                check_delete_files(reader, deleted_from)
                check_overlaps(reader, deleted_from, begun)
                check_row_ids_in_catalog(reader, deleted_from, begun)

    def _run_audits(self) -> None:
        if self._contents.audits:
            from lakeconf.commit import audits  # slow to import

            for audit in self._contents.audits:
                audits.run(audit, self._session.writer, self._session.reader, self._contents.changed_tables)

    def _commit_info(self, actions: Sequence[Action], protocol: CommitProtocol) -> str:
        engine = self._session.engine
        info: dict[str, object] = {
            "lakeconf": __version__,
            "token": self._header.token,
            "engine": engine.name,
            **engine.details(),
            "committer": protocol.name,
            "rows": sum(action.row_count for action in actions) + self._inserted,
            "seconds": round(time.monotonic() - self._header.started, 3),
        }
        strategies = {action.table: action.strategy for action in actions if action.strategy is not None}
        info |= {"written_by": strategies} if strategies and engine.name != DUCKDB else {}
        return commit_json(info, self._header.extra)
