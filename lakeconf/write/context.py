"""Writes: an operation plans the actions of a transaction from its context, and `perform` commits them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from lakeconf.catalog.admission import check_folder
from lakeconf.catalog.tables import NO_ID, TableInfo, full_name, load_table, refuse_internal
from lakeconf.commit import journal
from lakeconf.commit.actions import Action, Target
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.journal import CommitKey, recorded_name
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.commit.staging import StagingArea
from lakeconf.commit.transaction import Transaction
from lakeconf.ducklake import check_commit_text
from lakeconf.engines.engine import DUCKDB, Staged, StagingRequest
from lakeconf.engines.frames import without_types
from lakeconf.engines.python_rows import arrow_rows, arrow_types, is_rows
from lakeconf.engines.schema_check import check_fit
from lakeconf.errors import LakeconfError, TableNotFoundError
from lakeconf.logs import event_logger
from lakeconf.sql import folded, qualified
from lakeconf.write.capabilities import EngineName
from lakeconf.write.strategy import Strategist

_log = event_logger("stage")


class Operation(Protocol):
    """A write to a table."""

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Stages what the write needs, and returns its actions."""
        ...


class StartsFromLatest:
    """Marks an operation that needs rows of its table: the latest, unless it may depend on an earlier read of them."""


def perform(
    scope: Scope,
    table: str,
    operation: Operation,
    *,
    message: str | None = None,
    idempotency_key: str | None = None,
    engine: EngineName | None = None,
) -> int:
    """Carries out an operation in the open transaction, or commits it, unless its key was committed before."""
    check_engine(engine)
    key = None if idempotency_key is None else commit_key(scope, table, idempotency_key)
    if key is not None:
        committed = journal.find(scope.session.writer, scope.session.alias, [key]).get(key)
        if committed is not None:
            if not scope.is_pinned:
                scope.session.advance(committed)  # reads after this call see the earlier write
            return committed
    with scope.joined(message, reads=table if isinstance(operation, StartsFromLatest) else None) as transaction:
        transaction.contents.check_new_key(key)
        context = WriteContext(transaction.session, transaction, table, engine, key)
        # DuckDB reads the catalog whenever narwhals builds a relation.
        with transaction.session.reader.connection.errors():
            actions = operation.plan(context)
        transaction.contents.extend(actions, key)
    return scope.snapshot_id


def check_engine(engine: str | None) -> None:
    """Rejects an engine that does not exist."""
    if engine not in (None, DUCKDB, "spark"):
        raise LakeconfError(f"engine of a write is {engine!r}", hint='write engine="duckdb" or engine="spark"')


