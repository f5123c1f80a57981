"""Steps that all writes to a table share: computing its new schema, staging a frame, committing it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import narwhals as nw

from lakeconf.catalog.admission import check_folder
from lakeconf.catalog.pruning.predicates import Predicate, columns_of, value_in
from lakeconf.catalog.pruning.where import Where
from lakeconf.catalog.tables import NO_ID, Column, TableInfo, full_name, load_table, refuse_internal
from lakeconf.commit import journal
from lakeconf.commit.change import Change, SchemaChange, Statements
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.deletions import Positions, found_positions, repeated_id
from lakeconf.commit.journal import CommitKey, recorded_name
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.commit.transaction import DUCKDB, EngineName, Target, Transaction
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import check_commit_text
from lakeconf.engines.engine import (
    FILE_ID,
    FILE_ROW_NUMBER,
    PREFIX,
    ROW_ID,
    Engine,
    SparkOperations,
    Staged,
    StagingRequest,
)
from lakeconf.engines.frames import without_types
from lakeconf.engines.python_rows import arrow_rows, arrow_types, is_rows
from lakeconf.engines.schema_check import RESERVED, check_fit, not_null_violation, selected
from lakeconf.errors import (
    CommitError,
    LakeconfError,
    PredicateError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.logs import EventLogger
from lakeconf.sql import folded, identifier, qualified
from lakeconf.write.decision import SEVERAL, by_statement

_log = EventLogger("stage")
# Columns with the values that columns which the transaction adds have in all rows.
_DEFAULT = "__lakeconf_added_"


class Writing:
    """A context manager for one write: uses the open transaction, or its own, which it commits at the end."""

    def __init__(
        self,
        scope: Scope,
        message: str | None = None,
        *,
        key: CommitKey | None = None,
        engine: EngineName | None = None,
    ) -> None:
        self._scope, self._message, self._key, self._engine = scope, message, key, engine
        self._guarded = ExitStack()

    def __enter__(self) -> Transaction:
        self._scope.check_writable()
        with ExitStack() as guarded:
            transaction = self._scope.transaction
            if transaction is None:
                # The snapshot that the write reads cannot expire while it holds the lock.
                held = guarded.enter_context(self._scope.writing())
                transaction = self._scope.begin(self._message)
                transaction.held, transaction.key = held, self._key
            # Writes of other threads to the same transaction must not be mixed with this one.
            guarded.enter_context(transaction.writing)
            transaction.check_open()  # it may have ended while this write waited
            transaction.read, transaction.wanted = {}, self._engine
            self._check_key(transaction)
            self._guarded = guarded.pop_all()
        self._transaction = transaction
        self._mark = transaction.mark()
        return transaction

    def _check_key(self, transaction: Transaction) -> None:
        if self._key is not None and any(change.key == self._key for change in transaction.changes):
            raise CommitError(
                f"the transaction already contains a write to {self._key.table} with the idempotency key "
                f"{self._key.key!r}",
                hint="give each write of a transaction its own key",
            )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self._guarded:
            self._transaction.read = self._transaction.wanted = None
            if kind is not None:
                # A caller may catch the error and continue, so no part of the failed write may be committed.
                self._transaction.undo(self._mark)
                return
            self._transaction.keep(self._mark)
            if self._key is not None:
                first = len(self._mark.changes)
                new = [replace(change, key=self._key) for change in self._transaction.changes[first:]]
                self._transaction.changes[first:] = new
            if not self._transaction.explicit:
                self._transaction.commit()


def quoted(session: Session, info: TableInfo) -> str:
    """The quoted full name of a table, including the lake."""
    return qualified(session.alias, info.schema_name, info.name)


def quoted_name(info: TableInfo) -> str:
    """The quoted name of a table without the lake, as `load_table` accepts it."""
    return qualified(info.schema_name, info.name)


def target(transaction: Transaction, name: str) -> Target:
    """A table to change, as it will be after a transaction."""
    refuse_internal(name)
    return read_target(transaction, name)


def read_target(transaction: Transaction, name: str) -> Target:
    """A table as it will be after a transaction."""
    found = transaction.targets.get(table_key(name))
    if found is not None and found.ended_by is not None:
        raise TableNotFoundError(
            f"{full_name(name)} cannot be used: the transaction has {found.ended_by}",
            hint="write to a table before you rename it, or after the transaction",
        )
    if found is not None:
        return found
    known, key = {} if transaction.read is None else transaction.read, table_key(name)
    if key not in known:
        known[key] = _at(transaction.session, name, transaction.snapshot_id)
        check_folder(transaction.session.reader.data_path, known[key].info.path)
    return known[key]


def current(scope: Scope, name: str) -> Target:
    """A table at the snapshot that reads see; in an open transaction, as it will be after the transaction."""
    return read_target(scope.transaction, name) if scope.transaction else _at(scope.session, name, scope.snapshot_id)


def adopt(transaction: Transaction, name: str, frame: object) -> Any:
    """Converts a frame to one of the engine; dictionaries get the types of the table where these lose nothing."""
    engine = transaction.session.engine
    # Otherwise, rows of DuckDB stay in DuckDB.
    adopted = engine.joinable if transaction.wanted == "spark" else engine.adopt
    if not is_rows(frame):
        return adopted(without_types(frame, target(transaction, name).types))
    types = arrow_types(transaction.session.reader.connection, target(transaction, name).types)
    return adopted(arrow_rows(frame, types))


def stage(transaction: Transaction, adopted: Any, wanted: Target) -> Staged:
    """Stages an adopted frame for a table, after checking it against the table's columns."""
    session = transaction.session
    check_fit(wanted.info.full_name, session.engine.schema(adopted), wanted.types)
    info, token = wanted.info, transaction.next_token()
    _log.info("staging rows for %s (write %s)", info.full_name, token)
    staged = transaction.own(session.engine.stage(adopted, StagingRequest(info, wanted.types, token)))
    _log.info("staged %d rows in %d files for %s", staged.row_count or 0, len(staged.files), info.full_name)
    return replace(staged, files=(), rest=None) if transaction.wanted == DUCKDB else staged


