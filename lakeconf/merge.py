"""Merges and updates: the engine finds the rows by a join and writes the outcome down, DuckDB commits it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal, cast

import narwhals as nw

from lakeconf import writes
from lakeconf.catalog.predicate import to_duckdb_sql
from lakeconf.catalog.table import Column, load_table
from lakeconf.catalog.where import Where, parse
from lakeconf.definition import NO_ID, constant
from lakeconf.engines.base import ROW_ID, Staged
from lakeconf.engines.selection import check_fit, full_name, selected
from lakeconf.errors import LakeconfError, SchemaError, UnsupportedError
from lakeconf.sql import identifier
from lakeconf.staged_rows import check_matches, check_required
from lakeconf.transaction import Change, LakeState, Target, Transaction

_ACTION, _IN_SOURCE, _ON = "__lakeconf_action", "__lakeconf_in_source", "__lakeconf_on_"
_NOTHING, _UPDATE, _DELETE, _INSERT = "", "update", "delete", "insert"
_STAGED = "__lakeconf_staged"


@dataclass(frozen=True)
class Update:
    """Sets columns of a matched row.

    Attributes:
        values: New values by column: a constant, or a narwhals expression over `source_<name>` and `target_<name>`;
            where None, every column that the frame has is set to the frame's.
        when: The condition; always where None.
    """

    values: Mapping[str, object] | None = None
    when: nw.Expr | None = None


@dataclass(frozen=True)
class Delete:
    """Deletes a row of the table.

    Attributes:
        when: The condition; always where None.
    """

    when: nw.Expr | None = None


@dataclass(frozen=True)
class Insert:
    """Inserts a row of the frame.

    Attributes:
        when: The condition; always where None.
    """

    when: nw.Expr | None = None


@dataclass(frozen=True)
class Clauses:
    """What a merge does; see `Table.merge`."""

    on: tuple[str, ...]
    matched: tuple[Update | Delete, ...]
    not_matched: Insert | None
    not_matched_by_source: Delete | None


def update_rows(
    state: LakeState, target: Target, transaction: Transaction, values: Mapping[str, object], where: Where
) -> None:
    """Adds the change that sets columns of the rows that satisfy a condition; see `Table.update`."""
    info, types = target.info, target.types
    named = {column.name: value for column, value in zip(selected(info, list(values)), values.values(), strict=True)}
    computed = {name: value for name, value in named.items() if isinstance(value, nw.Expr)}
    settings = {
        name: f"{_STAGED}.{identifier(name)}" if name in computed else constant(value, types[name])
        for name, value in named.items()
    }
    if not computed:
        condition = to_duckdb_sql(parse(where, info.columns))
        sql = f"UPDATE {writes.quoted(state, info)} SET {_settings(settings)} WHERE {condition}"
        transaction.add(_change(target, transaction, (sql,)))
        return
    rows = _rows(state, target, where).select(ROW_ID, *(value.alias(name) for name, value in computed.items()))
    wanted = {name: types[name] for name in computed}
    staged = _stage(state, target, transaction, rows, wanted)
    transaction.add(_change(target, transaction, (_update(state, target, settings, staged.source),), staged))
    check_required(state, target.info, staged, wanted)


def merge_rows(state: LakeState, target: Target, transaction: Transaction, adopted: Any, clauses: Clauses) -> None:
    """Adds the changes of a merge; see `Table.merge`."""
    info = target.info
    given = _check_frame(state, target, adopted, clauses)
    joined = _joined(state, target, adopted, given, clauses)
    frame = joined.with_columns(_action(clauses).alias(_ACTION)).filter(nw.col(_ACTION) != _NOTHING)
    values = [_value(column, given, clauses).alias(column.name) for column in info.columns]
    staged = _stage(state, target, transaction, frame.select(ROW_ID, _ACTION, *values), target.types, acted=True)
    change = _change(target, transaction, (), staged)
    transaction.add(change)
    counts = dict(state.writer.rows(f"SELECT {_ACTION}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    check_matches(state, target.info, staged, clauses.on)
    check_required(state, target.info, staged, target.types, f"{_ACTION} IN ('{_UPDATE}', '{_INSERT}')")
    statements: tuple[str, ...] = ()
    if counts.get(_DELETE):
        gone = f"SELECT {ROW_ID} FROM ({staged.source}) WHERE {_ACTION} = '{_DELETE}'"
        statements += (f"DELETE FROM {writes.quoted(state, info)} WHERE rowid IN ({gone})",)
    if counts.get(_UPDATE):
        settings = {column.name: f"{_STAGED}.{identifier(column.name)}" for column in info.columns}
        updated = f"SELECT * FROM ({staged.source}) WHERE {_ACTION} = '{_UPDATE}'"
        statements += (_update(state, target, settings, updated),)
    # The inserted ones are counted with the files that hold them.
    acted = replace(staged, row_count=counts.get(_DELETE, 0) + counts.get(_UPDATE, 0))
    transaction.changes[-1] = replace(change, statements=statements, staged=acted)
    if counts.get(_INSERT):
        part = f"{_ACTION} = '{_INSERT}'"
        token = transaction.next_token()
        inserted = state.engine.stage_part(staged, part, info, target.types, state.writer, token)
        statements = writes.insert(state, info, inserted)
        transaction.add(Change(statements, full_name(info), inserted, written_for=change.written_for))


def _change(
    target: Target, transaction: Transaction, statements: tuple[str, ...], staged: Staged | None = None
) -> Change:
    """A change that has read the table, and updates or deletes rows of it."""
    return Change(
        statements,
        full_name(target.info),
        staged,
        relies_on=writes.reliance(target.info),
        deletes=True,
        written_for=writes.written_for(transaction, target.info),
    )


def _check_frame(state: LakeState, target: Target, adopted: Any, clauses: Clauses) -> tuple[Column, ...]:
    """The table's columns that the frame has, checked."""
    if not clauses.on:
        raise SchemaError("a merge needs columns to match by", hint='merge(frame, on="id")')
    info, types = target.info, target.types
    found = state.engine.schema(adopted)
    names = {name.lower() for name in found}
    given = tuple(column for column in info.columns if clauses.not_matched or column.name.lower() in names)
    check_fit(full_name(info), found, {column.name: types[column.name] for column in given})
    for key in selected(info, clauses.on):
        if key not in given:
            raise SchemaError(f"the frame lacks the column {key.name!r}, by which the merge matches")
    for clause in clauses.matched:
        if isinstance(clause, Update):
            selected(info, list(clause.values or ()))
    return given


