"""Deletes and overwrites: which rows, found how, and in which partitions."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from lakeconf.catalog.column_types import Fact, has
from lakeconf.catalog.pruning.predicates import Or, Predicate, to_duckdb_sql
from lakeconf.catalog.pruning.pruned_files import bucket_sql
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.pruning.where import Where, predicate_of
from lakeconf.catalog.tables import NO_ID, Column, TableInfo
from lakeconf.commit.change import Change, Files, Statements
from lakeconf.commit.deletions import Found, Outcome, Positions, find, is_droppable, plan_delete
from lakeconf.commit.transaction import Target, Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.engine import SparkOperations, Staged
from lakeconf.errors import (
    CatalogError,
    CommitError,
    PredicateError,
    QueryError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnknownNameError,
    UnsupportedError,
)
from lakeconf.logs import EventLogger
from lakeconf.sql import identifier, literal
from lakeconf.write import writes
from lakeconf.write.decision import (
    SEVERAL,
    Decision,
    after_error,
    by_size,
    by_statement,
    counted,
    decide,
    deleted,
    engine_refusal,
    matching_files,
    of_rows,
    searched,
)
from lakeconf.write.schema_changes import adopt_for
from lakeconf.write.writes import check_condition, sorted_positions

_log = EventLogger("stage")


def add_deletion(
    transaction: Transaction,
    target: Target,
    predicate: Predicate | None,
    condition: str | None,
    added: Staged | None = None,
) -> None:
    """Adds the changes that delete the rows that satisfy a condition, and add others.

    A statement deletes the rows; or Spark finds them now, in large files, if a staged commit is possible.
    """
    info = target.info
    outcome, decision = None, _decided(transaction, target, predicate, condition, added)
    if decision.by_spark:
        outcome, decision = _outcome(transaction, target, predicate, condition or "true", decision)
    where = "" if condition is None else f" WHERE {condition}"
    sql = f"DELETE FROM {writes.quoted(transaction.session, info)}{where}"
    depends_on, read = writes.read_dependency_at_commit(transaction, info), writes.written_for(transaction, info)
    body = outcome or Statements((sql,), deletes=True)
    transaction.add(Change(info.full_name, body, depends_on, written_for=read, decision=str(decision)))
    if added is not None:
        transaction.add(Change(info.full_name, Files(info, added), written_for=read))


def _decided(
    transaction: Transaction, target: Target, predicate: Predicate | None, condition: str | None, added: Staged | None
) -> Decision:
    """Decides who finds the rows, and whether the added rows can be a part of a staged commit."""
    session, info = transaction.session, target.info
    refused = SEVERAL if info.table_id == NO_ID else engine_refusal(session, transaction.wanted)
    if refused is None and predicate is None and condition is not None:
        if added is not None and added.row_count == 0:
            return Decision(by_spark=False, reason="there are no partitions to replace")
        refused = "the partitions are no condition that Spark computes"
    if refused is not None:
        return by_statement(transaction, info, refused)
    if added is not None and not (placed := of_rows(transaction, info, added)).by_spark:
        return placed
    try:
        plan = plan_delete(session.reader, info, predicate)
        # The predicate is for the columns that the transaction reads; the commit refuses to use it for others.
        if plan.table.columns != info.columns:
            return Decision(by_spark=False, reason="another writer has changed the columns")
        decision = decide(transaction, info, searched(plan), adds_rows=added is not None)
        is_large = by_size(session, (matching_files(plan),), transaction.wanted).by_spark
        if not decision.by_spark or predicate is None or is_large:
            return decision
        # DuckDB counts the rows sooner than Spark finds them.
        rows = f"{writes.quoted(session, info)} WHERE {to_duckdb_sql(predicate)}"
        ((count,),) = session.writer.rows(f"SELECT count(*) FROM {rows}")
        return by_size(session, counted(count))
    except (CatalogError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnknownNameError):
        return Decision(by_spark=False, reason="another writer has changed the table")  # the commit reports it
    except UnsupportedError as error:
        return after_error(transaction, error)


def _outcome(
    transaction: Transaction, target: Target, predicate: Predicate | None, condition: str, decision: Decision
) -> tuple[Outcome | None, Decision]:
    """The rows as Spark finds them; None if a statement should delete them."""
    session, info = transaction.session, target.info
    folder = transaction.new_folder(info)

    def search(plan: ScanPlan) -> Positions:
        return _search(transaction, info, folder, plan)

    try:
        found = find(session.reader, info, predicate, search, is_all=True)
    except (PredicateError, QueryError, UnsupportedError) as error:
        # DuckDB deletes the rows, or raises the error of the delete: Spark may refuse what DuckDB computes.
        _log.info("DuckDB finds the rows of %s: %s", info.full_name, error.message)
        return None, after_error(transaction, error)
    outcome = Outcome(info, folder, found, search, condition, predicate)
    partial = _partial_rows(found, session.reader.data_path)
    if partial and not (few := by_size(session, deleted(partial), transaction.wanted)).by_spark:
        return replace(outcome, is_few=True), few
    if outcome.by_statements:
        reason = "all rows of a file with deletes in the catalog are deleted"
        return outcome, by_statement(transaction, info, reason)
    return outcome, decision


def _search(transaction: Transaction, info: TableInfo, folder: str, plan: ScanPlan) -> Positions:
    engine = transaction.session.engine
    assert isinstance(engine, SparkOperations)  # noqa: S101 - checked before
    positions = sorted_positions(transaction, info, folder, engine.find_rows(plan))
    if positions is None:
        raise CommitError(f"two rows of {info.full_name} have one place: nothing was written")
    return positions


def _partial_rows(found: Found, data_path: str) -> int:
    """The number of rows in files that a staged commit does not drop."""
    counts = found.positions.counts
    dropped = (
        counts[file.data_file_id]
        for file in found.files
        if is_droppable(file, data_path) and counts.get(file.data_file_id) == file.rows
    )
    return found.row_count - sum(dropped)


# More partitions would make the condition, which DuckDB evaluates for every file, too long.
_MOST_PARTITIONS = 400

# Transforms of one column that together are a range of its values, each with the unit of this range.
_RANGES = {
    frozenset(("year",)): "year",
    frozenset(("year", "month")): "month",
    frozenset(("year", "month", "day")): "day",
    frozenset(("year", "month", "day", "hour")): "hour",
}


def check_recurring(info: TableInfo) -> None:
    """Rejects partition keys that recur: `month(day)` alone puts the same month of all years into one partition."""
    larger = {"month": ("year",), "day": ("year", "month"), "hour": ("year", "month", "day")}
    keys = {(part.field_id, part.transform) for part in info.partition_fields}
    names = {column.field_id: column.name for column in info.columns}
    for field_id, transform in sorted(keys):
        lacking = [part for part in larger.get(transform, ()) if (field_id, part) not in keys]
        if lacking and (field_id, "identity") not in keys:
            name = names[field_id]
            wanted = ", ".join(f'"{part}({name})"' for part in (*larger[transform], transform))
            raise SchemaError(
                f"{transform}({name}) recurs: a partition of {info.full_name} contains rows of every {lacking[-1]}, "
                "and all of them would be replaced",
                hint=f"use overwrite(frame, where=…), partition the table by [{wanted}], or pass recurring=True",
            )


def partition_keys(info: TableInfo) -> list[str]:
    """The partition keys of a table, as DuckDB expressions."""
    names = {column.field_id: identifier(column.name) for column in info.columns}
    keys = []
    for part in info.partition_fields:
        column = names[part.field_id]
        if part.transform == "identity":
            keys.append(column)
        else:
            keys.append(bucket_sql(part.transform, column) or f"{part.transform}({column})")
    return keys


def partitions_predicate(writer: Connection, info: TableInfo, source: str) -> Predicate | None:
    """The predicate for the rows of all partitions for which staged rows exist."""
    transforms: dict[int, set[str]] = defaultdict(set)
    for part in info.partition_fields:
        transforms[part.field_id].add(part.transform)
    columns = {column.field_id: column for column in info.columns}
    found = {columns[field_id]: _bounds(columns[field_id], kinds) for field_id, kinds in transforms.items()}
    bounds = {column: bound for column, bound in found.items() if bound is not None}
    if not bounds or len(bounds) < len(found):
        return None
    texts = ", ".join(f"CAST({text} AS VARCHAR)" for bound in bounds.values() for text in bound)
    rows = writer.rows(f"SELECT DISTINCT {texts} FROM ({source}) LIMIT {_MOST_PARTITIONS + 1}")
    if not 0 < len(rows) <= _MOST_PARTITIONS:
        return None
    partitions = []
    for row in rows:
        values = iter(row)
        parts = [_part(column, [next(values) for _ in bound]) for column, bound in bounds.items()]
        if None in parts:
            return None
        partitions.append(f"({' AND '.join(map(str, parts))})")
    try:
        # One by one: the parser is recursive.
        return Or(tuple(predicate_of(partition, info.columns) for partition in partitions))
    except PredicateError:
        return None  # a date that a `where` does not support


def _bounds(column: Column, transforms: set[str]) -> tuple[str, ...] | None:
    """SQL for the value of a column in a partition, or for the first value and the one after the last one."""
    name = identifier(column.name)
    if transforms == {"identity"}:
        # The text of a TIMESTAMPTZ depends on the session's time zone.
        return (name,) if has(column.type, Fact.IN_PATHS) and column.type != "timestamptz" else None
    unit = _RANGES.get(frozenset(transforms))
    if unit is None or column.type not in ("date", "timestamp"):
        return None
    first = f"date_trunc('{unit}', CAST({name} AS TIMESTAMP))"
    return tuple(f"CAST({moment} AS {column.type})" for moment in (first, f"{first} + INTERVAL 1 {unit}"))


def _part(column: Column, values: list[str | None]) -> str | None:
    """The condition on a column; None if it is unknown, because infinite dates have no year."""
    name = identifier(column.name)
    if len(values) == 1:
        return f"{name} IS NULL" if values[0] is None else f"{name} = {literal(values[0])}"
    if None in values:
        return None
    first, after = map(str, values)
    return f"{name} >= {literal(first)} AND {name} < {literal(after)}"


def append(transaction: Transaction, name: str, *, frame: object, evolve: bool) -> None:
    """Adds the change that appends the rows of a frame; see `Table.append`."""
    adopted, target = adopt_for(transaction, name, frame, widen=evolve)
    staged = writes.stage(transaction, adopted, target)
    # The key of a frame without rows is recorded too.
    info, read = target.info, writes.written_for(transaction, target.info)
    decision = str(of_rows(transaction, info, staged))
    transaction.add(Change(info.full_name, Files(info, staged), written_for=read, decision=decision))


def overwrite(transaction: Transaction, name: str, *, frame: object, where: Where | None, evolve: bool) -> None:
    """Adds the change that replaces rows by those of a frame; see `Table.overwrite`."""
    adopted, target = adopt_for(transaction, name, frame, widen=evolve)
    predicate = None if where is None else predicate_of(where, target.info.columns)
    condition = None if predicate is None else to_duckdb_sql(predicate)
    staged = writes.stage(transaction, adopted, target)
    if condition is not None:
        check_condition(transaction.session.writer, staged, condition)
    add_deletion(transaction, target, predicate, condition, staged)


def overwrite_partitions(transaction: Transaction, name: str, *, frame: object, recurring: bool) -> None:
    """Adds the change that replaces the partitions of a frame; see `Table.overwrite_partitions`."""
    target = writes.target(transaction, name)
    keys = partition_keys(target.info)
    if not keys:
        raise SchemaError(
            f"{target.info.full_name} is not partitioned", hint="name the rows to replace: overwrite(frame, where=…)"
        )
    if not recurring:
        check_recurring(target.info)
    session = transaction.session
    staged = writes.stage(transaction, writes.adopt(transaction, name, frame), target)
    # Compare the keys of a row as one value, so that NULL is a partition like any other.
    row = "{" + ", ".join(f"'key{index}': {key}" for index, key in enumerate(keys)) + "}"
    condition = f"{row} IN (SELECT {row} FROM ({staged.source}))"
    # The DuckDB engine would not use the predicate.
    on_spark = isinstance(session.engine, SparkOperations)
    predicate = partitions_predicate(session.writer, target.info, staged.source) if on_spark else None
    add_deletion(transaction, target, predicate, condition, staged)


def delete(transaction: Transaction, name: str, *, where: Where) -> None:
    """Adds the change that deletes the rows that satisfy a condition; see `Table.delete`."""
    target = writes.target(transaction, name)
    predicate = predicate_of(where, target.info.columns)
    add_deletion(transaction, target, predicate, to_duckdb_sql(predicate))
