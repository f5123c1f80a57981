"""Deletes and overwrites: which rows, found how, and in which partitions."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.predicates import Or, Predicate, to_duckdb_sql
from lakeconf.catalog.pruned_files import Coverage, bucket_sql
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import NO_ID, Column, TableInfo
from lakeconf.catalog.where import Where, predicate_of
from lakeconf.commit.deletions import (
    ROWS_PER_STATEMENT,
    DeletedFiles,
    PositionDelete,
    StagedDelete,
    divided_files,
    in_files,
    is_exact,
    plan_delete,
)
from lakeconf.commit.position_files import SortedPositions
from lakeconf.commit.session import Session
from lakeconf.commit.staged_commit import FileChange
from lakeconf.commit.transaction import Change, Target, Transaction
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import (
    FILENAME,
    POSITION_TYPES,
    Engine,
    SparkOperations,
    Staged,
    StagingRequest,
    announce,
    staging_folder,
)
from lakeconf.errors import (
    CatalogError,
    CommitError,
    LakeconfError,
    PredicateError,
    SchemaError,
    SnapshotNotFoundError,
    TableNotFoundError,
    UnsupportedError,
)
from lakeconf.logs import EventLogger
from lakeconf.sql import folded, identifier, literal
from lakeconf.write import writes
from lakeconf.write.schema_changes import evolve_for
from lakeconf.write.staged_refusal import add_key, delete_refusal
from lakeconf.write.writes import are_in_files, check_condition, sorted_positions

_log = EventLogger("stage")


# The size of the columns from which a Spark job is used. An estimate: DuckDB reads 40 to 80 MB of columns in 0.25 s on
# two cores, and a Spark job takes about a second; see benchmarks/spark_delete.py.
SEARCHED_BYTES = 256 << 20


# Virtual columns of DuckLake that a column of the table hides.
_VIRTUAL = {"filename", "file_row_number"}


def deletion(transaction: Transaction, target: Target, predicate: Predicate | None, condition: str) -> Change:
    """The change that deletes the rows that satisfy a predicate.

    DuckDB finds the rows at the commit on the DuckDB engine, in small columns, and in tables that cannot be searched
    exactly. Otherwise Spark finds them now.

    Args:
        target: The table, as it will be after the transaction.
        predicate: A predicate on its columns; None if there is none for the condition.
        condition: The same condition in DuckDB's SQL.
    """
    rows, staged = (predicate and _found(transaction, target, predicate, condition)) or (None, None)
    sql = f"DELETE FROM {writes.quoted(transaction.session, target.info)} WHERE {condition}"
    return _change(transaction, target, sql, rows, staged)


def deletion_of_all(transaction: Transaction, target: Target) -> Change:
    """The change that deletes all rows; those of a large table on Spark in several statements, for less memory.

    Args:
        target: The table, as it will be after the transaction.
    """
    info, rows = target.info, None
    table = writes.quoted(transaction.session, info)
    if _is_searchable(transaction, target):
        planned = _planned(transaction, target, None)
        if planned is not None and _is_large(transaction, planned[0]):
            rows = PositionDelete(writes.quoted_name(info), table, planned[0], "true")
    return _change(transaction, target, f"DELETE FROM {table}", rows, None)


def _change(
    transaction: Transaction, target: Target, sql: str, rows: PositionDelete | None, staged: Staged | None
) -> Change:
    info = target.info
    return Change(
        (sql,) if rows is None else (),
        info.full_name,
        staged,
        depends_on=writes.read_dependency_at_commit(transaction, info),
        deletes=True,
        written_for=writes.written_for(transaction, info),
        found=rows,
    )


def _found(
    transaction: Transaction, target: Target, predicate: Predicate, condition: str
) -> tuple[PositionDelete, Staged | None] | None:
    """The matching rows, and their staged positions if there are any; None if DuckDB should find them at the commit."""
    session, info = transaction.session, target.info
    planned = _planned(transaction, target, predicate) if _is_searchable(transaction, target) else None
    if planned is None:
        return None
    plan, known = planned
    name = writes.quoted_name(info)
    covered = tuple(file for file in plan.files if file.data_file_id in known.covered)
    searched = [file for file in plan.files if file.data_file_id not in known.covered and is_exact(file)]
    table = writes.quoted(session, info)
    staged = None
    if searched and sum(known.column_bytes[file.data_file_id] for file in searched) >= SEARCHED_BYTES:
        staged = _stage(transaction, target, plan, searched)
    if staged is None:
        is_planned = covered or _is_large(transaction, plan)
        return (PositionDelete(name, table, plan, condition, covered), None) if is_planned else None
    found = _count(session, staged)
    rows = PositionDelete(name, table, plan, condition, covered, tuple(searched), found, staged.source)
    return rows, staged


def _planned(transaction: Transaction, target: Target, predicate: Predicate | None) -> tuple[ScanPlan, Coverage] | None:
    """The files that may contain matching rows, and which of them are covered; None if the plan cannot be used."""
    try:
        plan, known = plan_delete(transaction.session.reader, writes.quoted_name(target.info), predicate)
    except (CatalogError, SchemaError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError):
        return None  # the commit reports it
    # The predicate is for the columns that the transaction reads; the commit refuses to use it for others.
    if plan.table.columns != target.info.columns:
        return None
    # Another writer may have registered a file twice: its name and positions then identify two rows.
    if len({file.path for file in plan.files}) < len(plan.files):
        return None
    return plan, known


def _is_large(transaction: Transaction, plan: ScanPlan) -> bool:
    """True if one statement would need too much memory, or must not be used."""
    rows = sum(file.record_count for file in plan.files)
    return transaction.session.committer == "staged" or rows > ROWS_PER_STATEMENT


def _is_searchable(transaction: Transaction, target: Target) -> bool:
    info, session = target.info, transaction.session
    if not isinstance(session.engine, SparkOperations):
        return False
    if info.table_id == NO_ID or folded(info.full_name) in transaction.targets or writes.has_rows(transaction, info):
        return False
    if any(folded(column.name) in _VIRTUAL for column in info.columns):
        return False
    # DuckDB's names of files are relative if the data path is.
    return session.reader.data_path_is_absolute


def _stage(transaction: Transaction, target: Target, plan: ScanPlan, files: Sequence[DataFile]) -> Staged | None:
    """Stages the positions of the matching rows of files; None if Spark cannot find them exactly as DuckDB does."""
    engine = transaction.session.engine
    assert isinstance(engine, SparkOperations)  # noqa: S101 - checked by the caller
    request = StagingRequest(target.info, POSITION_TYPES, transaction.next_token())
    try:
        frame = engine.find_rows(replace(plan, files=tuple(files), inlined_tables=(), inlined_row_count=0))
        return engine.stage_rows(frame.to_native(), request)
    except LakeconfError as error:
        # DuckDB deletes the rows, or raises the error of the delete. Spark also refuses to cast some texts.
        _log.info("DuckDB finds the rows of %s: %s", target.info.full_name, error.message)
        return None


def _count(session: Session, staged: Staged) -> dict[str, int]:
    try:
        return dict(session.writer.rows(f"SELECT {FILENAME}, count(*) FROM ({staged.source}) GROUP BY ALL"))
    except BaseException:
        session.engine.release(staged)
        raise


# DuckLake's DELETE needs 6 MB for so many rows. It keeps deletes of few rows in the catalog; if they were in a file of
# positions, its change feed would be wrong for files that are merged or flushed.
FEWEST_POSITIONS = 100_000


def stage_delete(transaction: Transaction, target: Target) -> None:
    """Lets a staged commit carry out the changes of a transaction, if it can: a delete, and new rows if there are any.

    The changes keep their statements. The commit uses them if a staged commit cannot delete rows that another writer
    has added in the meantime.

    Args:
        transaction: The transaction, whose changes are those of one write.
    """
    session, info = transaction.session, target.info
    deleted, *rest = transaction.changes
    found, added = deleted.found, [_with_files(change, info) for change in rest]
    if found is None or not all(change.by_files for change in added):
        return
    if session.committer == "auto" and sum(file.record_count for file in found.plan.files) <= ROWS_PER_STATEMENT:
        return
    covered = {file.data_file_id for file in found.covered}
    files = divided_files(found.plan, covered, session.reader.data_path)
    if files is None or not (files.dropped or files.searched):
        return
    by_position = bool(files.searched or found.plan.inlined_row_count)
    if by_position and session.committer == "auto" and _count_staged(session, info, found, files) <= FEWEST_POSITIONS:
        transaction.changes[0] = replace(deleted, found=replace(found, has_few_others=True))
        return
    refused = delete_refusal(transaction, info, adds_rows=bool(added), by_position=by_position)
    if refused is not None:
        _log.debug("statements delete the rows of %s: %s", info.full_name, refused)
        return
    staged = StagedDelete(info, found.plan.predicate, found.condition)
    transaction.changes[:] = [deleted, *added]
    if by_position:
        staged = _with_positions(transaction, target, staged, deleted, files)
    transaction.changes[0] = replace(deleted, by_files=FileChange(info, deleted=staged))
    add_key(transaction)


def _count_staged(session: Session, info: TableInfo, found: PositionDelete, files: DeletedFiles) -> int:
    """The number of rows to delete that are not those of dropped files."""
    known = set(found.searched)
    others = [*(file.path for file in files.searched if file not in known), *found.plan.inlined_tables]
    count = sum(found.found.values())
    if others:
        rows = f"{writes.quoted(session, info)} AT (VERSION => {found.plan.snapshot_id})"
        query = f"SELECT count(*) FROM {rows} WHERE {in_files(others)} AND ({found.condition})"
        ((counted,),) = session.writer.rows(query)
        count += int(counted)
    return count


def _with_files(change: Change, info: TableInfo) -> Change:
    """A change that adds its staged files to a table; the same change if they do not have all of its rows."""
    staged = change.staged
    if staged is None or not are_in_files(staged):
        return change
    return replace(change, by_files=FileChange(info, staged.files))


def _with_positions(
    transaction: Transaction, target: Target, staged: StagedDelete, deleted: Change, files: DeletedFiles
) -> StagedDelete:
    """Adds the folder of the files of deleted positions, and the positions that executors have found."""
    session, info = transaction.session, target.info
    folder = staging_folder(info, transaction.next_token())
    announce(session.writer, folder, session.reader.lake_id)
    # First the change, so that a failure below removes the folder.
    empty = Staged("", folder=folder, row_count=0)
    transaction.add(Change((), info.full_name, empty, written_for=deleted.written_for, by_files=FileChange(info)))
    return replace(staged, folder=folder, found=_found_positions(transaction, target, deleted, files))


def _found_positions(
    transaction: Transaction, target: Target, deleted: Change, files: DeletedFiles
) -> SortedPositions | None:
    found = deleted.found
    if deleted.staged is None or found is None:
        return None
    searched = tuple(file for file in files.searched if file in set(found.searched))
    positions = sorted_positions(transaction, target, deleted.staged, "true", searched)
    expected = {file.data_file_id: found.found[file.path] for file in searched if found.found.get(file.path)}
    if positions is None or positions.counts != expected:
        raise CommitError(f"Spark sorted other positions of {target.info.full_name} than it found: nothing was written")
    return positions


# More partitions would make the condition, which DuckDB evaluates for every file, too long.
_MOST_PARTITIONS = 400


_EXACT = {"boolean", "int8", "int16", "int32", "int64", "varchar", "date", "timestamp"}


# Transforms of one column that together are a range of its values, each with the unit of this range.
_RANGES = {
    frozenset(("year",)): "year",
    frozenset(("year", "month")): "month",
    frozenset(("year", "month", "day")): "day",
    frozenset(("year", "month", "day", "hour")): "hour",
}


def check_recurring(info: TableInfo) -> None:
    """Refuses partition keys that recur: `month(day)` alone puts the same month of all years into one partition."""
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
    """The predicate for the rows of all partitions for which staged rows exist.

    Args:
        writer: The connection that the rows were staged on.
        source: SQL that returns the staged rows.

    Returns:
        The predicate; None if a `where` cannot express it, or if there are too many partitions.
    """
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
        return (name,) if column.type in _EXACT or column.type.startswith("decimal(") else None
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
    session = transaction.session
    adopted = writes.adopt(transaction, name, frame)
    if evolve:
        evolve_for(transaction, name, session.engine.schema(adopted))
    target = writes.target(transaction, name)
    staged = writes.stage(transaction, adopted, target)
    statements = writes.insert(session, target.info, staged)
    # The key of a frame without rows is recorded too.
    read = writes.written_for(transaction, target.info)
    transaction.add(Change(statements, target.info.full_name, staged, written_for=read))


def overwrite(transaction: Transaction, name: str, *, frame: object, where: Where | None, evolve: bool) -> None:
    """Adds the change that replaces rows by those of a frame; see `Table.overwrite`."""
    session = transaction.session
    adopted = writes.adopt(transaction, name, frame)
    if evolve:
        evolve_for(transaction, name, session.engine.schema(adopted))
    target = writes.target(transaction, name)
    predicate = None if where is None else predicate_of(where, target.info.columns)
    condition = None if predicate is None else to_duckdb_sql(predicate)
    staged = writes.stage(transaction, adopted, target)
    with _released_after_errors(session.engine, staged):
        deleted = (
            deletion_of_all(transaction, target)
            if condition is None
            else deletion(transaction, target, predicate, condition)
        )
    _replace(transaction, target, staged, deleted, condition)
    if condition is not None:
        check_condition(session.writer, staged, condition)
    stage_delete(transaction, target)


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
    with _released_after_errors(session.engine, staged):
        # The DuckDB engine would not use the predicate.
        on_spark = isinstance(session.engine, SparkOperations)
        predicate = partitions_predicate(session.writer, target.info, staged.source) if on_spark else None
        deleted = deletion(transaction, target, predicate, condition)
    _replace(transaction, target, staged, deleted, condition)
    stage_delete(transaction, target)


def delete(transaction: Transaction, name: str, *, where: Where) -> None:
    """Adds the change that deletes the rows that satisfy a condition; see `Table.delete`."""
    target = writes.target(transaction, name)
    predicate = predicate_of(where, target.info.columns)
    transaction.add(deletion(transaction, target, predicate, to_duckdb_sql(predicate)))
    stage_delete(transaction, target)


@contextlib.contextmanager
def _released_after_errors(engine: Engine, staged: Staged) -> Iterator[None]:
    """Removes staged rows that are not part of a change yet, if the block raises."""
    try:
        yield
    except BaseException:
        engine.release(replace(staged, keeps_files=False))
        raise


def _replace(transaction: Transaction, target: Target, staged: Staged, deleted: Change, condition: str | None) -> None:
    """Adds the changes that delete rows and insert staged rows."""
    if deleted.found is None:
        writes.replace_rows(transaction, target, staged, condition)
        return
    transaction.add(deleted)
    inserted = writes.insert(transaction.session, target.info, staged)
    transaction.add(Change(inserted, target.info.full_name, staged, written_for=deleted.written_for))
