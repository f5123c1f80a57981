"""Merges and updates: the engine finds rows with a join and stages an action for each row; DuckDB commits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import narwhals as nw

from lakeconf.catalog.column_lookup import columns_named
from lakeconf.catalog.predicate.expression_errors import named_columns
from lakeconf.catalog.predicate.nodes import Predicate, to_duckdb_sql
from lakeconf.catalog.predicate.where import Where, predicate_of
from lakeconf.catalog.table import NO_ID, Column, TableInfo, load_table
from lakeconf.commit.change import Change, Target
from lakeconf.commit.session import Session
from lakeconf.commit.transaction import Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import ROW_ID, Engine, SparkOperations, Staged, StagingRequest
from lakeconf.engines.schema_check import RESERVED, check_fit, selected
from lakeconf.errors import LakeconfError, SchemaError, UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write import staged_outcome, writes
from lakeconf.write.constants import constant
from lakeconf.write.merge_clauses import (
    ACTION,
    DELETE,
    IN_SOURCE,
    INSERT,
    NOTHING,
    UPDATE,
    Clauses,
    Delete,
    Insert,
    Update,
    action,
    value,
)
from lakeconf.write.merge_source import Source, merge_source
from lakeconf.write.schema_changes import evolve_for
from lakeconf.write.staged_refusal import refusal
from lakeconf.write.staged_rows import check_matches, check_required, check_row_ids

_ON = "__lakeconf_on_"
_STAGED = "__lakeconf_staged"

__all__ = ["Clauses", "Delete", "Insert", "Update", "merge", "update"]


def update(transaction: Transaction, name: str, *, values: Mapping[str, object], where: Where) -> None:
    """Adds the change that updates the rows that satisfy a condition; see `Table.update`."""
    session, target = transaction.session, writes.target(transaction, name)
    info, types = target.info, target.types
    if not isinstance(values, Mapping):
        raise SchemaError("the new values are not a dictionary", hint='write update({"kind": "sale"}, where=…)')
    if not values:
        raise SchemaError("there are no new values", hint='write update({"kind": "sale"}, where=…)')
    named = {column.name: value for column, value in zip(selected(info, list(values)), values.values(), strict=True)}
    computed = {name: value for name, value in named.items() if isinstance(value, nw.Expr)}
    settings = {
        name: f"{_STAGED}.{identifier(name)}" if name in computed else constant(value, types[name])
        for name, value in named.items()
    }
    if not computed:
        condition = to_duckdb_sql(predicate_of(where, info.columns))
        sql = f"UPDATE {writes.quoted(session, info)} SET {_settings(settings)} WHERE {condition}"
        depends_on = writes.read_dependency_at_commit(transaction, info)
        transaction.add(replace(_change(target, transaction, (sql,)), depends_on=depends_on))
        return
    read = _readable(transaction, target)
    rows = _rows(session.engine, transaction, target, read, where)
    with named_columns(types):
        rows = rows.select(ROW_ID, *(value.alias(name) for name, value in computed.items()))
    wanted = {name: types[name] for name in computed}
    staged = _stage(session.engine, transaction, target, rows, wanted)
    change = _change(target, transaction, (_update(session, target, settings, staged.source),), staged)
    transaction.add(change)  # first, so that a failure below removes the staged rows
    transaction.changes[-1] = replace(change, counts=(_count(session.writer, staged),))
    check_required(session.writer, target.info, staged, wanted)


def merge(transaction: Transaction, name: str, *, frame: object, clauses: Clauses, evolve: bool) -> None:
    """Adds the changes of a merge; see `Table.merge`."""
    engine = transaction.session.engine
    adopted = writes.adopt(transaction, name, frame)
    if evolve:
        evolve_for(transaction, name, engine.schema(adopted))
    _merge_rows(transaction, writes.target(transaction, name), adopted, clauses)


def _merge_rows(transaction: Transaction, target: Target, adopted: Any, clauses: Clauses) -> None:
    info = target.info
    given = _check_frame(transaction.session.engine, target, adopted, clauses)
    if clauses.deletes_matches and writes.has_rows(transaction, info):
        writes.delete_matches(transaction, target, adopted, selected(info, clauses.on))
        return
    read = _readable(transaction, target)
    with merge_source(transaction, target, read, adopted, given, clauses) as source:
        joined = _joined(transaction, target, read, source, given, clauses)
        names = [*(f"source_{one.name}" for one in given), *(f"target_{one.name}" for one in info.columns)]
        with named_columns(names):
            frame = joined.with_columns(action(clauses).alias(ACTION)).filter(nw.col(ACTION) != NOTHING)
            values = [value(column, given, clauses).alias(column.name) for column in info.columns]
            rows = frame.select(ROW_ID, ACTION, *values)
        staged = _stage(source.engine, transaction, target, rows, target.types, acted=True)
        change = replace(_change(target, transaction, (), staged), decision=source.decision)
        transaction.add(change)  # first, so that a failure below removes the staged rows
    _carry_out(source.engine, transaction, target, staged, clauses)


def _carry_out(engine: Engine, transaction: Transaction, target: Target, staged: Staged, clauses: Clauses) -> None:
    """Adds the statements of the staged actions of a merge to the last change, and the inserted rows as another one."""
    session, info, change = transaction.session, target.info, transaction.changes[-1]
    counts = dict(session.writer.rows(f"SELECT {ACTION}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    acted = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    check_matches(session.writer, info, staged, clauses.on, acted)
    check_required(session.writer, info, staged, target.types, f"{ACTION} IN ('{UPDATE}', '{INSERT}')")
    if acted:
        refused = refusal(transaction, info, engine, counts)
        refused = refused or staged_outcome.add_changes(transaction, target, engine, counts)
        if refused is None:
            return
        if change.decision is not None and isinstance(engine, SparkOperations):
            change = replace(change, decision=f"{change.decision}; not staged: {refused}")
    statements: tuple[str, ...] = ()
    if counts.get(DELETE):
        gone = f"SELECT {ROW_ID} FROM ({staged.source}) WHERE {ACTION} = '{DELETE}'"
        statements += (f"DELETE FROM {writes.quoted(session, info)} WHERE rowid IN ({gone})",)
    if counts.get(UPDATE):
        settings = {column.name: f"{_STAGED}.{identifier(column.name)}" for column in info.columns}
        updated = f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'"
        statements += (_update(session, target, settings, updated),)
    # Inserted rows are counted with their files.
    expected = tuple(counts[action] for action in (DELETE, UPDATE) if counts.get(action))
    staged_for = replace(staged, row_count=sum(expected))
    transaction.changes[-1] = replace(change, statements=statements, staged=staged_for, counts=expected)
    if counts.get(INSERT):
        part = f"{ACTION} = '{INSERT}'"
        token = transaction.next_token()
        inserted = engine.stage_part(staged, part, StagingRequest(info, target.types, token))
        statements = writes.insert(session, info, inserted)
        transaction.add(Change(statements, info.full_name, inserted, written_for=change.written_for))


def _change(
    target: Target,
    transaction: Transaction,
    statements: tuple[str, ...],
    staged: Staged | None = None,
    counts: tuple[int, ...] = (),
) -> Change:
    """A change that updates or deletes rows, based on a read of the table."""
    return Change(
        statements,
        target.info.full_name,
        staged,
        depends_on=writes.read_dependency(transaction, target.info),
        deletes=True,
        written_for=writes.written_for(transaction, target.info),
        counts=counts,
    )


def _check_frame(engine: Engine, target: Target, adopted: Any, clauses: Clauses) -> tuple[Column, ...]:
    """Checks a frame, and returns the table's columns that it has."""
    if not clauses.on:
        raise SchemaError("a merge needs columns to match on", hint='write merge(frame, on="id")')
    info, types = target.info, target.types
    found = engine.schema(adopted)
    names = {folded(name) for name in found}
    given = tuple(column for column in info.columns if clauses.not_matched or folded(column.name) in names)
    check_fit(info.full_name, found, {column.name: types[column.name] for column in given})
    for key in selected(info, clauses.on):
        if key not in given:
            raise SchemaError(
                f"the frame lacks the column {key.name!r}, which the merge matches on",
                hint="add it to the frame, or match on other columns",
            )
    for clause in clauses.matched:
        if isinstance(clause, Update):
            columns_named(info, list(clause.values or ()))
    return given


