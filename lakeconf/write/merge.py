"""Merges: the engine that computes them, the actions on rows, and the changes that carry these out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import narwhals as nw

from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_scan
from lakeconf.catalog.pruning.where import named_columns
from lakeconf.catalog.table_options import table_options
from lakeconf.catalog.tables import Column, TableInfo, columns_named
from lakeconf.commit.change import Body, Change, Files, Statements
from lakeconf.commit.deletions import Found, Outcome, Positions, have_row_ids
from lakeconf.commit.session import Session
from lakeconf.commit.transaction import Target, Transaction
from lakeconf.engines.engine import FILE_ID, ROW_ID, Engine, SparkOperations, Staged, StagingRequest
from lakeconf.engines.schema_check import check_fit, selected
from lakeconf.errors import CommitError, SchemaError
from lakeconf.sql import folded, identifier, literal
from lakeconf.write import writes
from lakeconf.write.ddl import constant
from lakeconf.write.decision import Decision, decide, of_rows, updated
from lakeconf.write.merge_clauses import (
    ACTION,
    DELETE,
    IN_SOURCE,
    INSERT,
    NOTHING,
    UPDATE,
    Clauses,
    Insert,
    Update,
    action,
    is_inserted,
    value,
)
from lakeconf.write.merge_source import Source, merge_source
from lakeconf.write.schema_changes import adopt_for
from lakeconf.write.writes import (
    check_matches,
    check_required,
    constant_row,
    places,
    readable,
    rows_to_change,
    sorted_positions,
)

_GONE = f"{ACTION} IN ('{UPDATE}', '{DELETE}')"


def _add_outcome(
    transaction: Transaction,
    target: Target,
    staged: Staged,
    counts: Mapping[str, int],
    on: Sequence[str],
    decision: Decision,
) -> Decision:
    """Adds the changes of a staged commit that carries out actions on rows, if their files can be a part of it."""
    session, info = transaction.session, target.info
    parts = {kind: _part(transaction, target, staged, kind) for kind in (UPDATE, INSERT) if counts.get(kind)}
    for part in parts.values():
        placed = of_rows(transaction, info, part)
        if not placed.by_spark:
            return placed
    for kind, part in parts.items():
        found = sum(footer.row_count for footer in read_footers(session.writer, part.files))
        updated = f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'"
        is_right = found == counts[kind] and (kind == INSERT or have_row_ids(session.writer, part.files, updated))
        if not is_right:
            raise CommitError(f"Spark wrote other rows of {info.full_name} than those that change: nothing was written")
    gone = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    in_catalog = f"{_GONE} AND {FILE_ID} IS NULL"
    folder = transaction.new_folder(info)
    outcome = Outcome(
        info,
        folder,
        _found(transaction, target, staged, folder, gone, on),
        lambda plan: _search(transaction, target, staged, folder, plan),
        in_catalog=f"rowid IN (SELECT {ROW_ID} FROM ({staged.source}) WHERE {in_catalog})",
        row_count=gone,
    )
    transaction.add(row_change(target, transaction, outcome, decision))
    for kind, part in parts.items():
        transaction.add(row_change(target, transaction, Files(info, part, own_row_ids=kind == UPDATE)))
    return decision


def _part(transaction: Transaction, target: Target, staged: Staged, kind: str) -> Staged:
    """The staged rows of an action, in files that a staged commit can add."""
    token, is_update = transaction.next_token(), kind == UPDATE
    request = StagingRequest(target.info, target.types, token, registered=False, row_ids=is_update)
    return transaction.own(transaction.session.engine.stage_part(staged, f"{ACTION} = '{kind}'", request))


def _gone(transaction: Transaction, staged: Staged) -> nw.LazyFrame[Any]:
    """The staged rows that are updated or deleted, with their ids and positions."""
    engine = transaction.session.engine
    rows: nw.LazyFrame[Any] = nw.from_native(engine.staged_rows(staged, [ROW_ID, ACTION, *places(engine)]))
    return rows.filter(nw.col(ACTION).is_in([UPDATE, DELETE]))


def _found(
    transaction: Transaction, target: Target, staged: Staged, folder: str, gone: int, on: Sequence[str]
) -> Found:
    """The changed rows that are in files; checks that no row changes twice."""
    session, info = transaction.session, target.info
    in_catalog = f"{_GONE} AND {FILE_ID} IS NULL"
    ((count,),) = session.writer.rows(f"SELECT count(*) FROM ({staged.source}) WHERE {in_catalog}")
    check_matches(session.writer, info, staged, on, in_catalog)
    plan = plan_scan(session.reader, writes.quoted_name(info), transaction.snapshot_id, ())
    rows = _gone(transaction, staged).filter(~nw.col(FILE_ID).is_null())
    positions = sorted_positions(transaction, info, folder, rows)
    if positions is None:
        check_matches(session.writer, info, staged, on)
        raise CommitError(f"a row of {info.full_name} would change twice: nothing was written")
    found = Found(transaction.snapshot_id, frozenset(plan.files), positions)
    if found.row_count + count != gone:
        raise CommitError(f"Spark sorted other rows of {info.full_name} than those that change: nothing was written")
    return found


def _search(transaction: Transaction, target: Target, staged: Staged, folder: str, plan: ScanPlan) -> Positions:
    """Finds the changed rows in files of other writers, such as those of a compaction, by their ids."""
    engine = transaction.session.engine
    assert isinstance(engine, SparkOperations)  # noqa: S101 - it has computed the outcome
    rows = engine.find_rows(plan).join(_gone(transaction, staged).select(ROW_ID), on=ROW_ID, how="semi")
    positions = sorted_positions(transaction, target.info, folder, rows)
    if positions is None:
        raise CommitError(f"two rows of {target.info.full_name} have one place: nothing was written")
    return positions


_ON = "__lakeconf_on_"
_DEFAULT = "__lakeconf_default_"
# The staged rows in a statement.
STAGED = "__lakeconf_staged"


def merge(transaction: Transaction, name: str, *, frame: object, clauses: Clauses, evolve: bool) -> None:
    """Adds the changes of a merge; see `Table.merge`."""
    adopted, target = adopt_for(transaction, name, frame, widen=evolve)
    _merge_rows(transaction, target, adopted, clauses)


def _merge_rows(transaction: Transaction, target: Target, adopted: Any, clauses: Clauses) -> None:
    info = target.info
    given = _check_frame(transaction.session.engine, target, adopted, clauses)
    if clauses.deletes_matches and writes.has_rows(transaction, info):
        writes.delete_matches(transaction, target, adopted, selected(info, clauses.on))
        return
    read = readable(transaction, target)
    defaults = _defaults(transaction, target, read, given, clauses)
    source = merge_source(transaction, target, read, adopted, given, clauses)
    joined = _joined(transaction, target, read, source, given, clauses)
    if defaults:
        joined = joined.join(constant_row(source.engine, transaction, target, defaults, _DEFAULT), how="cross")
    default = {name: nw.col(f"{_DEFAULT}{index}") for index, name in enumerate(defaults)}
    names = [*(f"source_{one.name}" for one in given), *(f"target_{one.name}" for one in info.columns)]
    with named_columns(names):
        frame = joined.with_columns(action(clauses).alias(ACTION)).filter(nw.col(ACTION) != NOTHING)
        values = [value(column, given, clauses, default.get(column.name)).alias(column.name) for column in info.columns]
        rows = frame.select(ROW_ID, ACTION, *places(source.engine), *values)
    staged = stage_actions(source.engine, transaction, target, rows, target.types, acted=True)
    carry_out(source.engine, transaction, target, staged, clauses.on, source.decision)


def carry_out(
    engine: Engine, transaction: Transaction, target: Target, staged: Staged, on: Sequence[str], decision: Decision
) -> Decision:
    """Adds the changes that carry out staged actions on rows: an outcome, or statements."""
    session, info = transaction.session, target.info
    counts = dict(session.writer.rows(f"SELECT {ACTION}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    acted = counts.get(UPDATE, 0) + counts.get(DELETE, 0)
    check_required(session.writer, info, staged, target.types, f"{ACTION} IN ('{UPDATE}', '{INSERT}')")
    if acted and isinstance(engine, SparkOperations):
        committed = decide(transaction, info, updated(session, info, counts.get(UPDATE, 0)))
        if committed.by_spark:
            committed = _add_outcome(transaction, target, staged, counts, on, decision)
        if committed.by_spark:
            return committed
        decision = decision._replace(reason=f"{decision.reason}; not staged: {committed.reason}")
    check_matches(session.writer, info, staged, on)
    _add_statements(engine, transaction, target, staged, counts, decision)
    return decision


def _add_statements(
    engine: Engine,
    transaction: Transaction,
    target: Target,
    staged: Staged,
    counts: Mapping[str, int],
    decision: Decision,
) -> None:
    session, info, sql = transaction.session, target.info, dict[str, int]()
    if counts.get(DELETE):
        gone = f"SELECT {ROW_ID} FROM ({staged.source}) WHERE {ACTION} = '{DELETE}'"
        sql[f"DELETE FROM {writes.quoted(session, info)} WHERE rowid IN ({gone})"] = counts[DELETE]
    if counts.get(UPDATE):
        settings = {column.name: f"{STAGED}.{identifier(column.name)}" for column in info.columns}
        updated = f"SELECT * FROM ({staged.source}) WHERE {ACTION} = '{UPDATE}'"
        sql[update_statement(session, target, settings, updated)] = counts[UPDATE]
    statements = Statements(tuple(sql), tuple(sql.values()), deletes=True)
    transaction.add(row_change(target, transaction, statements, decision))
    if counts.get(INSERT):
        request = StagingRequest(info, target.types, transaction.next_token())
        inserted = transaction.own(engine.stage_part(staged, f"{ACTION} = '{INSERT}'", request))
        if transaction.wanted == "spark":
            of_rows(transaction, info, inserted)
        transaction.add(
            Change(info.full_name, Files(info, inserted), written_for=writes.written_for(transaction, info))
        )


def row_change(target: Target, transaction: Transaction, body: Body, decision: Decision | None = None) -> Change:
    """A change of rows that is based on a read of the table."""
    info = target.info
    depends_on = writes.read_dependency(transaction, info)
    way = None if decision is None else str(decision)
    return Change(info.full_name, body, depends_on, written_for=writes.written_for(transaction, info), decision=way)


def _check_frame(engine: Engine, target: Target, adopted: Any, clauses: Clauses) -> tuple[Column, ...]:
    """Checks a frame, and returns the table's columns that it has."""
    if not clauses.on:
        raise SchemaError("a merge needs columns to match on", hint='write merge(frame, on="id")')
    info, types = target.info, target.types
    found = engine.schema(adopted)
    names = {folded(name) for name in found}
    given = tuple(column for column in info.columns if folded(column.name) in names)
    check_fit(info.full_name, found, {column.name: types[column.name] for column in info.columns}, all_columns=False)
    for key in selected(info, clauses.on):
        if key not in given:
            raise SchemaError(
                f"the frame lacks the column {key.name!r}, which the merge matches on",
                hint="add it to the frame, or match on other columns",
            )
    for clause in (*clauses.matched, clauses.not_matched):
        if isinstance(clause, Update | Insert):
            values = clause.values or {}
            for column, value in zip(columns_named(info, list(values)), values.values(), strict=True):
                if not isinstance(value, nw.Expr):
                    constant(value, types[column.name])  # as an error, because the merge would round it
    return given