def has_rows(transaction: Transaction, info: TableInfo) -> bool:
    """True if the transaction has already changed rows of the table."""
    return any(
        change.table == info.full_name and not isinstance(change.body, SchemaChange) for change in transaction.changes
    )


def delete_matches(transaction: Transaction, target: Target, adopted: Any, on: Sequence[Column]) -> None:
    """Adds the change that deletes rows by the keys in a frame, including rows of the same transaction."""
    session = transaction.session
    info, types = target.info, {key.name: target.types[key.name] for key in on}
    keys = session.engine.conform(adopted, {key: target.types[key.name] for key in on})
    staged = transaction.own(session.engine.stage_rows(keys, StagingRequest(info, types, transaction.next_token())))
    table, own = quoted(session, info), identifier(info.name)
    same = " AND ".join(f"__lakeconf_keys.{identifier(key.name)} = {value_in(own, key)}" for key in on)
    delete = f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM ({staged.source}) AS __lakeconf_keys WHERE {same})"
    depends_on, read = read_dependency(transaction, info), written_for(transaction, info)
    body, decision = Statements((delete,), deletes=True), by_statement(transaction, info, SEVERAL)
    transaction.add(Change(info.full_name, body, depends_on, written_for=read, decision=str(decision)))


def write_once(
    scope: Scope,
    name: str,
    idempotency_key: str | None,
    write: Callable[[Transaction, str], None],
    *,
    engine: EngineName | None = None,
) -> int:
    """Writes to a table, unless a write with the same key was committed before."""
    if engine not in (None, DUCKDB, "spark"):
        raise LakeconfError(f"engine of a write is {engine!r}", hint='write engine="duckdb" or engine="spark"')
    key = commit_key(scope, name, idempotency_key)
    done = committed(scope.session, key)
    if done is not None:
        if not scope.is_pinned:
            scope.session.advance(done)  # reads after this call see the earlier write
        return done
    with Writing(scope, key=key, engine=engine) as transaction:
        write(transaction, name)
    return scope.snapshot_id


def commit_key(scope: Scope, name: str, key: str | None) -> CommitKey | None:
    """The key of a write to a table; None if the write has none."""
    if key is None:
        return None
    if not isinstance(key, str):
        raise LakeconfError(f"the idempotency key {key!r} is not a string", hint="write it as a string")
    check_commit_text(key, "the idempotency key")
    reader = scope.session.reader
    pending = scope.transaction.targets.get(table_key(name)) if scope.transaction else None
    info = pending.info if pending else load_table(reader, name, scope.snapshot_id)
    uuid, names = journal.names_of(reader, info.table_id) if info.table_id != NO_ID else (None, ())
    return CommitKey(recorded_name(info.schema_name, info.name), key, uuid, names)