def _joined(
    transaction: Transaction,
    target: Target,
    read: TableInfo,
    source: Source,
    given: Sequence[Column],
    clauses: Clauses,
) -> nw.LazyFrame[Any]:
    """The frame's rows, joined with the matching rows of the table."""
    frame: nw.LazyFrame[Any] = nw.from_native(source.rows)
    frame = frame.select(nw.col(column.name).alias(f"source_{column.name}") for column in given)
    frame = frame.with_columns(nw.lit(1).alias(IN_SOURCE))
    keys = selected(target.info, clauses.on)
    ons = [nw.col(key.name).alias(f"{_ON}{index}") for index, key in enumerate(keys)]
    columns = [nw.col(column.name).alias(f"target_{column.name}") for column in target.info.columns]
    rows = _rows(source.engine, transaction, target, read, source.where).select(ROW_ID, *ons, *columns)
    how: Literal["full", "left", "inner"] = (
        "full" if clauses.not_matched_by_source else "left" if clauses.not_matched else "inner"
    )
    return frame.join(
        rows,
        how=how,
        left_on=[f"source_{key.name}" for key in keys],
        right_on=[f"{_ON}{index}" for index in range(len(keys))],
    )


def _rows(
    engine: Engine, transaction: Transaction, target: Target, read: TableInfo, where: Where | Predicate | None
) -> nw.LazyFrame[Any]:
    """The table's rows at the read snapshot, with row ids."""
    names = {column.name for column in read.columns}
    rows = engine.scan_rows(writes.quoted_name(target.info), transaction.snapshot_id, where)
    new = [column.name for column in target.info.columns if column.name not in names]
    return rows.with_columns(nw.lit(None).alias(column) for column in new) if new else rows


