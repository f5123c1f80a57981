"""Updates: one statement with constants, a statement with staged values, or files of updated rows that Spark writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

import narwhals as nw

from lakeconf.catalog.pruning.predicates import Predicate, split, to_duckdb_sql
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.pruning.where import Where, check_constants, named_columns, predicate_of
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import NO_ID
from lakeconf.commit.change import Statements
from lakeconf.commit.moved_values import inexact_types, unchecked_columns
from lakeconf.commit.transaction import DUCKDB, Target, Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.engine import ROW_ID, SparkOperations, Staged
from lakeconf.engines.schema_check import selected
from lakeconf.errors import CatalogError, LakeconfError, SchemaError, StorageError
from lakeconf.logs import EventLogger
from lakeconf.sql import folded, identifier
from lakeconf.write import writes
from lakeconf.write.ddl import constant
from lakeconf.write.decision import (
    SEVERAL,
    Decision,
    after_error,
    by_size,
    by_statement,
    decide,
    engine_refusal,
    updated,
)
from lakeconf.write.merge import STAGED, carry_out, row_change, settings_of, stage_actions, update_statement
from lakeconf.write.merge_clauses import ACTION, UPDATE
from lakeconf.write.writes import check_required, constant_row, places, readable, rows_to_change

_log = EventLogger("stage")
# Columns with the new constants, which the executors read from a frame of one row.
_CONSTANT = "__lakeconf_constant_"


def update(transaction: Transaction, name: str, *, values: Mapping[str, object], where: Where) -> None:
    """Adds the change that updates the rows that satisfy a condition; see `Table.update`."""
    session, target = transaction.session, writes.target(transaction, name)
    info, types = target.info, target.types
    if not isinstance(values, Mapping) or not values:  # type: ignore[redundant-expr]  # callers are untyped
        raise SchemaError(
            "there are no new values, or they are not a dictionary", hint='write update({"kind": "sale"}, where=…)'
        )
    named = {column.name: value for column, value in zip(selected(info, list(values)), values.values(), strict=True)}
    computed = {name: value for name, value in named.items() if isinstance(value, nw.Expr)}
    check_constants([*computed.values()])
    constants = {name: constant(value, types[name]) for name, value in named.items() if name not in computed}
    predicate = predicate_of(where, info.columns)
    decision = _decided(transaction, target, partial(_stage, transaction, target, predicate, computed, constants))
    if decision.by_spark:
        return
    if not computed:
        sql = f"UPDATE {writes.quoted(session, info)} SET {settings_of(constants)} WHERE {to_duckdb_sql(predicate)}"
        depends_on = writes.read_dependency_at_commit(transaction, info)
        required = unchecked_columns(info.columns, [*map(folded, named)])
        statement = Statements((sql,), deletes=True, kept=inexact_types(types, named), required=required)
        transaction.add(replace(row_change(target, transaction, statement, decision), depends_on=depends_on))
        return
    settings = {name: constants.get(name, f"{STAGED}.{identifier(name)}") for name in named}
    read = readable(transaction, target, computed)
    # DuckDB understands every condition.
    by_duckdb = transaction.wanted == DUCKDB or split(predicate)[1] is not None
    engine = (session.engine.for_small_merges() if by_duckdb else None) or session.engine
    rows = rows_to_change(engine, transaction, target, read, predicate)
    with named_columns(types):
        rows = rows.select(ROW_ID, *(value.alias(name) for name, value in computed.items()))
    wanted = {name: types[name] for name in computed}
    staged = stage_actions(engine, transaction, target, rows, wanted)
    sql = update_statement(session, target, settings, staged.source)
    counts = (_count(session.writer, info.full_name, staged),)
    required = unchecked_columns(info.columns, [*map(folded, constants)])
    statement = Statements((sql,), counts, deletes=True, kept=inexact_types(types, named), required=required)
    transaction.add(row_change(target, transaction, statement, decision))
    check_required(session.writer, target.info, staged, wanted)


def _decided(transaction: Transaction, target: Target, stage: Callable[[], tuple[Decision, Staged | None]]) -> Decision:
    """Decides who updates the rows, and adds the changes if Spark does."""
    info = target.info
    refused = SEVERAL if info.table_id == NO_ID else engine_refusal(transaction.session, transaction.wanted)
    if refused is not None:
        return by_statement(transaction, info, refused)
    try:
        decision, staged = stage()
    except StorageError:
        raise  # DuckDB would fail after the same work
    except LakeconfError as error:
        # DuckDB updates the rows, or raises the error of the update: Spark may refuse what DuckDB computes.
        _log.info("DuckDB updates the rows of %s: %s", info.full_name, error.message)
        return after_error(transaction, error)
    return (
        decision if staged is None else carry_out(transaction.session.engine, transaction, target, staged, (), decision)
    )


def _stage(
    transaction: Transaction,
    target: Target,
    predicate: Predicate,
    computed: Mapping[str, nw.Expr],
    constants: Mapping[str, str],
) -> tuple[Decision, Staged | None]:
    """Stages the updated rows with all their columns; None if a statement should update them."""
    session, info, types = transaction.session, target.info, target.types
    engine = session.engine
    assert isinstance(engine, SparkOperations)  # noqa: S101 - checked before
    plan = plan_scan(session.reader, writes.quoted_name(info), transaction.snapshot_id, (), predicate)
    decision = decide(transaction, info, updated(session, info, sum(file.record_count for file in plan.files)))
    if decision.by_spark and not computed and latest(session.reader).snapshot_id != transaction.snapshot_id:
        # A statement also updates the rows of newer snapshots; an outcome would be a conflict.
        decision = by_statement(transaction, info, "the lake is not at the latest snapshot")
    if not decision.by_spark:
        return decision, None
    read = readable(transaction, target)
    rows = rows_to_change(session.engine, transaction, target, read, predicate)
    if session.committer == "auto" and transaction.wanted is None:
        decision = by_size(session, updated(session, info, engine.count(rows)))
        if not decision.by_spark:
            return decision, None
    new = {**computed, **{name: nw.col(f"{_CONSTANT}{index}") for index, name in enumerate(constants)}}
    if constants:
        rows = rows.join(constant_row(engine, transaction, target, constants, _CONSTANT), how="cross")
    with named_columns(types):
        chosen = [new.get(name, nw.col(name)).alias(name) for name in types]
        rows = rows.select(ROW_ID, nw.lit(UPDATE).alias(ACTION), *places(session.engine), *chosen)
    return decision, stage_actions(session.engine, transaction, target, rows, types, acted=True)


def _count(writer: Connection, table: str, staged: Staged) -> int:
    """The number of staged rows, each of which has a row id of its own."""
    ((count, different),) = writer.rows(f"SELECT count(*), count(DISTINCT {ROW_ID}) FROM ({staged.source})")
    if count != different:
        raise CatalogError(
            f"several rows of {table} have the same row id, as after a merge of its files by DuckLake: nothing was "
            "written",
            hint="give them other ids, by writing the rows again: table.overwrite(table.scan())",
        )
    return int(count)
