"""Restores the rows and columns that a table had at an older snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from lakeconf.catalog.changes import changes_since
from lakeconf.catalog.inherited import inherit_sql, source_of
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import chosen, latest
from lakeconf.catalog.table_options import table_options
from lakeconf.catalog.tables import TableInfo, full_name, joined_name, load_table, refuse_internal, split_name
from lakeconf.commit import journal
from lakeconf.commit.actions import Action, DefineTable
from lakeconf.commit.journal import names_of
from lakeconf.commit.scope import Scope
from lakeconf.errors import (
    CommitConflictError,
    LakeconfError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.lake.adoption.known_files import AdoptedFiles
from lakeconf.lake.branches.first_write import write
from lakeconf.lake.run_journal import RESTORED, ModelRun
from lakeconf.lake.table import Table
from lakeconf.write.context import WriteContext
from lakeconf.write.declared_table import create_declared, declared_at, relation_at
from lakeconf.write.operations.define import DropTable


class RestoreAction(StrEnum):
    """What a restore does with the table."""

    NOTHING = "nothing"
    """The table has not changed since."""
    REPLACE = "replace rows"
    """The table has the same columns: its rows are replaced."""
    CREATE = "create again"
    """The table is gone or has other columns: it is created with its former columns."""


@dataclass(frozen=True)
class RestorePlan:
    """What `Lake.restore` would do.

    Attributes:
        table: The table.
        version: The snapshot that it is restored to.
        action: What happens to the table.
        rows_now: Its rows now; None if there is no such table now.
        rows_then: The rows that it will have.
        columns: Changes of its columns: `+ name TYPE` and `- name TYPE`.
        notes: Properties that are not restored, and consequences.
    """

    table: str
    version: int
    action: RestoreAction
    rows_now: int | None
    rows_then: int
    columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_needed(self) -> bool:
        """False if the table already is as it was then."""
        return self.action is not RestoreAction.NOTHING


class _State(NamedTuple):
    """A table at a snapshot of this lake; or of the lake that it is a branch of, if it had not written the table."""

    reader: CatalogReader
    table: TableInfo
    version: int

    @property
    def relation(self) -> str:
        """What follows FROM to read it."""
        return relation_at(self.reader, self.table, self.version)


@dataclass(frozen=True)
class _InheritTable:
    """Makes a table that of the other lake again, as before the first write of a branch."""

    state: _State

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Creates the view that stands for it."""
        name = split_name(context.table)
        statement = inherit_sql(context.session.alias, name, self.state.table, self.state.version)
        return [DefineTable(table=full_name(context.table), sql=(statement,))]