def _joined(
    state: LakeState, target: Target, adopted: Any, given: Sequence[Column], clauses: Clauses
) -> nw.LazyFrame[Any]:
    """The frame's rows beside those of the table that they match."""
    conformed: nw.LazyFrame[Any] = nw.from_native(state.engine.conform(adopted, given, target.types))
    source = conformed.select(nw.col(column.name).alias(f"source_{column.name}") for column in given)
    source = source.with_columns(nw.lit(1).alias(_IN_SOURCE))
    keys = selected(target.info, clauses.on)
    ons = [nw.col(key.name).alias(f"{_ON}{index}") for index, key in enumerate(keys)]
    columns = [nw.col(column.name).alias(f"target_{column.name}") for column in target.info.columns]
    rows = _rows(state, target, None).select(ROW_ID, *ons, *columns)
    how: Literal["full", "left", "inner"] = (
        "full" if clauses.not_matched_by_source else "left" if clauses.not_matched else "inner"
    )
    return source.join(
        rows,
        how=how,
        left_on=[f"source_{key.name}" for key in keys],
        right_on=[f"{_ON}{index}" for index in range(len(keys))],
    )


def _action(clauses: Clauses) -> nw.Expr:
    in_source, in_target = ~nw.col(_IN_SOURCE).is_null(), ~nw.col(ROW_ID).is_null()
    cases: list[tuple[nw.Expr, str]] = []
    for clause in clauses.matched:
        matched = in_source & in_target
        name = _DELETE if isinstance(clause, Delete) else _UPDATE
        cases.append((matched if clause.when is None else matched & clause.when, name))
    if clauses.not_matched:
        when = clauses.not_matched.when
        cases.append((~in_target if when is None else ~in_target & when, _INSERT))
    if clauses.not_matched_by_source:
        when = clauses.not_matched_by_source.when
        cases.append((~in_source if when is None else ~in_source & when, _DELETE))
    return _first(cases, nw.lit(_NOTHING))


