"""Definitions and changes of tables and views, as parts of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeconf.catalog.table import table_folder, tables
from lakeconf.catalog.table_name import joined_name, split_name
from lakeconf.commit.change import Change, Target
from lakeconf.commit.scope import Scope
from lakeconf.commit.transaction import Transaction
from lakeconf.ducklake import check_placeholders
from lakeconf.errors import ConnectionFailed, LakeconfError, SchemaError
from lakeconf.sql import folded, identifier
from lakeconf.write.ddl import Definition, Evolution, described_columns, evolution_for, new_table
from lakeconf.write.writes import Writing, quoted, read_dependency, table_key, target


def create(scope: Scope, name: str, definition: Definition) -> None:
    """Creates an empty table, and its schema if it does not exist; in a transaction, at its commit.

    Raises:
        SchemaError: The table already exists, or a type, a key or a column does not exist.
    """
    schema, table = split_name(name)
    created = joined_name(schema, table)
    session = scope.session
    existing = {folded(info.full_name) for info in tables(session.reader, scope.snapshot_id)}
    pending = scope.transaction.targets if scope.transaction else {}
    if table_key(name) in existing | pending.keys():
        raise SchemaError(f"the table {created} already exists", hint="use lake.table(…)")
    quoted_schema = f"{identifier(session.alias)}.{identifier(schema)}"
    full = f"{quoted_schema}.{identifier(table)}"
    statements = definition.statements(quoted_schema, full)
    for statement in statements:
        check_placeholders(statement, f"the definition of {created}")
    with Writing(scope, f"create table {created}") as transaction:
        if transaction.explicit:
            described = _described(transaction, statements, full)
            folder = table_folder(session.reader, schema, table, transaction.snapshot_id)
            info = new_table(schema, table, folder, described, definition.partitioned_by)
            transaction.targets[table_key(name)] = Target(info, {column: text for column, text, _ in described})
        transaction.add(Change(statements, created, defines=True))


def evolve(transaction: Transaction, name: str, evolution: Evolution) -> None:
    """Changes a table's columns.

    Raises:
        SchemaError: A column does not exist, or a type cannot be promoted to the new one.
    """
    before = target(transaction, name)
    full = quoted(transaction.session, before.info)
    statements = evolution.statements(full, before.types)
    if not statements:
        return
    for statement in statements:
        check_placeholders(statement, f"the change of {before.info.full_name}")
    described = _described(transaction, statements, full)
    info = replace(before.info, columns=described_columns(described, before.info.columns))
    transaction.targets[table_key(name)] = Target(info, {column: text for column, text, _ in described})
    depends_on = read_dependency(transaction, before.info, on_rows=False)
    transaction.add(Change(statements, info.full_name, depends_on=depends_on, defines=True))


def evolve_for(transaction: Transaction, name: str, frame: Mapping[str, str]) -> None:
    """Adds the columns of a frame that the table lacks, and widens types so that the frame's values fit."""
    evolve(transaction, name, evolution_for(frame, target(transaction, name).types))


def create_view(scope: Scope, name: str, sql: str) -> None:
    """Creates or replaces a view of the lake.

    Raises:
        QueryError: DuckDB refuses the query.
    """
    schema, view = split_name(name)
    created = joined_name(schema, view)
    quoted_schema = f"{identifier(scope.session.alias)}.{identifier(schema)}"
    statements = (
        f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}",
        f"CREATE OR REPLACE VIEW {quoted_schema}.{identifier(view)} AS {sql}",
    )
    with Writing(scope, f"create view {created}") as transaction:
        check_placeholders(statements[1], f"the view {created}")
        transaction.add(Change(statements, created, defines=True))


def _described(transaction: Transaction, statements: Sequence[str], full: str) -> list[tuple[str, str, bool]]:
    try:
        return transaction.described(tuple(statements), full)
    except ConnectionFailed:
        raise
    except LakeconfError as error:
        raise SchemaError(f"DuckLake refused the change: {error.message}") from error
