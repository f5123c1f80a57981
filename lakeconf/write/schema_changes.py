"""Definitions and changes of tables and views, as parts of a transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakeconf.catalog.paths import check_folder
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import NO_ID, TableInfo, tables
from lakeconf.catalog.table_folder import table_folder
from lakeconf.catalog.table_name import INTERNAL_SCHEMA, full_name, joined_name, split_name
from lakeconf.catalog.views import view_names
from lakeconf.commit.audits import is_query
from lakeconf.commit.change import Change, Target
from lakeconf.commit.conflicts import ReadDependency, check_columns
from lakeconf.commit.scope import Scope
from lakeconf.commit.transaction import Transaction
from lakeconf.commit.trial import described
from lakeconf.ducklake import check_placeholders
from lakeconf.errors import (
    ConnectionFailed,
    LakeconfError,
    QueryError,
    SchemaError,
    TableNotFoundError,
    UnsupportedError,
    suggestion,
)
from lakeconf.sql import folded, identifier, literal, qualified
from lakeconf.write.ddl import (
    Definition,
    comment_statements,
    described_columns,
    new_table,
)
from lakeconf.write.evolution import Evolution, evolution_for
from lakeconf.write.writes import (
    Writing,
    has_rows,
    quoted,
    read_dependency,
    read_dependency_at_commit,
    table_key,
    target,
    written_for,
)


def create(scope: Scope, name: str, definition: Definition) -> None:
    """Creates an empty table, and its schema if it does not exist; in a transaction, at its commit.

    Raises:
        SchemaError: The table already exists, or a type, a key or a column does not exist.
    """
    schema, table = split_name(name)
    created = joined_name(schema, table)
    session = scope.session
    if exists(scope, name):
        raise SchemaError(f"the table {created} already exists", hint="use lake.table(…), or pass if_not_exists=True")
    quoted_schema = qualified(session.alias, schema)
    full = f"{quoted_schema}.{identifier(table)}"
    statements = definition.statements(quoted_schema, full)
    for statement in statements:
        check_placeholders(statement, f"the definition of {created}")
    with Writing(scope, f"create table {created}") as transaction:
        folder = table_folder(session.reader, schema, table, transaction.snapshot_id)
        check_folder(session.reader.data_path, folder)
        if transaction.explicit:
            described = _described(transaction, statements, full)
            info = new_table(schema, table, folder, described, definition.partitioned_by)
            transaction.targets[table_key(name)] = Target(info, {column: text for column, text, _ in described})
        transaction.add(Change(statements, created, defines=True))


def exists(scope: Scope, name: str) -> bool:
    """True if there is a table with this name at the lake's snapshot; in a transaction, after it."""
    pending = scope.transaction.targets.get(table_key(name)) if scope.transaction else None
    if pending is not None:
        return pending.exists
    return table_key(name) in {folded(info.full_name) for info in tables(scope.session.reader, scope.snapshot_id)}


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
    described = _described(transaction, statements, full, before.info)
    info = replace(before.info, columns=described_columns(described, before.info.columns))
    _add_definition(transaction, before.info, statements, read_dependency(transaction, before.info, on_rows=False))
    transaction.targets[table_key(name)] = Target(info, {column: text for column, text, _ in described})


def evolve_for(transaction: Transaction, name: str, frame: Mapping[str, str]) -> None:
    """Adds the columns of a frame that the table lacks, and widens types so that the frame's values fit."""
    evolve(transaction, name, evolution_for(frame, target(transaction, name).types))


def drop(scope: Scope, name: str) -> None:
    """Drops a table; earlier snapshots keep it.

    Raises:
        TableNotFoundError: There is no such table.
        SchemaError: It is a view or a table of lakeconf, or the transaction has written to it.
    """
    full = full_name(name)
    with Writing(scope, f"drop table {full}") as transaction:
        before = _changeable(transaction, name)
        if has_rows(transaction, before.info):
            raise SchemaError(f"the transaction has written to {full}", hint="drop the table in another transaction")
        statement = f"DROP TABLE {quoted(transaction.session, before.info)}"
        _add_definition(transaction, before.info, (statement,), read_dependency_at_commit(transaction, before.info))
        transaction.targets[table_key(name)] = replace(before, ended_by=f"dropped {full}", exists=False)


def rename(scope: Scope, name: str, new_name: str) -> None:
    """Renames a table within its schema.

    Raises:
        TableNotFoundError: There is no such table.
        SchemaError: The new name is taken or is in another schema, or the table is a view or a table of lakeconf.
    """
    (schema, _), (new_schema, new_table) = split_name(name), split_name(new_name)
    old, new = full_name(name), full_name(new_name)
    if folded(schema) != folded(new_schema):
        raise SchemaError(
            f"DuckLake cannot move {old} to the schema {new_schema!r}", hint=f"use {joined_name(schema, new_table)!r}"
        )
    if table_key(name) != table_key(new_name) and exists(scope, new_name):
        raise SchemaError(f"the table {new} already exists", hint="drop or rename it first")
    with Writing(scope, f"rename table {old} to {new}") as transaction:
        before = _changeable(transaction, name)
        _check_unchanged(transaction, before.info)
        info = replace(before.info, name=new_table)
        full = quoted(transaction.session, before.info)
        statement = f"ALTER TABLE {full} RENAME TO {identifier(new_table)}"
        check_placeholders(statement, f"the new name of {old}")
        _described(transaction, (statement,), quoted(transaction.session, info), before.info)
        depends_on = read_dependency(transaction, before.info, on_rows=False)
        _add_definition(transaction, before.info, (statement,), depends_on)
        renamed = replace(before, ended_by=f"renamed {old} to {new}", exists=False)
        transaction.targets[table_key(name)] = renamed
        transaction.targets[table_key(new_name)] = replace(renamed, info=info, exists=True)


