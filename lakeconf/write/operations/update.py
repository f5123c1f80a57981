"""Updates: one statement with constants, a statement with staged values, or files of updated rows that Spark writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import narwhals as nw

from lakeconf.catalog.pruning.predicates import Predicate, columns_of, split, to_duckdb_sql
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.pruning.where import Where, check_constants, named_columns, predicate_of
from lakeconf.commit.actions import Action, RunSql, Target
from lakeconf.commit.moved_values import inexact_types, unchecked_columns
from lakeconf.connection.connection import Connection
from lakeconf.engines.engine import DUCKDB, ROW_ID, Staged, spark_operations
from lakeconf.engines.schema_check import selected
from lakeconf.engines.spark.column_expressions import as_narwhals
from lakeconf.errors import CatalogError, LakeconfError, SchemaError, StorageError
from lakeconf.logs import event_logger
from lakeconf.sql import folded, identifier
from lakeconf.write.changed_rows import (
    ACTION,
    STAGED,
    UPDATE,
    check_required,
    constant_row,
    place_columns,
    readable_table,
    rows_to_change,
    settings_of,
    stage_changed_rows,
    update_statement,
)
from lakeconf.write.constants import constant
from lakeconf.write.context import StartsFromLatest, WriteContext, quoted_name
from lakeconf.write.operations.merge.row_actions import merge_actions
from lakeconf.write.strategy import Strategy

_log = event_logger("stage")
# Columns with the new constants, which the executors read from a frame of one row.
_CONSTANT = "__lakeconf_constant_"


@dataclass(frozen=True)
class UpdateRows(StartsFromLatest):
    """Sets columns in the rows that satisfy a condition; see `Table.update`."""

    values: Mapping[str, object]
    where: Where

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Computes the new values, or leaves constants to a statement at the commit."""
        target = context.target()
        update = _update_of(self, target)
        strategy, staged = _strategy(context, target, update)
        if staged is not None:
            return merge_actions(context, target, staged, (), strategy)
        if update.computed:
            return [_with_staged_values(context, target, update, strategy)]
        settings, condition = settings_of(update.constants), to_duckdb_sql(update.predicate)
        sql = f"UPDATE {context.quoted(target.info)} SET {settings} WHERE {condition}"
        return [replace(update.statement(target, sql, strategy), depends_on=context.dependency_at_commit(target.info))]


@dataclass(frozen=True)
class _Update:
    """An update with the names of its columns checked."""

    predicate: Predicate
    computed: Mapping[str, nw.Expr]  # the new values that are expressions, by column
    constants: Mapping[str, str]  # the others, as SQL

    def statement(self, target: Target, sql: str, strategy: Strategy) -> RunSql:
        """The action of a statement; the caller adds what it depends on."""
        values = {**self.computed, **self.constants}
        # It stores the values of the other columns again.
        kept_columns = [name for name in target.types if name not in values]
        used = [column.name for column in columns_of(self.predicate)]
        target.evolved.check_read(target.info.full_name, [*kept_columns, *used])
        kept = inexact_types(target.types, values)
        # The values of the others are checked when they are staged.
        required = unchecked_columns(target.info.columns, [*map(folded, self.constants)])
        return RunSql(
            table=target.info.full_name,
            sql=(sql,),
            deletes=True,
            kept=kept,
            required=required,
            written_for=target.stored,
            strategy=str(strategy),
        )


def _update_of(operation: UpdateRows, target: Target) -> _Update:
    values, info, types = operation.values, target.info, target.types
    if not isinstance(values, Mapping) or not values:  # type: ignore[redundant-expr]  # callers are untyped
        raise SchemaError(
            "there are no new values, or they are not a dictionary", hint='write update({"kind": "sale"}, where=…)'
        )
    named = {
        column.name: as_narwhals(value)
        for column, value in zip(selected(info, list(values)), values.values(), strict=True)
    }
    computed = {name: value for name, value in named.items() if isinstance(value, nw.Expr)}
    check_constants([*computed.values()])
    constants = {name: constant(value, types[name]) for name, value in named.items() if name not in computed}
    return _Update(predicate_of(operation.where, info.columns), computed, constants)


