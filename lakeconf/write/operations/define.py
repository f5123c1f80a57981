"""Creates, renames, describes and drops tables and views, and creates schemas."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakeconf.catalog.admission import check_folder
from lakeconf.catalog.inherited import inherited_tables
from lakeconf.catalog.queries.sql_references import find_references
from lakeconf.catalog.queries.stored_queries import StoredQueries, view_names
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table_options import table_folder
from lakeconf.catalog.tables import (
    NO_ID,
    TableInfo,
    full_name,
    joined_name,
    refuse_internal,
    split_name,
    tables,
)
from lakeconf.commit.actions import Action, DefineTable, Target
from lakeconf.commit.audits import is_query
from lakeconf.commit.conflicts import check_columns, check_views, read_view
from lakeconf.commit.scope import Scope
from lakeconf.commit.session import Session
from lakeconf.commit.transaction import Transaction
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
from lakeconf.write.context import WriteContext, table_key
from lakeconf.write.ddl import Definition, comment_statements, new_table


@dataclass(frozen=True)
class CreateTable:
    """Creates an empty table, and its schema if it does not exist; in a transaction, at its commit."""

    definition: Definition

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Creates the table, whose name must be free."""
        name = context.table
        refuse_internal(name)
        schema, table = split_name(name)
        created = joined_name(schema, table)
        folder = _free_folder(context, name)
        quoted_schema = qualified(context.session.alias, schema)
        full = f"{quoted_schema}.{identifier(table)}"
        statements = self.definition.statements(quoted_schema, full)
        check_placeholders("\n".join(statements), f"the definition of {created}")
        targets: dict[str, Target] = {}
        if context.transaction.explicit:
            described = described_after(context, statements, full)
            info = new_table(schema, table, folder, described, self.definition.partitioned_by)
            targets[table_key(name)] = Target(info, {column: text for column, text, _ in described}, stored=None)
        return [DefineTable(table=created, sql=statements, creates=True, targets=targets)]


@dataclass(frozen=True)
class CreateSchema:
    """Creates the schema of a table, without the table."""

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Creates the schema."""
        refuse_internal(context.table)
        schema, _ = split_name(context.table)
        statement = f"CREATE SCHEMA IF NOT EXISTS {qualified(context.session.alias, schema)}"
        check_placeholders(statement, f"the schema {schema!r}")
        return [DefineTable(table=full_name(context.table), sql=(statement,))]


@dataclass(frozen=True)
class DropTable:
    """Drops a table; earlier snapshots keep it."""

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Drops the table, unless the transaction has written to it."""
        full, before = full_name(context.table), _changeable(context)
        if context.changes_rows_of(before.info):
            raise SchemaError(f"the transaction has written to {full}", hint="drop the table in another transaction")
        statements = (f"DROP TABLE {context.quoted(before.info)}",)
        dropped = replace(before, stored=None, ended_by=f"dropped {full}", exists=False)
        action = define(context, before, statements, targets={table_key(context.table): dropped})
        return [replace(action, depends_on=context.dependency_at_commit(before.info))]


@dataclass(frozen=True)
class RenameTable:
    """Renames a table within its schema."""

    new_name: str

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Renames the table, unless the transaction has changed its definition."""
        name, new_name = context.table, self.new_name
        (schema, _), (new_schema, new_table_name) = split_name(name), split_name(new_name)
        old, new = full_name(name), full_name(new_name)
        if folded(schema) != folded(new_schema):
            free = joined_name(schema, new_table_name)
            raise SchemaError(f"DuckLake cannot move {old} to the schema {new_schema!r}", hint=f"use {free!r}")
        if table_key(name) != table_key(new_name):
            _check_free(context, new_name, context.session.reader, hint="drop or rename it first")
        before = _changeable(context)
        _check_undefined(context, before.info)
        info = replace(before.info, name=new_table_name)
        statement = f"ALTER TABLE {context.quoted(before.info)} RENAME TO {identifier(new_table_name)}"
        check_placeholders(statement, f"the new name of {old}")
        described_after(context, (statement,), context.quoted(info), before)
        renamed = replace(before, stored=None, ended_by=f"renamed {old} to {new}", exists=False)
        targets = {table_key(name): renamed, table_key(new_name): replace(renamed, info=info, exists=True)}
        return [define(context, before, (statement,), targets=targets)]


@dataclass(frozen=True)
class SetComments:
    """Sets or removes the comment of a table, and those of some of its columns; see `Table.set_comments`."""

    comment: str | None
    columns: Mapping[str, str | None]

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Sets the comments; nothing if there are none."""
        before = context.target()
        quoted = context.quoted(before.info)
        statements = comment_statements(quoted, before.types, self.comment, self.columns)
        check_placeholders("\n".join(statements), f"a comment of {before.info.full_name}")
        return [define(context, before, statements)] if statements else []