def _defaults(
    transaction: Transaction, target: Target, read: TableInfo, given: Sequence[Column], clauses: Clauses
) -> dict[str, str]:
    """The defaults of the columns for which a merge inserts no value, as SQL; a column without one gets NULL."""
    info, update_only = target.info, "or only update rows: merge(…, not_matched=None)"
    lacking = [column for column in info.columns if clauses.not_matched and not is_inserted(column, given, clauses)]
    if not lacking:
        return {}
    options = table_options(transaction.session.reader, read, transaction.snapshot_id)
    known = {column.name for column in read.columns}
    for column in lacking:
        missing = f"the merge has no value for the column {column.name!r} of {info.full_name}"
        if column.name not in known:
            raise SchemaError(
                f"{missing}, which this transaction adds", hint=f"add it to the frame, {update_only}, or commit first"
            )
        if column.name in options.computed:
            raise SchemaError(f"{missing}, whose default is an expression", hint=f"add it to the frame, {update_only}")
        if not column.nullable and column.name not in options.defaults:
            raise SchemaError(
                f"{missing}, which is NOT NULL and has no default", hint=f"add it to the frame, {update_only}"
            )
    return {
        column.name: literal(options.defaults[column.name]) for column in lacking if column.name in options.defaults
    }


def _joined(
    transaction: Transaction, target: Target, read: TableInfo, source: Source, given: Sequence[Column], clauses: Clauses
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
    """Stages rows that say what becomes of rows of the table."""
    native = nw.to_native(rows)
    own = {ROW_ID: "BIGINT"}
    own |= {ACTION: "VARCHAR", **dict.fromkeys(places(engine), "BIGINT")} if acted else {}
    found = {name: text for name, text in engine.schema(native).items() if name not in own}
    check_fit(target.info.full_name, found, types)
    request = StagingRequest(target.info, {**own, **types}, transaction.next_token())
    return transaction.own(engine.stage_rows(native, request))


def settings_of(settings: Mapping[str, str]) -> str:
    """The SQL after SET, from SQL values by column name."""
    return ", ".join(f"{identifier(name)} = {value}" for name, value in settings.items())


def update_statement(session: Session, target: Target, settings: Mapping[str, str], source: str) -> str:
    """The statement that sets columns in the rows whose ids staged rows have."""
    table = writes.quoted(session, target.info)
    rowid = f"{identifier(target.info.name)}.rowid"
    return f"UPDATE {table} SET {settings_of(settings)} FROM ({source}) AS {STAGED} WHERE {rowid} = {STAGED}.{ROW_ID}"