class Restores:
    """Restores tables; see `Lake.restore`."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._session = scope.session

    def plan(self, name: str, version: int | None, timestamp: datetime | str | None) -> RestorePlan:
        """What a restore would do; see `Lake.plan_restore`."""
        target = self._chosen(version, timestamp)
        return self._planned(name, self._then(name, target), target)

    def restore(self, name: str, version: int | None, timestamp: datetime | str | None) -> int:
        """Restores a table; see `Lake.restore`."""
        if self._scope.transaction is not None:
            raise LakeconfError(
                "a transaction is open, and a restore cannot be a part of it", hint="call it after the `with` block"
            )
        target = self._chosen(version, timestamp)
        then = self._then(name, target)
        plan = self._planned(name, then, target)
        if plan.action is RestoreAction.NOTHING:
            self._check_unchanged(name, then)
            return self._scope.snapshot_id
        message = f"restore {plan.table} to version {target}"
        with self._scope.transacting(
            message, None, {"restored_version": target, "restored_table": plan.table}
        ) as scope:
            exists = plan.rows_now is not None
            if self._is_inherited(then):
                if exists:
                    write(scope, name, DropTable())
                write(scope, name, _InheritTable(then))
                self._record(scope, plan, None)
                return self._scope.snapshot_id
            rows = Table(Scope(self._session, at=target), then.table.full_name).scan()
            if plan.action is RestoreAction.REPLACE:
                Table(scope, name).overwrite(rows)
            else:
                if exists:
                    write(scope, name, DropTable())
                create_declared(scope, name, declared_at(then.reader, then.table, target))
                Table(scope, name).append(rows)
            self._record(scope, plan, then.table)
        return self._scope.snapshot_id

    def _is_inherited(self, state: _State) -> bool:
        return state.reader is not self._session.reader

    def _record(self, scope: Scope, plan: RestorePlan, then: TableInfo | None) -> None:
        """Records the restore in the open transaction for the models of the table, and for what it has adopted."""
        connection, alias = self._session.reader.connection, self._session.alias
        assert scope.transaction is not None  # noqa: S101 - the caller opened it
        for model in journal.models_of(connection, alias, journal.recorded_name(*split_name(plan.table))):
            earlier = len(journal.events_of(connection, alias, model))
            run = ModelRun(model, RESTORED, scope.transaction.header.token, earlier=earlier, restored=plan.version)
            scope.transaction.contents.events.append(run.event())
        if then is not None:
            adopted, now = AdoptedFiles(self._session.reader), self._now(plan.table)
            adopted.record(scope, adopted, then, plan.version, now and now.table, plan.table)

    def _chosen(self, version: int | None, timestamp: datetime | str | None) -> int:
        target, own = chosen(self._session.reader, version, timestamp).snapshot_id, self._scope.snapshot_id
        if target > own:
            raise CommitConflictError(
                f"version {target} is newer than snapshot {own}, which the lake reads: others have written since",
                hint="call lake.refresh() first",
            )
        return target

    def _check_unchanged(self, name: str, state: _State) -> None:
        """Refuses to do nothing for a table that another writer has changed since the lake's snapshot."""
        own, newest = self._scope.snapshot_id, latest(self._session.reader).snapshot_id
        if self._is_inherited(state):
            has_changed = source_of(self._session.reader, name, newest) is None
        else:
            has_changed = self._changed(state.table, own, newest)
        if has_changed:
            raise CommitConflictError(
                f"another writer has changed {full_name(name)} since snapshot {own}, which the lake reads",
                hint="call lake.refresh() and restore it again",
            )

    def _planned(self, name: str, then: _State, version: int) -> RestorePlan:
        now = self._now(name)
        table = full_name(name)
        rows_now = None if now is None else self._count(now)
        rows_then = self._count(then)
        is_same = now is not None and (now.reader, now.table.table_id) == (then.reader, then.table.table_id)
        if now is not None and is_same and _shapes(now.table) == _shapes(then.table):
            is_changed = not self._is_inherited(now) and self._changed(now.table, version, now.version)
            action = RestoreAction.REPLACE if is_changed else RestoreAction.NOTHING
            return RestorePlan(table, version, action, rows_now, rows_then)
        notes = ["the table starts without idempotency keys"]
        if not self._is_inherited(then):
            computed = table_options(then.reader, then.table, version).computed
            notes += [f"not restored, because it is an expression: {what}" for what in computed]
        columns = () if now is None else self._column_changes(now, then)
        return RestorePlan(table, version, RestoreAction.CREATE, rows_now, rows_then, columns, tuple(notes))

    def _state(self, name: str, version: int) -> _State:
        session, table, snapshot_id = Scope(self._session, at=version).source(name)
        return _State(session.reader, load_table(session.reader, table, snapshot_id), snapshot_id)

    def _now(self, name: str) -> _State | None:
        refuse_internal(name)
        try:
            return self._state(name, self._scope.snapshot_id)
        except TableNotFoundError:
            return None
        except UnsupportedError as error:
            raise SchemaError(f"{full_name(name)} is now a view", hint="drop it first: lake.drop_view(…)") from error

    def _then(self, name: str, version: int) -> _State:
        """The table at an older snapshot, if necessary under the name that it had then."""
        try:
            return self._state(name, version)
        except TableNotFoundError:
            now = self._now(name)
            if now is None or self._is_inherited(now):
                raise
            for period in names_of(now.reader, now.table.table_id)[1]:
                if period.is_at(version):
                    schema = now.table.schema_name  # tables do not move to other schemas
                    return self._state(joined_name(schema, period.table.removeprefix(f"{schema}.")), version)
            raise

    def _changed(self, table: TableInfo, since: int, until: int) -> bool:
        try:
            return bool(changes_since(self._session.reader, table.table_id, since, until))
        except SnapshotNotFoundError:  # expired in between, so its changes are unknown
            return True

    def _count(self, state: _State) -> int:
        ((count,),) = self._session.reader.connection.rows(f"SELECT count(*) FROM {state.relation}")
        return int(count)

    def _column_changes(self, now: _State, then: _State) -> tuple[str, ...]:
        described = []
        for state in (now, then):
            rows = self._session.reader.connection.rows(f"DESCRIBE FROM {state.relation}")
            described.append([f"{name} {kind}{' NOT NULL' * (null != 'YES')}" for name, kind, null, *_ in rows])
        before, after = described
        return (
            *(f"+ {column}" for column in after if column not in before),
            *(f"- {column}" for column in before if column not in after),
        )


def _shapes(table: TableInfo) -> tuple[object, ...]:
    return tuple(column.shape for column in table.columns)