@dataclass(frozen=True)
class SetDefaults:
    """Sets or drops the values of columns for new rows that do not set them."""

    defaults: Mapping[str, str | None] = field(default_factory=dict)

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Sets the defaults; nothing if there are none."""
        before = context.target()
        alter = f"ALTER TABLE {context.quoted(before.info)} ALTER COLUMN"
        statements = tuple(
            f"{alter} {identifier(name)} " + ("DROP DEFAULT" if value is None else f"SET DEFAULT {literal(value)}")
            for name, value in self.defaults.items()
        )
        check_placeholders("\n".join(statements), f"a default of {before.info.full_name}")
        return [define(context, before, statements)] if statements else []


@dataclass(frozen=True)
class CreateView:
    """Creates or replaces a view of the lake."""

    sql: str

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Creates the view, whose query may only compute."""
        refuse_internal(context.table)
        if exists_in(context.transaction, context.table):
            raise SchemaError(f"{full_name(context.table)} is a table", hint="drop it first: lake.drop_table(…)")
        # Without this check, DuckDB would run statements that follow the query.
        if not is_query(self.sql):
            raise QueryError("a view needs a single query", hint="write one SELECT … or FROM …")
        reader = context.session.reader
        # DuckDB binds what the query uses.
        StoredQueries.load(reader).check(find_references(self.sql))
        schema, view = split_name(context.table)
        created, quoted_schema = joined_name(schema, view), qualified(context.session.alias, schema)
        statements = (
            f"CREATE SCHEMA IF NOT EXISTS {quoted_schema}",
            f"CREATE OR REPLACE VIEW {quoted_schema}.{identifier(view)} AS {self.sql}",
        )
        check_placeholders(statements[1], f"the view {created}")
        return [DefineTable(table=created, sql=statements)]


@dataclass(frozen=True)
class DropView:
    """Drops a view of the lake."""

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Drops the view, which must exist at the read snapshot."""
        schema, view = split_name(context.table)
        dropped = joined_name(schema, view)
        known = view_names(context.session.reader, context.snapshot_id)
        if folded(dropped) not in map(folded, known):
            raise TableNotFoundError(f"no view {dropped!r}", hint=suggestion(dropped, known) or None)
        statement = f"DROP VIEW {qualified(context.session.alias, schema, view)}"
        view_read = read_view(context.session.reader, dropped, context.snapshot_id)
        return [DefineTable(table=dropped, sql=(statement,), drops_view=view_read)]


def exists(scope: Scope, name: str) -> bool:
    """True if there is a table with this name at the lake's snapshot; in a transaction, after it."""
    if scope.transaction is not None:
        return exists_in(scope.transaction, name)
    return table_key(name) in _table_keys(scope.session.reader, scope.snapshot_id)


def exists_in(transaction: Transaction, name: str, reader: CatalogReader | None = None) -> bool:
    """True if there is a table with this name after a transaction."""
    pending = transaction.contents.targets.get(table_key(name))
    if pending is not None:
        return pending.exists
    return table_key(name) in _table_keys(reader or transaction.session.reader, transaction.snapshot_id)


