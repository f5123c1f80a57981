"""Copies tables from one lake to another: a plan with the differences, then one snapshot."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from lakeconf.catalog.inherited import branch_record
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import TableInfo, load_table, refuse_internal, split_name, tables
from lakeconf.ducklake import INTERNAL_SCHEMA
from lakeconf.engines.frames import lazy_rows
from lakeconf.errors import (
    CatalogMissingError,
    CommitConflictError,
    LakeconfError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.guard.guard import reader_of
from lakeconf.guard.pins import Pin, Pins
from lakeconf.inspection.diff import columns_of, difference
from lakeconf.lake.adoption.known_files import AdoptedFiles
from lakeconf.lake.lake import Lake
from lakeconf.lake.opening import empty_store
from lakeconf.sql import qualified
from lakeconf.store import Store, attach_to, for_reading
from lakeconf.wording import counted
from lakeconf.write.declared_table import Declared, create_declared, declared_at, relation_at

_SOURCE = "lakeconf_source"


@dataclass(frozen=True)
class CopyStep:
    """What a copy does with one table."""

    table: str
    # What happens to it in the target; `record` only records which files it has adopted.
    action: Literal["create", "replace", "record", "skip"]
    added: int = 0  # rows that only the source has
    removed: int = 0  # rows that only the target has, which the copy deletes
    # Differences of its columns, partition keys, sort order and comments. The target's table is then created again,
    # without its history.
    changes: tuple[str, ...] = ()
    source: str = field(default="", repr=False)
    then: TableInfo | None = field(default=None, repr=False)
    now: TableInfo | None = field(default=None, repr=False)
    declared: Declared | None = field(default=None, repr=False)

    @property
    def reason(self) -> str:
        """The differences in words."""
        if self.action in ("record", "skip"):
            return "equal in both" + "; its adopted files are recorded" * (self.action == "record")
        rows = ((self.added, "added"), (self.removed, "removed"))
        counts = ", ".join(f"{counted(count, 'row')} {done}" for count, done in rows if count)
        return "; ".join(filter(None, (counts, *self.changes))) or "no rows"


def opened_target(stack: contextlib.ExitStack, target: Store) -> tuple[Lake, bool]:
    """Opens the lake to copy to; for a store without a lake, an empty one elsewhere and True."""
    try:
        return stack.enter_context(for_reading(target, read_only=False).open()), False
    except CatalogMissingError:
        empty = stack.enter_context(empty_store(target.name, target.alias, target.secrets))
        return stack.enter_context(empty.open()), True


class TableCopies:
    """Copies of tables into a lake on DuckDB, whose store must have the secrets of the source as `hidden`."""

    def __init__(self, lake: Lake, source: Store, version: int | None = None) -> None:
        self._lake, self._name = lake, source.name
        self._own = lake._session.reader  # noqa: SLF001 - not for users
        # Of a branch, only the tables that it has written are copied.
        store = for_reading(source.replace(branch_of=None))
        if store.alias == self._own.alias:
            store = store.replace(alias=_SOURCE)
        attach_to(store, self._own.connection, uses=False)
        self._own.connection.prefer_builtins(self._own.alias)
        self._reader: CatalogReader = reader_of(store.metadata_backend, store.names, self._own.connection)
        self._version = latest(self._reader).snapshot_id if version is None else version
        if self._own.lake_id == self._reader.lake_id:
            raise LakeconfError(
                f"{self._name} and the target are the same lake", hint="name two stores with different catalogs"
            )

    def plan(self, names: Sequence[str] = ()) -> list[CopyStep]:
        """What a copy would do; nothing is changed."""
        for name in names:
            refuse_internal(name)
        chosen = [load_table(self._reader, name, self._version) for name in names]
        if not chosen:
            existing = tables(self._reader, self._version)
            chosen = sorted(
                (table for table in existing if table.schema_name.lower() != INTERNAL_SCHEMA),
                key=lambda table: table.full_name,
            )
        source, own, pin = AdoptedFiles(self._reader), AdoptedFiles(self._own), self._pin()
        if pin is not None:
            for table in chosen:
                self._check_unchanged(table.full_name, pin)
        return [self._step(table, source, own) for table in chosen]

    def _pin(self) -> int | None:
        """The snapshot of the target that the source was made of, if it is a branch of the target."""
        record = branch_record(self._reader)
        if record is None or record.lake != self._own.lake_id:
            return None
        Pins(self._own).check(Pin(self._reader.lake_id, self._name, *record), kept=False)
        return record.snapshot_id

    def _check_unchanged(self, name: str, pin: int) -> None:
        """Rejects a table that others have changed in the target since the branch was made."""
        now = self._lake.snapshot_id
        states = [self._state(name, version) for version in (pin, now)]
        if states[0] == states[1]:
            if states[0] is None:
                return
            there = [
                f"{qualified(self._own.alias, *split_name(name))} AT (VERSION => {version})" for version in (pin, now)
            ]
            if difference(self._own.connection, (self._name, self._own.alias), (there[0], there[1]), name).only == (
                0,
                0,
            ):
                return
        raise CommitConflictError(
            f"{name} of {self._own.alias} has changed since snapshot {pin}, of which {self._name} was made",
            hint="make another branch, and repeat the change there; `lakeconf diff` shows how the two differ",
        )

    def _state(self, name: str, version: int) -> object:
        """What a table of the target is, apart from its rows; None without one."""
        try:
            info = load_table(self._own, name, version)
        except TableNotFoundError:
            return None
        return info.table_id, declared_at(self._own, info, version)

    def copy(self, steps: Sequence[CopyStep]) -> int:
        """Carries out a plan in one snapshot of the target; returns that snapshot."""
        left = [step for step in steps if step.action != "skip"]
        names = ", ".join(step.table for step in left)
        source, adopted = AdoptedFiles(self._reader), AdoptedFiles(self._own)
        extra = {"copied_from": self._name, "copied_version": self._version}
        with self._lake.transaction(f"copy {names} from {self._name}", extra=extra) as transaction:
            scope = transaction._scope  # noqa: SLF001 - not for users
            for step in left:
                table = transaction.table(step.table)
                rows = lazy_rows(self._own.connection.relation(f"FROM {step.source}"), self._own.connection)
                if step.action == "replace" and not step.changes:
                    table.overwrite(rows)
                elif step.action != "record" and step.declared is not None:
                    if step.action == "replace":
                        transaction.drop_table(step.table)
                    create_declared(scope, step.table, step.declared)
                    table.append(rows)
                if step.then is not None:
                    adopted.record(scope, source, step.then, self._version, step.now, step.table)
            adopted.record_doubts(scope, source, [step.then for step in left if step.then is not None])
        return self._lake.snapshot_id

    def copy_to(self, lake: Lake, source: Store, steps: Sequence[CopyStep]) -> int:
        """Like `copy`, into a lake that did not exist when the plan was made; it must still be empty."""
        new = TableCopies(lake, source, self._version)
        if new.plan([step.table for step in steps]) != list(steps):
            raise CommitConflictError("the target was created after the plan was made", hint="plan again")
        return new.copy(steps)

    def _step(self, table: TableInfo, adopted: AdoptedFiles, own: AdoptedFiles) -> CopyStep:
        name, connection = table.full_name, self._own.connection
        source = relation_at(self._reader, table, self._version)
        declared = declared_at(self._reader, table, self._version)
        if declared.computed:
            raise UnsupportedError(
                f"{name} cannot be copied: {', '.join(declared.computed)} is an expression",
                hint="create the table in the target, and append the rows to it",
            )
        # The target may be a branch that has not written the table.
        session, known_as, snapshot_id = self._lake._scope.source(name)  # noqa: SLF001 - not for users
        try:
            now = load_table(session.reader, known_as, snapshot_id)
        except TableNotFoundError:
            ((count,),) = connection.rows(f"SELECT count(*) FROM {source}")
            return CopyStep(name, "create", count, source=source, then=table, declared=declared)
        is_own = session.reader is self._own
        there = relation_at(session.reader, now, snapshot_id)
        changes = _changes(declared_at(session.reader, now, snapshot_id), declared)
        if columns_of(connection, source).keys() & columns_of(connection, there).keys():
            added, removed = difference(connection, (self._name, self._own.alias), (source, there), name).only
        else:
            ((added, removed),) = connection.rows(
                f"SELECT (SELECT count(*) FROM {source}), (SELECT count(*) FROM {there})"
            )
        action: Literal["replace", "record", "skip"] = "replace"
        if not (changes or added or removed):
            action = "record" if is_own and own.lacks(adopted, table, self._version, now) else "skip"
        return CopyStep(name, action, added, removed, changes, source, table, now if is_own else None, declared)


def _changes(present: Declared, planned: Declared) -> tuple[str, ...]:
    """The differences of two tables apart from their rows, in words."""
    before, after = present.definition, planned.definition
    columns = [f"+ {name} {kind}" for name, kind in after.columns.items() if before.columns.get(name) != kind]
    columns += [f"- {name} {kind}" for name, kind in before.columns.items() if after.columns.get(name) != kind]
    others = (
        ("partitioned by", before.partitioned_by, after.partitioned_by),
        ("sorted by", before.sorted_by, after.sorted_by),
    )
    changes = [f"{what} {', '.join(new) or 'nothing'}" for what, old, new in others if list(old) != list(new)]
    if (before.comment, before.column_comments) != (after.comment, after.column_comments):
        changes.append("other comments")
    if present.defaults != planned.defaults:
        changes.append("other default values")
    return (*columns, *changes)