def committed(session: Session, key: CommitKey | None) -> int | None:
    """The snapshot in which a write with this key was committed; None if it was not, or if there is no key."""
    return None if key is None else journal.find(session.writer, session.alias, [key]).get(key)


def committed_keys(scope: Scope, name: str, prefix: str) -> list[str]:
    """The committed keys of a table that start with a prefix, sorted."""
    key, session = commit_key(scope, name, prefix), scope.session
    return [] if key is None else journal.keys_of(session.writer, session.alias, key)


def read_dependency(transaction: Transaction, info: TableInfo, *, on_rows: bool = True) -> ReadDependency | None:
    """The dependency of a change that has read a table; None for a table that the transaction itself creates.

    The calling thread decides what was read: another thread may commit the transaction.
    """
    if info.table_id == NO_ID:
        return None
    base = transaction.base
    names = base.known_as(transaction.session.reader, info)
    by_name = on_rows and base.has_read(names)
    return ReadDependency(info.table_id, info.full_name, base.since(names), on_rows, base.unseen(names), by_name)


def read_dependency_at_commit(transaction: Transaction, info: TableInfo) -> ReadDependency | None:
    """The dependency of a change whose rows DuckDB finds at the commit.

    Rows that other writers added since do not matter, unless the caller has read the table or opened a transaction:
    then the change may be based on those reads.
    """
    found = read_dependency(transaction, info)
    return found and replace(found, on_rows=transaction.explicit or found.by_name)


def written_for(transaction: Transaction, info: TableInfo) -> TableInfo | None:
    """The table in the catalog, for the check at the commit; None if the transaction itself defines it."""
    return None if folded(info.full_name) in transaction.targets else info


def _at(session: Session, name: str, snapshot_id: int) -> Target:
    info = load_table(session.reader, name, snapshot_id)
    query = f"DESCRIBE SELECT * FROM {quoted(session, info)} AT (VERSION => {snapshot_id})"

    def described() -> dict[str, str]:
        return {column: type_name for column, type_name, *_ in session.reader.connection.rows(query)}

    return Target(info, session.reader.definitions.types(info.columns, described))


def table_key(name: str) -> str:
    """The full name of a table in lower case, by which a transaction finds its target."""
    return folded(full_name(name))


def check_condition(writer: Connection, staged: Staged, condition: str) -> None:
    """Rejects staged rows that do not satisfy a condition."""
    outside = f"SELECT count(*) FROM ({staged.source}) WHERE ({condition}) IS NOT TRUE"
    ((count,),) = writer.rows(outside)
    if count:
        raise PredicateError(
            f"{count} rows of the frame do not satisfy the `where` of the overwrite ({condition})",
            hint="filter the frame, or widen the condition",
        )


def check_matches(writer: Connection, info: TableInfo, staged: Staged, on: Sequence[str], where: str = "true") -> None:
    """Rejects a merge in which several rows of the frame match one row of the table."""
    acted = f"FROM ({staged.source}) WHERE {ROW_ID} IS NOT NULL AND ({where})"
    twice = repeated_id(writer, f"SELECT {ROW_ID} {acted}")
    if twice is None:
        return
    _, repeats = twice
    # Without the values of the keys: logs have no values of rows.
    keys = ", ".join(key.name for key in selected(info, on))
    raise CommitError(
        f"{repeats} rows of the frame match one row of {info.full_name} on {keys}: nothing was written",
        hint="keep one row of the frame for each key, or match on more columns",
    )


def check_row_ids(info: TableInfo) -> None:
    """Rejects a table with a column that hides the row ids."""
    if any(folded(column.name) == "rowid" for column in info.columns):
        raise UnsupportedError(
            f"a column of {info.full_name} is named rowid and hides DuckLake's row id, which identifies rows",
            hint="rename the column: table.evolve(rename={'rowid': …})",
        )


def check_required(
    writer: Connection, info: TableInfo, staged: Staged, columns: Collection[str], where: str = "true"
) -> None:
    """Rejects NULLs in NOT NULL columns: DuckLake checks them too late, or not at all."""
    required = [column.name for column in info.columns if not column.nullable and column.name in columns]
    if not required:
        return
    counts = ", ".join(f"count(*) FILTER ({identifier(name)} IS NULL)" for name in required)
    (nulls,) = writer.rows(f"SELECT {counts} FROM ({staged.source}) WHERE {where}")
    for name, count in zip(required, nulls, strict=True):
        if count:
            raise not_null_violation(name, info.full_name)