def define(
    context: WriteContext, before: Target, statements: tuple[str, ...], *, targets: Mapping[str, Target] | None = None
) -> DefineTable:
    """The action that changes the definition of a table, and depends on it."""
    return DefineTable(
        table=before.info.full_name,
        sql=statements,
        targets=targets or {},
        depends_on=context.dependency(before.info, on_rows=False),
        # The catalog records no table id for a rename, so only this finds a table that took the name of another.
        written_for=before.stored,
    )


def described_after(
    context: WriteContext, statements: Sequence[str], table: str, before: Target | None = None
) -> list[tuple[str, str, bool]]:
    """The columns of a table after some statements, which change the table `before`; nothing is changed."""
    definitions = [action for action in context.transaction.contents.actions if isinstance(action, DefineTable)]
    earlier = [statement for action in definitions for statement in action.sql]
    try:
        rows = _rolled_back(context.session, [*earlier, *statements], f"DESCRIBE {table}")
    except ConnectionFailed:
        raise
    except LakeconfError as error:
        reader = context.session.reader
        newest = latest(reader).snapshot_id
        if before is not None and before.stored is not None:
            check_columns(reader, [before.stored], newest)
        check_views(reader, (action.drops_view for action in definitions if action.drops_view), newest)
        raise SchemaError(f"DuckLake rejected the change: {error.message}") from error
    return [(name, type_name, null == "YES") for name, type_name, null, *_ in rows]


def _rolled_back(session: Session, statements: Iterable[str], query: str) -> list[tuple[Any, ...]]:
    """The rows of a query after some statements, which are rolled back."""
    with session.writer_lock:
        try:
            session.writer.execute("BEGIN")
            for statement in statements:
                session.writer.execute(statement)
            return session.writer.rows(query)
        finally:
            with contextlib.suppress(LakeconfError):
                session.writer.execute("ROLLBACK")


def _table_keys(reader: CatalogReader, snapshot_id: int) -> set[str]:
    names = [*(info.full_name for info in tables(reader, snapshot_id)), *inherited_tables(reader, snapshot_id)]
    return set(map(folded, names))


def _free_folder(context: WriteContext, name: str) -> str:
    """The folder of a table that does not exist yet."""
    schema, table = split_name(name)
    with context.session.reader.one_state() as reader:
        _check_free(context, name, reader, hint="use lake.table(…), or pass if_not_exists=True")
        folder = table_folder(reader, schema, table, context.snapshot_id)
    check_folder(context.session.reader.data_path, folder)
    return folder


def _check_free(context: WriteContext, name: str, reader: CatalogReader, *, hint: str) -> None:
    """Rejects the name of a table, with this hint, or of a view that the transaction does not drop."""
    if exists_in(context.transaction, name, reader):
        raise SchemaError(f"the table {full_name(name)} already exists", hint=hint)
    view, actions = read_view(reader, name, context.snapshot_id), context.transaction.contents.actions
    if view is not None and view not in [action.drops_view for action in actions if isinstance(action, DefineTable)]:
        raise SchemaError(f"the view {full_name(name)} already exists", hint="drop it first: lake.drop_view(…)")


def _changeable(context: WriteContext) -> Target:
    """A table to drop or rename."""
    try:
        return context.target()
    except UnsupportedError as error:
        name = full_name(context.table)
        raise SchemaError(f"{name} is not a table", hint="use lake.drop_view(…) for a view") from error


def _check_undefined(context: WriteContext, info: TableInfo) -> None:
    """Rejects the rename of a table whose definition the transaction has changed.

    DuckLake would store its columns twice, and then nobody could read the lake.
    """
    actions = context.transaction.contents.actions
    defined = {folded(action.table) for action in actions if not action.changes_rows}
    if folded(info.full_name) in defined and info.table_id != NO_ID:
        raise SchemaError(
            f"the transaction has changed columns or comments of {info.full_name}, which DuckLake cannot then rename",
            hint="rename the table in another transaction",
        )
