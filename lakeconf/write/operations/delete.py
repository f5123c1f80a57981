"""Deletes the rows that satisfy a condition: by a statement, or as a row delta of the positions that Spark finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lakeconf.catalog.pruning.predicates import Predicate, columns_of, to_duckdb_sql
from lakeconf.catalog.pruning.where import Where, predicate_of
from lakeconf.commit.actions import Action, RunSql, Target
from lakeconf.commit.row_delta import PositionDeletes, RowDelta, find_positions, is_droppable, plan_delete
from lakeconf.engines.engine import Staged
from lakeconf.errors import (
    CatalogError,
    PredicateError,
    QueryError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnknownNameError,
    UnsupportedError,
)
from lakeconf.logs import event_logger
from lakeconf.write.changed_rows import SparkSearch
from lakeconf.write.context import StartsFromLatest, WriteContext
from lakeconf.write.strategy import Strategy

_log = event_logger("stage")


@dataclass(frozen=True)
class DeleteRows(StartsFromLatest):
    """Deletes the rows that satisfy a condition; see `Table.delete`."""

    where: Where | Predicate

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Finds the rows, or leaves this to a statement at the commit."""
        target = context.target()
        predicate = predicate_of(self.where, target.info.columns)
        return [delete_rows(context, target, Deletion(predicate, to_duckdb_sql(predicate)))]


@dataclass(frozen=True)
class Deletion:
    """The rows to delete."""

    predicate: Predicate | None  # the condition; None for all rows, or if only DuckDB can compute it
    condition: str | None  # the same in DuckDB's SQL; None for all rows

    def column_names(self, target: Target) -> list[str]:
        """The columns that the condition may read."""
        if self.condition is None:
            return []
        columns = target.info.columns if self.predicate is None else columns_of(self.predicate)
        return [column.name for column in columns]


def delete_rows(context: WriteContext, target: Target, deletion: Deletion, added: Staged | None = None) -> Action:
    """The action that deletes rows; `added` are the staged rows of the same write."""
    info, strategy = target.info, _strategy(context, target, deletion, added)
    delta = None
    if strategy.by_spark:
        delta, strategy = _row_delta(context, target, deletion, strategy)
    if delta is not None:
        return replace(delta, strategy=str(strategy))
    target.evolved.check_read(info.full_name, deletion.column_names(target))
    where = "" if deletion.condition is None else f" WHERE {deletion.condition}"
    return RunSql(
        table=info.full_name,
        sql=(f"DELETE FROM {context.quoted(info)}{where}",),
        deletes=True,
        depends_on=context.dependency_at_commit(info),
        written_for=target.stored,
        strategy=str(strategy),
    )


def _strategy(context: WriteContext, target: Target, deletion: Deletion, added: Staged | None) -> Strategy:
    """Who finds the rows, and whether the added rows can be a part of a staged commit."""
    session, info, strategist = context.session, target.info, context.strategist(target)
    obstacle = strategist.obstacle()
    if obstacle is None and deletion.predicate is None and deletion.condition is not None:
        if added is not None and added.row_count == 0:
            return Strategy(by_spark=False, reason="there are no partitions to replace")
        obstacle = "the partitions are not a condition that Spark computes"
    if obstacle is not None:
        return strategist.by_statement(obstacle)
    if added is not None and not (new_rows := strategist.append(added)).by_spark:
        return new_rows
    try:
        plan = plan_delete(session.reader, info, deletion.predicate)
        # The predicate is for the columns that the transaction reads; the commit does not use it for others.
        if plan.table.columns != info.columns:
            return Strategy(by_spark=False, reason="another writer has changed the columns")
        has_condition = deletion.predicate is not None
        strategy = strategist.delete(plan, has_condition=has_condition, adds_rows=added is not None)
        if deletion.predicate is None or not strategy.unless:
            return strategy
        rows = f"{context.quoted(info)} WHERE {to_duckdb_sql(deletion.predicate)}"
        ((count,),) = session.writer.rows(f"SELECT count(*) FROM {rows}")
        return strategist.counted_delete(count)
    except (CatalogError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnknownNameError):
        # The commit reports it.
        return Strategy(by_spark=False, reason="another writer has changed the table")
    except UnsupportedError as error:
        return strategist.after_error(error)


def _row_delta(
    context: WriteContext, target: Target, deletion: Deletion, strategy: Strategy
) -> tuple[RowDelta | None, Strategy]:
    """The rows as Spark finds them; None if a statement should delete them."""
    info, reader, strategist = target.info, context.session.reader, context.strategist(target)
    search = SparkSearch(context, info, context.staging.positions_folder(info))
    try:
        in_files = find_positions(reader, info, deletion.predicate, search, is_all=True)
    except (PredicateError, QueryError, UnsupportedError) as error:
        # DuckDB deletes the rows, or raises the error of the delete: Spark may not compute what DuckDB computes.
        _log.info("DuckDB finds the rows of %s: %s", info.full_name, error.message)
        return None, strategist.after_error(error)
    delta = RowDelta(
        table=info.full_name,
        info=info,
        folder=search.folder,
        in_files=in_files,
        search=search,
        in_catalog=deletion.condition or "true",
        predicate=deletion.predicate,
        depends_on=context.dependency_at_commit(info),
        written_for=target.stored,
    )
    partial = _partial_rows(in_files, reader.data_path)
    if partial and not (few := strategist.partial_delete(partial)).by_spark:
        return replace(delta, is_few=True), few
    if not delta.needs_staged_commit:
        reason = "all rows of a file with deletes in the catalog are deleted"
        return delta, strategist.by_statement(reason)
    return delta, strategy


def _partial_rows(deletes: PositionDeletes, data_path: str) -> int:
    """The number of rows in files that a staged commit does not drop."""
    counts = deletes.positions.counts
    dropped = (
        counts[file.data_file_id]
        for file in deletes.files
        if is_droppable(file, data_path) and counts.get(file.data_file_id) == file.rows
    )
    return deletes.row_count - sum(dropped)