def rows_to_change(
    engine: Engine, transaction: Transaction, target: Target, read: TableInfo, where: Where | Predicate | None
) -> nw.LazyFrame[Any]:
    """The table's rows at the read snapshot, with their ids as `ROW_ID`, and `places`."""
    names = {column.name for column in read.columns}
    new = [column.name for column in target.info.columns if column.name not in names]
    used = {column.name for column in columns_of(where)} if isinstance(where, Predicate) else set[str]()
    if unread := used.intersection(new):
        raise SchemaError(
            f"the condition uses the column {min(unread)!r} of {target.info.full_name}, which this transaction adds",
            hint="commit the transaction first, or leave the column out of the condition",
        )
    rows = engine.scan_rows(quoted_name(target.info), transaction.snapshot_id, where)
    values = target.evolved.defaults
    defaults = {column: values[folded(column)] for column in new if folded(column) in values}
    if defaults:
        rows = constant_row(engine, transaction, target, defaults, _DEFAULT).join(rows, how="cross")
    made = {column: nw.col(f"{_DEFAULT}{index}") for index, column in enumerate(defaults)}
    return rows.with_columns(made.get(column, nw.lit(None)).alias(column) for column in new) if new else rows


def places(engine: Engine) -> list[str]:
    """The columns with the positions of rows that the frames of an engine have."""
    return [FILE_ID, FILE_ROW_NUMBER] if isinstance(engine, SparkOperations) else []


def constant_row(
    engine: Engine, transaction: Transaction, target: Target, constants: Mapping[str, str], prefix: str
) -> nw.LazyFrame[Any]:
    """A frame of one row with SQL constants, which DuckDB has cast to the types of their columns."""
    cast = (f"CAST({value} AS {target.types[name]}) AS {identifier(name)}" for name, value in constants.items())
    row = engine.adopt(transaction.session.writer.arrow(f"SELECT {', '.join(cast)}"))
    columns = {column: target.types[column.name] for column in selected(target.info, list(constants))}
    frame: nw.LazyFrame[Any] = nw.from_native(engine.conform(row, columns))
    return frame.select(nw.col(name).alias(f"{prefix}{index}") for index, name in enumerate(constants))


def readable(transaction: Transaction, target: Target, names: Collection[str] | None = None) -> TableInfo:
    """The table at the read snapshot; refuses one whose rows a merge or a computed update cannot read or identify.

    Only `names` are columns of the changed rows; None for all.
    """
    info = target.info
    _check_names(info, [column.name for column in info.columns] if names is None else names)
    if info.table_id != NO_ID and has_rows(transaction, info):
        raise UnsupportedError(
            f"the transaction already contains a write to {info.full_name}, and this write reads the table before it",
            hint="commit the transaction first, or write to the table only once in it",
        )
    if info.table_id == NO_ID:
        raise LakeconfError(
            f"{info.full_name} is created in this transaction, so it has no rows to compare with", hint="append to it"
        )
    check_row_ids(info)
    read = load_table(transaction.session.reader, quoted_name(info), transaction.snapshot_id)
    if target.evolved.is_reshaped:
        raise LakeconfError(
            f"columns of {info.full_name} were renamed or dropped in this transaction", hint="commit it first"
        )
    return read


def _check_names(info: TableInfo, selected: Collection[str]) -> None:
    """Rejects columns that narwhals cannot name in an expression, or that collide with lakeconf's own columns."""
    for column in info.columns:
        reserved = column.name.lower().startswith(RESERVED)
        if reserved or (column.name in selected and (column.name == "*" or set(column.name) & set('."`'))):
            raise UnsupportedError(
                f"a merge or a computed update cannot use the column name {column.name!r} of {info.full_name}",
                hint="rename the column: table.evolve(rename={…: …}); append, overwrite, delete and update of other "
                "columns or with constants work without renaming",
            )


def sorted_positions(
    transaction: Transaction, info: TableInfo, folder: str, rows: nw.LazyFrame[Any]
) -> Positions | None:
    """Lets executors sort the positions of rows, below an announced folder; None if several rows have the same one."""
    engine = transaction.session.engine
    assert isinstance(engine, SparkOperations)  # noqa: S101 - checked by `outcome_refusal`
    token = folder.removeprefix(f"{info.path}{PREFIX}") + transaction.next_token()
    request = StagingRequest(info, {}, token)
    files = engine.sort_positions(rows.select(FILE_ID, FILE_ROW_NUMBER), request)
    transaction.own(files.staged)
    return found_positions(transaction.session.writer, files.paths)
