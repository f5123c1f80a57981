"""The join of a merge: the rows of a frame with the rows of the table that match, and what becomes of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import duckdb
import narwhals as nw

from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.pruning.predicates import Predicate
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.pruning.where import named_columns
from lakeconf.catalog.table_options import table_options
from lakeconf.catalog.tables import Column, TableInfo, columns_named
from lakeconf.commit.actions import Target
from lakeconf.engines.engine import ROW_ID, Engine, Staged, StagingRequest
from lakeconf.engines.schema_check import check_fit, selected
from lakeconf.errors import SchemaError
from lakeconf.logs import event_logger
from lakeconf.sql import folded, literal
from lakeconf.write import strategy
from lakeconf.write.capabilities import engine_obstacle
from lakeconf.write.changed_rows import (
    ACTION,
    NOTHING,
    constant_row,
    place_columns,
    rows_to_change,
    stage_changed_rows,
)
from lakeconf.write.constants import constant
from lakeconf.write.context import WriteContext, quoted_name
from lakeconf.write.operations.merge.clauses import (
    IN_SOURCE,
    Clauses,
    Insert,
    Update,
    action_of,
    is_inserted,
    value_after,
)
from lakeconf.write.operations.merge.key_bounds import key_bounds
from lakeconf.write.strategy import Strategy

_log = event_logger("stage")
_ON = "__lakeconf_on_"
_DEFAULT = "__lakeconf_default_"


@dataclass(frozen=True)
class JoinSource:
    """The rows of a merge's frame, and how to join them with the table."""

    rows: Any  # a frame of `engine` with the table's columns that the merge's frame has, in the table's types
    engine: Engine
    strategy: Strategy
    where: Predicate | None = None  # a condition for the rows of the table that can match; None for all rows


def checked_columns(context: WriteContext, target: Target, frame: Any, clauses: Clauses) -> tuple[Column, ...]:
    """Checks a frame and the clauses, and returns the table's columns that the frame has."""
    if not clauses.on:
        raise SchemaError("a merge needs columns to match on", hint='write merge(frame, on="id")')
    info, types = target.info, target.types
    schema = context.session.engine.schema(frame)
    names = {folded(name) for name in schema}
    in_frame = tuple(column for column in info.columns if folded(column.name) in names)
    check_fit(info.full_name, schema, {column.name: types[column.name] for column in info.columns}, all_columns=False)
    for key in selected(info, clauses.on):
        if key not in in_frame:
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
    return in_frame


def join_source(
    context: WriteContext, target: Target, read: TableInfo, frame: Any, in_frame: Sequence[Column], clauses: Clauses
) -> JoinSource:
    """Prepares the frame of a merge; on Spark, stages it first, so that it is computed once."""
    session, engine, strategist = context.session, context.session.engine, context.strategist(target)
    types = {column.name: target.types[column.name] for column in in_frame}
    conformed = engine.conform(frame, {column: target.types[column.name] for column in in_frame})
    small = engine.for_small_merges()
    if small is None or isinstance(conformed, duckdb.DuckDBPyRelation):
        only = "the frame is one of DuckDB" if small else str(engine_obstacle(session))
        return JoinSource(conformed, small or engine, strategist.by_statement(only))
    request = StagingRequest(target.info, types, context.staging.next_token())
    staged = context.staging.own(engine.stage_rows(conformed, request))
    size = sum(footer.file_size_bytes for footer in read_footers(session.writer, staged.files))
    where = None if clauses.not_matched_by_source else _matching(context, read, staged, size, clauses)
    plan = plan_scan(session.reader, quoted_name(target.info), context.snapshot_id, None, where)
    chosen = strategist.merge(plan, size)
    _log.info("merge into %s by %s", target.info.full_name, chosen)
    joining = engine if chosen.by_spark else small
    return JoinSource(joining.staged_rows(staged, list(types)), joining, chosen, where)


def staged_join(
    context: WriteContext,
    target: Target,
    read: TableInfo,
    source: JoinSource,
    in_frame: Sequence[Column],
    clauses: Clauses,
) -> Staged:
    """Stages the rows that change, each with its action."""
    info = target.info
    defaults = _defaults(context, target, read, in_frame, clauses)
    joined = _joined(context, target, read, source, in_frame, clauses)
    if defaults:
        joined = joined.join(constant_row(context, source.engine, target, defaults, _DEFAULT), how="cross")
    default = {name: nw.col(f"{_DEFAULT}{index}") for index, name in enumerate(defaults)}
    names = [f"source_{column.name}" for column in in_frame] + [f"target_{column.name}" for column in info.columns]
    with named_columns(names):
        frame = joined.with_columns(action_of(clauses).alias(ACTION)).filter(nw.col(ACTION) != NOTHING)
        values = [
            value_after(column, in_frame, clauses, default.get(column.name)).alias(column.name)
            for column in info.columns
        ]
        rows = frame.select(ROW_ID, ACTION, *place_columns(source.engine), *values)
    return stage_changed_rows(context, source.engine, target, rows, target.types, has_actions=True)


def _matching(context: WriteContext, read: TableInfo, staged: Staged, size: int, clauses: Clauses) -> Predicate | None:
    """The condition for rows that can match, on the columns of the table at the read snapshot."""
    names = set(map(folded, clauses.on))
    keys = [key for key in read.columns if folded(key.name) in names]
    partitioned = {field.field_id for field in read.partition_fields}
    listed = [key for key in keys if key.field_id in partitioned and size <= strategy.MOST_FRAME_BYTES]
    return key_bounds(context.session.writer, staged.files, keys, listed)


def _joined(
    context: WriteContext,
    target: Target,
    read: TableInfo,
    source: JoinSource,
    in_frame: Sequence[Column],
    clauses: Clauses,
) -> nw.LazyFrame[Any]:
    """The frame's rows, joined with the matching rows of the table."""
    frame: nw.LazyFrame[Any] = nw.from_native(source.rows)
    frame = frame.select(nw.col(column.name).alias(f"source_{column.name}") for column in in_frame)
    frame = frame.with_columns(nw.lit(1).alias(IN_SOURCE))
    keys = selected(target.info, clauses.on)
    ons = [nw.col(key.name).alias(f"{_ON}{index}") for index, key in enumerate(keys)]
    columns = [nw.col(column.name).alias(f"target_{column.name}") for column in target.info.columns]
    rows = rows_to_change(context, source.engine, target, read, source.where)
    rows = rows.select(ROW_ID, *place_columns(source.engine), *ons, *columns)
    how: Literal["full", "left", "inner"] = (
        "full" if clauses.not_matched_by_source else "left" if clauses.not_matched else "inner"
    )
    return frame.join(
        rows,
        how=how,
        left_on=[f"source_{key.name}" for key in keys],
        right_on=[f"{_ON}{index}" for index in range(len(keys))],
    )


def _defaults(
    context: WriteContext, target: Target, read: TableInfo, in_frame: Sequence[Column], clauses: Clauses
) -> Mapping[str, str]:
    """The defaults of the columns for which a merge inserts no value, as SQL; a column without one gets NULL."""
    info, update_only = target.info, "or only update rows: merge(…, not_matched=None)"
    lacking = [column for column in info.columns if clauses.not_matched and not is_inserted(column, in_frame, clauses)]
    if not lacking:
        return {}
    options = table_options(context.session.reader, read, context.snapshot_id)
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