@dataclass(frozen=True)
class WriteContext:
    """What a write is based on."""

    session: Session
    transaction: Transaction  # the writes before this one; `plan` changes nothing in it
    table: str  # the name of the table, as the caller has written it
    engine: EngineName | None = None  # the engine that the caller wants
    key: CommitKey | None = None
    _stored: dict[str, Target] = field(default_factory=dict)  # tables of the catalog that were looked up

    @property
    def snapshot_id(self) -> int:
        """The snapshot that the write reads."""
        return self.transaction.snapshot_of(table_key(self.table))

    @property
    def staging(self) -> StagingArea:
        """Owns what the write stages, until the transaction ends."""
        return self.transaction.staging

    def target(self) -> Target:
        """The table to change, as the writes before leave it."""
        refuse_internal(self.table)
        return self.read_table(self.table)

    def read_table(self, name: str) -> Target:
        """A table as the writes before leave it."""
        key = table_key(name)
        pending = self.transaction.contents.targets.get(key)
        if pending is not None:
            return _usable(pending, name)
        if key not in self._stored:
            stored = _stored_table(self.session, name, self.transaction.snapshot_of(key))
            check_folder(self.session.reader.data_path, stored.info.path)
            self._stored[key] = stored
        return self._stored[key]

    def strategist(self, target: Target) -> Strategist:
        """Chooses the strategy of the write."""
        is_part = self.transaction.explicit or target.stored is None or not self.transaction.contents.is_empty
        return Strategist(
            self.session, target.info, self.snapshot_id, self.engine, is_part=is_part, has_key=self.key is not None
        )

    def adopt(self, frame: object, target: Target) -> Any:
        """Converts a frame to one of the engine; dictionaries get the types of the table where these lose nothing."""
        # Without a demand, rows of DuckDB stay in DuckDB.
        engine = self.session.engine
        adopted = engine.joinable if self.engine == "spark" else engine.adopt
        if not is_rows(frame):
            return adopted(without_types(frame, target.types))
        return adopted(arrow_rows(frame, arrow_types(self.session.reader.connection, target.types)))

    def stage(self, frame: Any, target: Target) -> Staged:
        """Stages an adopted frame for a table, after checking it against the table's columns."""
        engine, table, token = self.session.engine, target.info.full_name, self.staging.next_token()
        check_fit(table, engine.schema(frame), target.types)
        _log.info("staging rows for %s (write %s)", table, token)
        staged = self.staging.own(engine.stage(frame, StagingRequest(target.info, target.types, token)))
        _log.info("staged %d rows in %d files for %s", staged.row_count or 0, len(staged.files), table)
        return replace(staged, files=(), rest=None) if self.engine == DUCKDB else staged

    def changes_rows_of(self, info: TableInfo) -> bool:
        """True if a write before has changed rows of a table."""
        return self.transaction.contents.changes_rows_of(info.full_name)

    def dependency(self, info: TableInfo, *, on_rows: bool = True) -> ReadDependency | None:
        """The dependency of a write that has read a table; None for a table that the transaction itself creates.

        The calling thread decides what was read: another thread may commit the transaction.
        """
        if info.table_id == NO_ID:
            return None
        base = self.transaction.base
        names = base.known_as(self.session.reader, info)
        by_name = on_rows and base.has_read(names)
        since = base.since(names, self.snapshot_id)
        return ReadDependency(info.table_id, info.full_name, since, on_rows, base.unseen(names), by_name)

    def dependency_at_commit(self, info: TableInfo) -> ReadDependency | None:
        """The dependency of a write whose rows DuckDB finds at the commit.

        Rows that other writers added since do not matter, unless the caller has read the table or opened a transaction:
        then the write may be based on those reads.
        """
        dependency = self.dependency(info)
        return dependency and replace(dependency, on_rows=self.transaction.explicit or dependency.by_name)

    def quoted(self, info: TableInfo) -> str:
        """The quoted full name of a table, including the lake."""
        return qualified(self.session.alias, info.schema_name, info.name)


def current_table(scope: Scope, name: str) -> Target:
    """A table at the snapshot that reads see; in an open transaction, as it will be after the transaction."""
    pending = scope.transaction.contents.targets.get(table_key(name)) if scope.transaction else None
    return _stored_table(scope.session, name, scope.snapshot_of(name)) if pending is None else _usable(pending, name)


def table_key(name: str) -> str:
    """The full name of a table in lower case, by which a transaction finds its target."""
    return folded(full_name(name))


def quoted_name(info: TableInfo) -> str:
    """The quoted name of a table without the lake, as `load_table` accepts it."""
    return qualified(info.schema_name, info.name)


def commit_key(scope: Scope, name: str, key: str) -> CommitKey:
    """The idempotency key of a write to a table."""
    if not isinstance(key, str):
        raise LakeconfError(f"the idempotency key {key!r} is not a string", hint="write it as a string")
    check_commit_text(key, "the idempotency key")
    reader = scope.session.reader
    pending = scope.transaction.contents.targets.get(table_key(name)) if scope.transaction else None
    info = pending.info if pending else load_table(reader, name, scope.snapshot_of(name))
    uuid, names = journal.names_of(reader, info.table_id) if info.table_id != NO_ID else (None, ())
    return CommitKey(recorded_name(info.schema_name, info.name), key, uuid, names)


def committed_keys(scope: Scope, name: str, prefix: str) -> list[str]:
    """The committed keys of a table that start with a prefix, sorted."""
    return journal.keys_of(scope.session.writer, scope.session.alias, commit_key(scope, name, prefix))


def _usable(target: Target, name: str) -> Target:
    """Rejects a table that the transaction cannot use any more."""
    if target.ended_by is not None:
        raise TableNotFoundError(
            f"{full_name(name)} cannot be used: the transaction has {target.ended_by}",
            hint="write to a table before you rename it, or after the transaction",
        )
    return target


def _stored_table(session: Session, name: str, snapshot_id: int) -> Target:
    """A table of the catalog, with the types of its columns."""
    info = load_table(session.reader, name, snapshot_id)
    types = session.reader.definitions.types_of(info.columns)
    if types is None:
        table = qualified(session.alias, info.schema_name, info.name)
        rows = session.reader.connection.rows(f"DESCRIBE SELECT * FROM {table} AT (VERSION => {snapshot_id})")
        types = {column: type_name for column, type_name, *_ in rows}
        session.reader.definitions.remember_types(info.columns, types)
    return Target(info, types, stored=info)
