"""Appends, overwrites and deletes, as parts of a transaction; `merge` has merges and updates."""

from __future__ import annotations

from lakeconf.catalog.predicate.nodes import to_duckdb_sql
from lakeconf.catalog.predicate.parse import Where, parse
from lakeconf.commit.change import Change
from lakeconf.commit.transaction import Transaction
from lakeconf.errors import SchemaError
from lakeconf.write import writes
from lakeconf.write.partitioning import check_recurring, partition_keys
from lakeconf.write.schema_changes import evolve_for
from lakeconf.write.staged_rows import check_condition


def append(transaction: Transaction, name: str, *, frame: object, evolve: bool) -> None:
    """Adds the change that appends the rows of a frame; see `Table.append`."""
    session = transaction.session
    adopted = session.engine.adopt(frame)
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
    adopted = session.engine.adopt(frame)
    if evolve:
        evolve_for(transaction, name, session.engine.schema(adopted))
    target = writes.target(transaction, name)
    condition = None if where is None else to_duckdb_sql(parse(where, target.info.columns))
    staged = writes.stage(transaction, adopted, target)
    writes.replace_rows(transaction, target, staged, condition)
    if condition is not None:
        check_condition(session.writer, staged, condition)


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
    staged = writes.stage(transaction, transaction.session.engine.adopt(frame), target)
    # Compare the keys of a row as one value, so that NULL is a partition like any other.
    row = "{" + ", ".join(f"'key{index}': {key}" for index, key in enumerate(keys)) + "}"
    condition = f"{row} IN (SELECT {row} FROM ({staged.source}))"
    writes.replace_rows(transaction, target, staged, condition)


def delete(transaction: Transaction, name: str, *, where: Where) -> None:
    """Adds the change that deletes the rows that satisfy a condition; see `Table.delete`."""
    info = writes.target(transaction, name).info
    condition = to_duckdb_sql(parse(where, info.columns))
    sql = f"DELETE FROM {writes.quoted(transaction.session, info)} WHERE {condition}"
    depends_on, read = writes.read_dependency_at_commit(transaction, info), writes.written_for(transaction, info)
    transaction.add(Change((sql,), info.full_name, depends_on=depends_on, deletes=True, written_for=read))
