"""Prepares the files of a staged commit from the outcome of a merge."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import narwhals as nw

from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.scan import plan_scan
from lakeconf.catalog.table import Column, TableInfo, columns_named
from lakeconf.catalog.where import named_columns
from lakeconf.commit.position_files import SORTED_IN_MEMORY, SortedPositions, have_row_ids, repeated_id
from lakeconf.commit.session import Session
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Change, Target, Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import (
    FILE_ID,
    ROW_ID,
    Engine,
    PositionEngine,
    SparkOperations,
    Staged,
    StagingRequest,
    announce,
    staging_folder,
)
from lakeconf.engines.schema_check import check_fit, selected
from lakeconf.errors import CommitError, SchemaError
from lakeconf.sql import folded, identifier
from lakeconf.write import writes
from lakeconf.write.merge_clauses import (
    ACTION,
    DELETE,
    IN_SOURCE,
    INSERT,
    NOTHING,
    UPDATE,
    Clauses,
    Update,
    action,
    value,
)
from lakeconf.write.merge_source import Source, merge_source
from lakeconf.write.schema_changes import evolve_for
from lakeconf.write.staged_refusal import add_key, refusal
from lakeconf.write.writes import (
    are_in_files,
    check_matches,
    check_required,
    places,
    readable,
    rows_to_change,
    sorted_positions,
)

_GONE = f"{ACTION} IN ('{UPDATE}', '{DELETE}')"


def are_sorted(engine: Engine, acted: int) -> bool:
    """True if executors sort the positions of the changed rows, for flat memory; that finds repeated rows too.

    Args:
        engine: The engine that has staged the outcome.
    """
    return acted > SORTED_IN_MEMORY and isinstance(engine, PositionEngine)


def add_changes(
    transaction: Transaction, target: Target, engine: Engine, counts: Mapping[str, int], on: Sequence[str]
) -> str | None:
    """Replaces the only change of a transaction, which has staged an outcome, by changes for a staged commit.

    Args:
        engine: The engine that has staged the outcome.
        counts: The number of rows for each action; at least one row is updated or deleted.
        on: The columns that a merge matches on.

    Returns:
        Why the files cannot be committed, so that the transaction has its only change again; None if they can be.
    """
    session, info, (outcome,) = transaction.session, target.info, transaction.changes
    staged = outcome.staged
    assert staged is not None  # noqa: S101 - it has staged the outcome
    folder = staging_folder(info, transaction.next_token())
    gone = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    is_sorted = are_sorted(engine, gone)
    columns = f"{ROW_ID}, {FILE_ID}" if is_sorted else ROW_ID
    row_ids = f"SELECT {columns} FROM ({staged.source}) WHERE {_GONE}"
    deleted = FileChange(info, row_ids=row_ids, row_count=gone, folder=folder)
    outcome_change = replace(outcome, staged=replace(staged, row_count=gone), by_files=deleted)
    transaction.changes[-1] = outcome_change
    announce(session.writer, folder, session.reader.lake_id)
    _add(transaction, outcome, info, Staged("", folder=folder, row_count=0))
    if is_sorted:
        found = _positions(transaction, target, staged, gone, on)
        transaction.changes[0] = replace(outcome_change, by_files=replace(deleted, found=found))
    for kind in (UPDATE, INSERT):
        if not counts.get(kind):
            continue
        token, is_update = transaction.next_token(), kind == UPDATE
        request = StagingRequest(info, target.types, token, registered=False, row_ids=is_update)
        part = engine.stage_part(staged, f"{ACTION} = '{kind}'", request)
        # Updated rows are counted with the deleted ones.
        shown = replace(part, row_count=0) if kind == UPDATE else part
        _add(transaction, outcome, info, shown, own_row_ids=kind == UPDATE)
        if not are_in_files(part):
            transaction.forget([outcome], transaction.targets)
            return "the partitions of some rows"
        _check_rows(session.writer, info, part, counts[kind])
        if kind == UPDATE:
            _check_row_ids(session.writer, info, part, f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'")
    add_key(transaction)
    return None


def _positions(
    transaction: Transaction, target: Target, staged: Staged, gone: int, on: Sequence[str]
) -> SortedPositions:
    """The positions of the changed rows that are in files; checks that no row changes twice."""
    session, info = transaction.session, target.info
    in_catalog = f"FROM ({staged.source}) WHERE {_GONE} AND {FILE_ID} IS NULL"
    ((count,),) = session.writer.rows(f"SELECT count(*) {in_catalog}")
    data_files = plan_scan(session.reader, writes.quoted_name(info), transaction.snapshot_id, ()).files
    condition = f"{_GONE} AND {FILE_ID} IS NOT NULL"
    found = sorted_positions(transaction, target, staged, condition, data_files)
    if found is None or repeated_id(session.writer, f"SELECT {ROW_ID} {in_catalog}", count) is not None:
        check_matches(session.writer, info, staged, on, gone)
        raise CommitError(f"a row of {info.full_name} would change twice: nothing was written")
    if sum(found.counts.values()) + count != gone:
        raise CommitError(f"Spark sorted other rows of {info.full_name} than those that change: nothing was written")
    return found


def _add(
    transaction: Transaction, outcome: Change, info: TableInfo, staged: Staged, *, own_row_ids: bool = False
) -> None:
    by_files = FileChange(info, staged.files, own_row_ids=own_row_ids)
    transaction.add(replace(outcome, staged=staged, decision=None, by_files=by_files))


def _check_rows(writer: Connection, info: TableInfo, part: Staged, count: int) -> None:
    found = sum(footer.row_count for footer in read_footers(writer, part.files))
    if found != count:
        raise CommitError(f"Spark wrote {found} rows of {info.full_name} instead of {count}: nothing was written")


def _check_row_ids(writer: Connection, info: TableInfo, part: Staged, updated: str) -> None:
    """Refuses files of updated rows that do not contain exactly the ids of these rows."""
    if not have_row_ids(writer, part.files, updated):
        raise CommitError(f"Spark wrote other rows of {info.full_name} than those that change: nothing was written")


_ON = "__lakeconf_on_"


# The staged rows in a statement.
STAGED = "__lakeconf_staged"


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
        on: The columns that a merge matches on; none for an update, in which each row has one action.
    """
    session, info, change = transaction.session, target.info, transaction.changes[-1]
    counts = dict(session.writer.rows(f"SELECT {ACTION}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    acted = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    refused = refusal(transaction, info, engine, counts) if acted else None
    if refused is not None or not are_sorted(engine, acted):
        check_matches(session.writer, info, staged, on, acted)
    check_required(session.writer, info, staged, target.types, f"{ACTION} IN ('{UPDATE}', '{INSERT}')")
    if acted:
        refused = refused or add_changes(transaction, target, engine, counts, on)
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
        statements: The statements that change the rows.
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
        rows: Values by the table's columns, with row ids as `ROW_ID`.
        types: These columns of the table, with the DuckDB names of their types.
        acted: True if the rows also have an `ACTION`, and `places`.
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
        settings: SQL values by column name; they name the columns of staged rows after `STAGED`.
        source: SQL that returns the staged rows.
    """
    table = writes.quoted(session, target.info)
    rowid = f"{identifier(target.info.name)}.rowid"
    return f"UPDATE {table} SET {settings_of(settings)} FROM ({source}) AS {STAGED} WHERE {rowid} = {STAGED}.{ROW_ID}"
