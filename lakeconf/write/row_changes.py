"""Appends, overwrites and deletes, as parts of a transaction; `merge` has merges and updates."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace

from lakeconf.catalog.predicate.nodes import to_duckdb_sql
from lakeconf.catalog.predicate.where import Where, predicate_of
from lakeconf.commit.change import Change, Target
from lakeconf.commit.transaction import Transaction
from lakeconf.engines.base import Engine, SparkOperations, Staged
from lakeconf.errors import SchemaError
from lakeconf.write import writes
from lakeconf.write.partitioning import check_recurring, partition_keys, partitions_predicate
from lakeconf.write.position_deletes import deletion, deletion_of_all
from lakeconf.write.schema_changes import evolve_for
from lakeconf.write.staged_delete import stage_delete
from lakeconf.write.staged_rows import check_condition


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