def _readable(transaction: Transaction, target: Target) -> TableInfo:
    """The table at the read snapshot; refuses one whose rows a merge or a computed update cannot read or identify."""
    info = target.info
    _check_names(info)
    if info.table_id != NO_ID and writes.has_rows(transaction, info):
        raise UnsupportedError(
            f"the transaction already contains a write to {info.full_name}, and this write reads the table before it",
            hint="commit the transaction first, or write to the table only once in it",
        )
    if info.table_id == NO_ID:
        raise LakeconfError(
            f"{info.full_name} is created in this transaction, so it has no rows to compare with",
            hint="append to it",
        )
    check_row_ids(info)
    read = load_table(transaction.session.reader, writes.quoted_name(info), transaction.snapshot_id)
    if not {column.name for column in read.columns} <= {column.name for column in info.columns}:
        raise LakeconfError(
            f"columns of {info.full_name} were renamed or dropped in this transaction", hint="commit it first"
        )
    return read


def _check_names(info: TableInfo) -> None:
    """Refuses columns that narwhals cannot name in an expression, or that collide with lakeconf's own columns."""
    for column in info.columns:
        reserved = column.name.lower().startswith(RESERVED)
        if reserved or any(character in column.name for character in '."`'):
            raise UnsupportedError(
                f"a merge or a computed update cannot use the column name {column.name!r} of {info.full_name}",
                hint="rename the column: table.evolve(rename={…: …}); append, overwrite, delete and update with "
                "constants work without renaming",
            )


def _stage(
    engine: Engine,
    transaction: Transaction,
    target: Target,
    rows: nw.LazyFrame[Any],
    types: Mapping[str, str],
    *,
    acted: bool = False,
) -> Staged:
    native = nw.to_native(rows)
    own = {ROW_ID: "BIGINT"} | ({ACTION: "VARCHAR"} if acted else {})
    found = {name: text for name, text in engine.schema(native).items() if name not in own}
    check_fit(target.info.full_name, found, types)
    return engine.stage_rows(native, StagingRequest(target.info, {**own, **types}, transaction.next_token()))


def _count(writer: Connection, staged: Staged) -> int:
    ((count,),) = writer.rows(f"SELECT count(*) FROM ({staged.source})")
    return int(count)


def _settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{identifier(name)} = {value}" for name, value in settings.items())


def _update(session: Session, target: Target, settings: Mapping[str, str], source: str) -> str:
    table = writes.quoted(session, target.info)
    rowid = f"{identifier(target.info.name)}.rowid"
    return f"UPDATE {table} SET {_settings(settings)} FROM ({source}) AS {_STAGED} WHERE {rowid} = {_STAGED}.{ROW_ID}"