def _check_unchanged(transaction: Transaction, info: TableInfo) -> None:
    """Refuses to rename a table whose definition the transaction has changed.

    DuckLake would store its columns twice, and then nobody could read the lake.
    """
    changed = any(change.defines and folded(change.table) == folded(info.full_name) for change in transaction.changes)
    if changed and info.table_id != NO_ID:
        raise SchemaError(
            f"the transaction has changed columns or comments of {info.full_name}, which DuckLake cannot then rename",
            hint="rename the table in another transaction",
        )


def set_comments(transaction: Transaction, name: str, comment: str | None, columns: Mapping[str, str | None]) -> None:
    """Sets or removes the comment of a table, and those of some of its columns.

    Args:
        transaction: The transaction.
        name: The table.
        comment: The new comment; an empty text removes it, None keeps it.
        columns: New comments by column; None removes one.

    Raises:
        SchemaError: A column does not exist.
    """
    before = target(transaction, name)
    statements = comment_statements(quoted(transaction.session, before.info), before.types, comment, columns)
    for statement in statements:
        check_placeholders(statement, f"a comment of {before.info.full_name}")
    if statements:
        _add_definition(transaction, before.info, statements, read_dependency(transaction, before.info, on_rows=False))


def set_defaults(transaction: Transaction, name: str, defaults: Mapping[str, str]) -> None:
    """Sets the values of columns for new rows that do not set them.

    Args:
        transaction: The transaction.
        name: The table.
        defaults: Literals by column.
    """
    info = target(transaction, name).info
    alter = f"ALTER TABLE {quoted(transaction.session, info)} ALTER COLUMN"
    statements = tuple(
        f"{alter} {identifier(column)} SET DEFAULT {literal(value)}" for column, value in defaults.items()
    )
    for statement in statements:
        check_placeholders(statement, f"a default of {info.full_name}")
    if statements:
        _add_definition(transaction, info, statements, read_dependency(transaction, info, on_rows=False))


def _changeable(transaction: Transaction, name: str) -> Target:
    """A table that users may drop or rename."""
    if folded(split_name(name)[0]) == INTERNAL_SCHEMA:
        raise SchemaError(f"{full_name(name)} belongs to lakeconf, which needs it to recognise repeated writes")
    try:
        return target(transaction, name)
    except UnsupportedError as error:
        raise SchemaError(f"{full_name(name)} is not a table", hint="use lake.drop_view(…) for a view") from error


def _add_definition(
    transaction: Transaction, info: TableInfo, statements: tuple[str, ...], depends_on: ReadDependency | None
) -> None:
    # The catalog records no table id for a rename, so only `written_for` finds a table that took the name of another.
    read = written_for(transaction, info)
    transaction.add(Change(statements, info.full_name, depends_on=depends_on, defines=True, written_for=read))


def drop_view(scope: Scope, name: str) -> None:
    """Drops a view of the lake.

    Raises:
        TableNotFoundError: There is no such view.
    """
    schema, view = split_name(name)
    dropped = joined_name(schema, view)
    known = view_names(scope.session.reader, scope.snapshot_id)
    if folded(dropped) not in map(folded, known):
        raise TableNotFoundError(f"no view {dropped!r}", hint=suggestion(dropped, known) or None)
    statement = f"DROP VIEW {'.'.join(map(identifier, (scope.session.alias, schema, view)))}"
    with Writing(scope, f"drop view {dropped}") as transaction:
        transaction.add(Change((statement,), dropped, defines=True))


def create_view(scope: Scope, name: str, sql: str) -> None:
    """Creates or replaces a view of the lake.

    Raises:
        QueryError: DuckDB refuses the query, or it is more than one query.
    """
    # Without this check, DuckDB would run statements that follow the query.
    if not is_query(sql):
        raise QueryError("a view needs a single query", hint="write one SELECT … or FROM …")
    schema, view = split_name(name)
    created = joined_name(schema, view)
    quoted_schema = qualified(scope.session.alias, schema)
    statements = (
        f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}",
        f"CREATE OR REPLACE VIEW {quoted_schema}.{identifier(view)} AS {sql}",
    )
    with Writing(scope, f"create view {created}") as transaction:
        check_placeholders(statements[1], f"the view {created}")
        transaction.add(Change(statements, created, defines=True))


def _described(
    transaction: Transaction, statements: Sequence[str], full: str, before: TableInfo | None = None
) -> list[tuple[str, str, bool]]:
    """The columns of the table `full` after some statements, which change the table `before`; nothing is changed.

    Raises:
        CommitConflictError: Another writer has changed the table.
        SchemaError: DuckLake refuses a statement.
    """
    earlier = [statement for change in transaction.changes if change.defines for statement in change.statements]
    try:
        return described(transaction.session, [*earlier, *statements], full)
    except ConnectionFailed:
        raise
    except LakeconfError as error:
        read = None if before is None else written_for(transaction, before)
        if read is not None:
            reader = transaction.session.reader
            check_columns(reader, [read], latest(reader).snapshot_id)
        raise SchemaError(f"DuckLake refused the change: {error.message}") from error