def _value(column: Column, given: Sequence[Column], clauses: Clauses) -> nw.Expr:
    """What a column is after the merge."""
    ours, theirs = nw.col(f"target_{column.name}"), nw.col(f"source_{column.name}")
    cases: list[tuple[nw.Expr, object]] = []
    matched = ~nw.col(_IN_SOURCE).is_null() & ~nw.col(ROW_ID).is_null()
    for clause in clauses.matched:
        value: object = theirs if column in given else ours
        if isinstance(clause, Update) and clause.values is not None:
            by_name = {name.lower(): given_value for name, given_value in clause.values.items()}
            value = by_name.get(column.name.lower(), ours)
        cases.append((matched if clause.when is None else matched & clause.when, value))
    default = theirs if column in given else ours
    return default if all(value is default for _, value in cases) else _first(cases, default)


def _first(cases: Sequence[tuple[nw.Expr, object]], default: nw.Expr) -> nw.Expr:
    """The value of the first case whose condition holds."""

    def otherwise(rest: nw.Expr, case: tuple[nw.Expr, object]) -> nw.Expr:
        condition, value = case
        then = value if isinstance(value, nw.Expr) else nw.lit(cast("Any", value))
        return nw.when(condition).then(then).otherwise(rest)

    return reduce(otherwise, reversed(cases), default)


def _rows(state: LakeState, target: Target, where: Where | None) -> nw.LazyFrame[Any]:
    """The table's rows at the read snapshot, each with its row id."""
    info = target.info
    if info.table_id == NO_ID:
        raise LakeconfError(
            f"{full_name(info)} is made in this transaction, so that there is nothing to compare with yet",
            hint="append to it",
        )
    if any(column.name.lower() == "rowid" for column in info.columns):
        raise UnsupportedError(
            f"a column of {full_name(info)} is called rowid and hides DuckLake's own, by which rows are told apart",
            hint="rename the column: table.evolve(rename={'rowid': …})",
        )
    name = full_name(info)
    read = {column.name for column in load_table(state.reader, _quoted_name(target), state.snapshot_id).columns}
    rows = state.engine.scan_rows(state.reader, _quoted_name(target), state.snapshot_id, where)
    new = {column.name: target.types[column.name] for column in info.columns if column.name not in read}
    if len(read) + len(new) != len(info.columns):
        raise LakeconfError(f"columns of {name} were renamed or dropped in this transaction", hint="commit it first")
    return rows.with_columns(nw.lit(None).alias(column) for column in new) if new else rows


def _quoted_name(target: Target) -> str:
    return f"{identifier(target.info.schema_name)}.{identifier(target.info.name)}"


def _stage(
    state: LakeState,
    target: Target,
    transaction: Transaction,
    rows: nw.LazyFrame[Any],
    types: Mapping[str, str],
    *,
    acted: bool = False,
) -> Staged:
    native = nw.to_native(rows)
    own = {ROW_ID: "BIGINT"} | ({_ACTION: "VARCHAR"} if acted else {})
    found = {name: text for name, text in state.engine.schema(native).items() if name not in own}
    check_fit(full_name(target.info), found, types)
    return state.engine.stage_rows(native, target.info, {**own, **types}, state.writer, transaction.next_token())


def _settings(settings: Mapping[str, str]) -> str:
    return ", ".join(f"{identifier(name)} = {value}" for name, value in settings.items())


def _update(state: LakeState, target: Target, settings: Mapping[str, str], source: str) -> str:
    table = writes.quoted(state, target.info)
    rowid = f"{identifier(target.info.name)}.rowid"
    return f"UPDATE {table} SET {_settings(settings)} FROM ({source}) AS {_STAGED} WHERE {rowid} = {_STAGED}.{ROW_ID}"
