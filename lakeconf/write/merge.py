"""Merges: the engine finds rows with a join and stages an action for each row; the commit carries them out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import narwhals as nw

from lakeconf.catalog.column_lookup import columns_named
from lakeconf.catalog.predicate.expression_errors import named_columns
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.commit.change import Change, Target
from lakeconf.commit.session import Session
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import ROW_ID, Engine, SparkOperations, Staged, StagingRequest
from lakeconf.engines.schema_check import check_fit, selected
from lakeconf.errors import SchemaError
from lakeconf.sql import folded, identifier
from lakeconf.write import staged_outcome, writes
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
from lakeconf.write.readable_rows import places, readable, rows_to_change
from lakeconf.write.schema_changes import evolve_for
from lakeconf.write.staged_refusal import refusal
from lakeconf.write.staged_rows import check_matches, check_required

_ON = "__lakeconf_on_"
# The staged rows in a statement.
STAGED = "__lakeconf_staged"

__all__ = ["Clauses", "Delete", "Insert", "Update", "merge"]


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
    read = readable(transaction, target)
    with merge_source(transaction, target, read, adopted, given, clauses) as source:
        joined = _joined(transaction, target, read, source, given, clauses)
        names = [*(f"source_{one.name}" for one in given), *(f"target_{one.name}" for one in info.columns)]
        with named_columns(names):
            frame = joined.with_columns(action(clauses).alias(ACTION)).filter(nw.col(ACTION) != NOTHING)
            values = [value(column, given, clauses).alias(column.name) for column in info.columns]
            rows = frame.select(ROW_ID, ACTION, *places(source.engine), *values)
        staged = stage_actions(source.engine, transaction, target, rows, target.types, acted=True)
        change = replace(row_change(target, transaction, (), staged), decision=source.decision)
        transaction.add(change)  # first, so that a failure below removes the staged rows
    carry_out(source.engine, transaction, target, staged, clauses.on)


def carry_out(engine: Engine, transaction: Transaction, target: Target, staged: Staged, on: Sequence[str]) -> None:
    """Replaces the last change, which has staged actions on rows, by changes that carry them out.

    Args:
        engine: The engine that has staged the actions.
        transaction: The transaction.
        target: The table.
        staged: The actions.
        on: The columns that a merge matches on; none for an update, in which each row has one action.

    Raises:
        CommitError: Several rows of the frame match one row of the table.
        SchemaError: A NOT NULL column would get a NULL.
    """
    session, info, change = transaction.session, target.info, transaction.changes[-1]
    counts = dict(session.writer.rows(f"SELECT {ACTION}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    acted = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    refused = refusal(transaction, info, engine, counts) if acted else None
    if refused is not None or not staged_outcome.are_sorted(engine, acted):
        check_matches(session.writer, info, staged, on, acted)
    check_required(session.writer, info, staged, target.types, f"{ACTION} IN ('{UPDATE}', '{INSERT}')")
    if acted:
        refused = refused or staged_outcome.add_changes(transaction, target, engine, counts, on)
        if refused is None:
            return
        if change.decision is not None and isinstance(engine, SparkOperations):
            change = replace(change, decision=f"{change.decision}; not staged: {refused}")
    statements: tuple[str, ...] = ()
    if counts.get(DELETE):
        gone = f"SELECT {ROW_ID} FROM ({staged.source}) WHERE {ACTION} = '{DELETE}'"
        statements += (f"DELETE FROM {writes.quoted(session, info)} WHERE rowid IN ({gone})",)
    if counts.get(UPDATE):
        settings = {column.name: f"{STAGED}.{identifier(column.name)}" for column in info.columns}
        updated = f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'"
        statements += (update_statement(session, target, settings, updated),)
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


def row_change(
    target: Target,
    transaction: Transaction,
    statements: tuple[str, ...],
    staged: Staged | None = None,
    counts: tuple[int, ...] = (),
) -> Change:
    """A change that updates or deletes rows, based on a read of the table.

    Args:
        target: The table.
        transaction: The transaction.
        statements: The statements that change the rows.
        staged: Staged rows that they use.
        counts: The number of rows that each statement must change.
    """
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
    rows = rows_to_change(source.engine, transaction, target, read, source.where)
    rows = rows.select(ROW_ID, *places(source.engine), *ons, *columns)
    how: Literal["full", "left", "inner"] = (
        "full" if clauses.not_matched_by_source else "left" if clauses.not_matched else "inner"
    )
    return frame.join(
        rows,
        how=how,
        left_on=[f"source_{key.name}" for key in keys],
        right_on=[f"{_ON}{index}" for index in range(len(keys))],
    )


def stage_actions(
    engine: Engine,
    transaction: Transaction,
    target: Target,
    rows: nw.LazyFrame[Any],
    types: Mapping[str, str],
    *,
    acted: bool = False,
) -> Staged:
    """Stages rows that say what becomes of rows of the table.

    Args:
        engine: The engine that has computed the rows.
        transaction: The transaction.
        target: The table.
        rows: Values by the table's columns, with row ids as `ROW_ID`.
        types: These columns of the table, with the DuckDB names of their types.
        acted: True if the rows also have an `ACTION`, and `places`.

    Raises:
        SchemaError: A value does not fit its column.
    """
    native = nw.to_native(rows)
    own = {ROW_ID: "BIGINT"}
    own |= {ACTION: "VARCHAR", **dict.fromkeys(places(engine), "BIGINT")} if acted else {}
    found = {name: text for name, text in engine.schema(native).items() if name not in own}
    check_fit(target.info.full_name, found, types)
    return engine.stage_rows(native, StagingRequest(target.info, {**own, **types}, transaction.next_token()))


def settings_of(settings: Mapping[str, str]) -> str:
    """The SQL after SET, from SQL values by column name."""
    return ", ".join(f"{identifier(name)} = {value}" for name, value in settings.items())


def update_statement(session: Session, target: Target, settings: Mapping[str, str], source: str) -> str:
    """The statement that sets columns in the rows whose ids staged rows have.

    Args:
        session: The open lake.
        target: The table.
        settings: SQL values by column name; they name the columns of staged rows after `STAGED`.
        source: SQL that returns the staged rows.
    """
    table = writes.quoted(session, target.info)
    rowid = f"{identifier(target.info.name)}.rowid"
    return f"UPDATE {table} SET {settings_of(settings)} FROM ({source}) AS {STAGED} WHERE {rowid} = {STAGED}.{ROW_ID}"