def _strategy(context: WriteContext, target: Target, update: _Update) -> tuple[Strategy, Staged | None]:
    """Who updates the rows; and the updated rows, if Spark does."""
    strategist = context.strategist(target)
    obstacle = strategist.obstacle()
    if obstacle is not None:
        return strategist.by_statement(obstacle), None
    try:
        return _stage(context, target, update)
    except StorageError:
        raise  # DuckDB would fail after the same work
    except LakeconfError as error:
        # DuckDB updates the rows, or raises the error of the update: Spark may not compute what DuckDB computes.
        _log.info("DuckDB updates the rows of %s: %s", target.info.full_name, error.message)
        return strategist.after_error(error), None


def _stage(context: WriteContext, target: Target, update: _Update) -> tuple[Strategy, Staged | None]:
    """Stages the updated rows with all their columns; None if a statement should update them."""
    session, info, types = context.session, target.info, target.types
    engine, strategist, predicate = session.engine, context.strategist(target), update.predicate
    plan = plan_scan(session.reader, quoted_name(info), context.snapshot_id, (), predicate)
    strategy = strategist.update_files(plan)
    if not strategy.by_spark:
        return strategy, None
    read = readable_table(context, target)
    rows = rows_to_change(context, engine, target, read, predicate)
    if session.committer == "auto" and context.engine is None:
        strategy = strategist.update(spark_operations(engine, "a count of rows").count(rows))
        if not strategy.by_spark:
            return strategy, None
    new = dict(update.computed)
    new |= {name: nw.col(f"{_CONSTANT}{index}") for index, name in enumerate(update.constants)}
    if update.constants:
        rows = rows.join(constant_row(context, engine, target, update.constants, _CONSTANT), how="cross")
    with named_columns(types):
        values = [new.get(name, nw.col(name)).alias(name) for name in types]
        rows = rows.select(ROW_ID, nw.lit(UPDATE).alias(ACTION), *place_columns(engine), *values)
    return strategy, stage_changed_rows(context, engine, target, rows, types, has_actions=True)


def _with_staged_values(context: WriteContext, target: Target, update: _Update, strategy: Strategy) -> RunSql:
    """The statement that sets values which an engine has computed."""
    session, info, types = context.session, target.info, target.types
    read = readable_table(context, target, update.computed)
    # DuckDB understands every condition.
    by_duckdb = context.engine == DUCKDB or split(update.predicate)[1] is not None
    engine = (session.engine.for_small_merges() if by_duckdb else None) or session.engine
    rows = rows_to_change(context, engine, target, read, update.predicate)
    with named_columns(types):
        rows = rows.select(ROW_ID, *(value.alias(name) for name, value in update.computed.items()))
    computed = {name: types[name] for name in update.computed}
    staged = stage_changed_rows(context, engine, target, rows, computed)
    settings = {**update.constants, **{name: f"{STAGED}.{identifier(name)}" for name in update.computed}}
    count = _distinct_count(session.writer, info.full_name, staged)
    check_required(session.writer, info, staged, computed)
    action = update.statement(target, update_statement(context, target, settings, staged.source), strategy)
    return replace(action, counts=(count,), depends_on=context.dependency(info))


def _distinct_count(writer: Connection, table: str, staged: Staged) -> int:
    """The number of staged rows, each of which has a row id of its own."""
    ((count, different),) = writer.rows(f"SELECT count(*), count(DISTINCT {ROW_ID}) FROM ({staged.source})")
    if count != different:
        raise CatalogError(
            f"several rows of {table} have the same row id, as after a merge of its files by DuckLake: nothing was "
            "written",
            hint="give them other ids, by writing the rows again: table.overwrite(table.scan())",
        )
    return int(count)
