"""The first write of a branch to a table of the lake that it was made of: the branch gets a table of its own.

The rows are copied in a commit of their own, so that every kind of write, on any engine, finds an ordinary table. Who
reads the branch sees no difference. A write that replaces all rows copies none, and creates the table in its commit.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.tables import NO_ID, TableInfo, full_name, load_table, split_name
from lakeconf.commit.actions import Action, AddFiles, DefineTable, Target
from lakeconf.commit.conflicts import read_view
from lakeconf.commit.scope import Scope, TableSource
from lakeconf.engines.engine import Staged
from lakeconf.errors import CommitConflictError, UnsupportedError
from lakeconf.lake.adoption.known_files import AdoptedFiles
from lakeconf.logs import event_logger
from lakeconf.sql import identifier, qualified
from lakeconf.write.capabilities import EngineName
from lakeconf.write.context import Operation, WriteContext, check_engine, perform, table_key
from lakeconf.write.declared_table import Declared, create_declared, declared_at, relation_at
from lakeconf.write.operations.append import AppendRows
from lakeconf.write.operations.define import CreateSchema, CreateTable, CreateView, DropTable, DropView
from lakeconf.write.operations.overwrite import OverwriteRows

_log = event_logger("commit")


def write(
    scope: Scope,
    table: str,
    operation: Operation,
    *,
    message: str | None = None,
    idempotency_key: str | None = None,
    engine: EngineName | None = None,
) -> int:
    """Carries out an operation like `perform`, on a branch after it got a table of its own."""
    # Those that need no table: `CreateTable` and `CreateView` find that it exists, and `DropView` that it is no view.
    without = isinstance(operation, CreateSchema | CreateTable | CreateView | DropView)
    if scope.session.parent is not None and not without:
        check_engine(engine)
        scope.check_writable()
        source = scope.source(table)
        if source.session is not scope.session:
            if isinstance(operation, DropTable):
                return perform(scope, table, _DropInherited(source), message=f"drop table {full_name(table)}")
            if isinstance(operation, OverwriteRows) and operation.where is None:
                rows = AppendRows(operation.frame, operation.evolve)
                return _replaced(scope, table, source, rows, idempotency_key, engine)
            _copy(scope, table, source)
    return perform(scope, table, operation, message=message, idempotency_key=idempotency_key, engine=engine)


def own_table(scope: Scope, table: str) -> bool:
    """Gives a branch its own table before a write that needs its rows or columns; True if it had none."""
    source = scope.source(table)
    if source.session is scope.session:
        return False
    scope.check_writable()
    _copy(scope, table, source)
    return True


@dataclass(frozen=True)
class _DropInherited:
    """Drops what stands for a table of the other lake in a branch."""

    source: TableSource

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Drops the view."""
        full, (schema, name) = full_name(context.table), split_name(context.table)
        info = replace(_info(self.source), table_id=NO_ID, schema_name=schema, name=name)
        dropped = Target(info, {}, stored=None, ended_by=f"dropped {full}", exists=False)
        statement = f"DROP VIEW {qualified(context.session.alias, schema, name)}"
        targets = {table_key(context.table): dropped}
        view = read_view(context.session.reader, full, context.snapshot_id)
        return [DefineTable(table=full, sql=(statement,), targets=targets, drops_view=view)]


def _info(source: TableSource) -> TableInfo:
    return load_table(source.session.reader, source.table, source.snapshot_id)


def _declared(source: TableSource, table: str) -> Declared:
    declared = declared_at(source.session.reader, _info(source), source.snapshot_id)
    if declared.computed:
        raise UnsupportedError(
            f"{full_name(table)} cannot be copied to the branch: {', '.join(declared.computed)} is an expression",
            hint="drop the table in the branch, create it there, and append the rows to it",
        )
    return declared


def _replaced(
    scope: Scope, table: str, source: TableSource, rows: AppendRows, key: str | None, engine: EngineName | None
) -> int:
    """Creates the table with other rows, in one commit."""
    if scope.transaction is None:
        with scope.transacting(None, None, None) as transaction:
            _replaced(transaction, table, source, rows, key, engine)
        return scope.snapshot_id
    declared = _declared(source, table)
    perform(scope, table, _DropInherited(source))
    create_declared(scope, table, declared)
    return perform(scope, table, rows, idempotency_key=key, engine=engine)


def _copy(scope: Scope, table: str, source: TableSource) -> None:
    """Copies the table in a commit of its own; an open transaction then reads it at that snapshot."""
    session, info, declared = scope.session, _info(source), _declared(source, table)
    if scope.transaction is not None and Scope(session).source(table).session is session:
        raise CommitConflictError(
            f"{full_name(table)} was first written after the transaction began", hint="start another transaction"
        )
    _log.info("copying %s of %s to the branch", full_name(table), source.session.store)
    with _beside(scope, f"copy {full_name(table)} from {source.session.store}") as copying:
        transaction = copying.transaction
        assert transaction is not None  # noqa: S101 - `_beside` opened it
        perform(copying, table, _DropInherited(source))
        create_declared(copying, table, declared)
        created = transaction.contents.targets[table_key(table)]
        columns = ", ".join(identifier(name) for name in created.types)
        rows = f"SELECT {columns} FROM {relation_at(source.session.reader, info, source.snapshot_id)}"
        transaction.contents.extend([AddFiles(table=full_name(table), info=created.info, staged=Staged(rows))])
        own, other = AdoptedFiles(session.reader), AdoptedFiles(source.session.reader)
        own.record(copying, other, info, source.snapshot_id, None, table)
        own.record_doubts(copying, other, [info])
    result = transaction.result
    if scope.transaction is not None and result is not None:
        scope.transaction.own_since[table_key(table)] = result[0]
        scope.transaction.base.add_own(result[0])


@contextlib.contextmanager
def _beside(scope: Scope, message: str) -> Iterator[Scope]:
    """A transaction that is committed at once; that of the scope stays open, and its lock protects both."""
    beside = Scope(scope.session)
    if scope.transaction is None:
        with beside.transacting(message, None, None) as committed:
            yield committed
        return
    transaction = beside.begin(message, held=scope.transaction.held, explicit=True)
    try:
        yield replace(beside, transaction=transaction)
        transaction.end()
    except BaseException:
        transaction.discard()
        raise
    transaction.commit()
