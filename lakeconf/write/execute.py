"""Runs a statement of SQL that changes the rows of one table, as part of a transaction.

A statement becomes an append, a delete or a merge of the frame API if it means the same; then Spark's executors write
the rows. Otherwise DuckDB runs the text of the statement inside the transaction of the commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from sqlglot import exp

from lakeconf.catalog.only_reads import check_functions
from lakeconf.catalog.references import Name, References, check_syntax
from lakeconf.catalog.stored_queries import StoredQueries
from lakeconf.catalog.table_name import DEFAULT_SCHEMA, joined_name, split_name
from lakeconf.catalog.types import parsed_type
from lakeconf.commit.change import Change, Target
from lakeconf.commit.moved_values import inexact_types
from lakeconf.commit.scope import Scope
from lakeconf.commit.transaction import Transaction
from lakeconf.connection.connection import schemas_of
from lakeconf.connection.search_path import search_path_sql
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.base import StagingRequest
from lakeconf.engines.exact_casts import is_stored_inexactly
from lakeconf.engines.schema_check import RESERVED, check_writable
from lakeconf.errors import QueryError, TableNotFoundError, UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write import writes
from lakeconf.write.staged_rows import check_row_ids
from lakeconf.write.statement import Statement, parse_statement
from lakeconf.write.statement_actions import actions_of, is_supported
from lakeconf.write.statement_merge import matched_twice
from lakeconf.write.statement_rewrite import Execution, depend_on_tables, rewritten

_OTHER_NAME = "give the frame another name"


def execute(scope: Scope, sql: str, frames: Mapping[str, object], key: str | None) -> int:
    """Runs a statement; see `Lake.execute`."""
    statement = parse_statement(sql, scope.session.alias)
    change = partial(_add, statement=statement, frames=frames)
    return writes.write_once(scope, statement.name_of(statement.target), key, change)


def _add(transaction: Transaction, name: str, *, statement: Statement, frames: Mapping[str, object]) -> None:
    check_placeholders(statement.text, "the statement")
    # sqlglot also accepts statements of other databases, such as DELETE with LIMIT, and ignores parts of some.
    check_syntax(transaction.session.reader.connection, statement.text)
    # Anywhere: sqlglot has no table for a function behind LATERAL.
    check_functions(folded(one.name) for one in statement.tree.find_all(exp.Anonymous))
    _check_frames(statement, frames)
    given = {folded(frame): transaction.session.engine.adopt(value) for frame, value in frames.items()}
    _check_names(transaction, statement, given)
    tables = {table: _table(transaction, table) for table in statement.read_tables(given)}
    known = {table: found for table, found in tables.items() if found is not None}
    execution = Execution(statement, transaction, writes.target(transaction, name), given, known)
    if len(known) < len(tables) or not rewritten(execution, name):
        _run_by_duckdb(execution)


def _check_frames(statement: Statement, frames: Mapping[str, object]) -> None:
    """Refuses frames that the statement changes, does not use, or uses as tables of the lake too."""
    target, names = statement.target, set(map(folded, frames))
    used = {folded(table.name) for table in statement.sources if not table.db}
    for frame in frames:
        if not target.db and folded(target.name) == folded(frame):
            raise QueryError(f"{frame} is both the table that the statement changes and a frame", hint=_OTHER_NAME)
        if folded(frame) not in used:
            raise QueryError(f"the statement does not use the frame {frame!r}", hint="name it like a table")
    for table in (target, *statement.sources):
        # The view of a frame is in the schema `main` of DuckDB's temporary database, which comes first.
        if not table.catalog and folded(table.db) == DEFAULT_SCHEMA and folded(table.name) in names:
            raise QueryError(f"{table.sql('duckdb')} is both a table and a frame", hint=_OTHER_NAME)


def _check_names(transaction: Transaction, statement: Statement, frames: Mapping[str, object]) -> None:
    """Refuses names of tables without a schema that DuckDB would find in another schema than `main`."""
    tables = [table for table in (statement.target, *statement.sources) if isinstance(table.this, exp.Identifier)]
    names = frozenset(_name(statement, table) for table in tables)
    pending = {split_name(name)[1] for name in transaction.targets if split_name(name)[0] == DEFAULT_SCHEMA}
    local = frozenset({*frames, *pending})
    nothing: frozenset[str] = frozenset()
    references = References(names, nothing, nothing, local, everything=False, past=False)
    stored = StoredQueries.load(transaction.session.reader)
    stored.check_schemas(references, transaction.session.writer)
    schemas = {schema for schema, *_ in stored.relations}
    if folded(statement.alias) in schemas and any(folded(table.db) == folded(statement.alias) for table in tables):
        raise QueryError(
            f"{statement.alias} is the name of the lake and of a schema", hint="name all three: lake.schema.table"
        )


def _name(statement: Statement, table: exp.Table) -> Name:
    if statement.is_in_default_schema(table) and not table.catalog:
        return Name("", "", folded(table.name))
    return Name(*map(folded, (table.catalog, table.db, table.name)))


def _table(transaction: Transaction, name: str) -> Target | None:
    """A table that a statement reads; None if it is a view."""
    try:
        return writes.target(transaction, name)
    except (TableNotFoundError, UnsupportedError):
        return None


def _run_by_duckdb(execution: Execution) -> None:
    """Adds the changes that run the statement at the commit; frames become temporary views."""
    transaction, statement, info = execution.transaction, execution.statement, execution.target.info
    name, is_insert = info.full_name, isinstance(statement.tree, exp.Insert)
    _check_stored_types(execution)
    views = (_search_path(execution), *_views(execution))
    statements: tuple[str, ...] = (statement.text,)
    dropped = tuple(f"DROP VIEW temp.main.{identifier(one)}" for one in execution.frames)
    forbidden = None
    if isinstance(statement.tree, exp.Merge):
        check_row_ids(info)
        if is_supported(statement):
            forbidden = matched_twice(statement)
        else:
            _check_columns(execution)
            table = writes.quoted(transaction.session, info)
            actions = actions_of(statement, table, execution.target.types, _source_columns(execution))
            views, forbidden, statements = (*views, actions.computed), actions.twice, actions.statements
            dropped = (actions.dropped, *dropped)
    transaction.add(Change(views, name, sql=statement.text, forbidden=forbidden))
    depends_on = None if is_insert else writes.read_dependency_at_commit(transaction, info)
    read = writes.written_for(transaction, info)
    # Columns of these types that the statement sets were refused above.
    kept = inexact_types(execution.target.types) if isinstance(statement.tree, (exp.Update, exp.Merge)) else {}
    transaction.add(Change(statements, name, depends_on=depends_on, deletes=not is_insert, written_for=read, kept=kept))
    depend_on_tables(execution, at_commit=True)
    _depend_on_views(execution)
    transaction.add(Change(dropped, name))


def _check_stored_types(execution: Execution) -> None:
    """Refuses values that the files would round: nothing else checks those that DuckDB computes."""
    statement, tree = execution.statement, execution.statement.tree
    if isinstance(tree, exp.Delete):
        return
    listed = [setting.this.name for setting in tree.expressions] if isinstance(tree, exp.Update) else statement.columns
    changed = set(map(folded, listed))
    for name, text in execution.target.types.items():
        found = parsed_type(text)
        check_writable(name, found)
        if is_stored_inexactly(found) and (not changed or folded(name) in changed or "" in changed):
            raise UnsupportedError(
                f"files could round values of the column {name!r} of the type {text}",
                hint="use append, merge or update, which check each value; or a DECIMAL(38, 0) column",
            )


def _depend_on_views(execution: Execution) -> None:
    """Makes the commit depend on the tables that views and macros in the statement read."""
    transaction, alias = execution.transaction, folded(execution.transaction.session.alias)
    stored = StoredQueries.load(transaction.session.reader)
    tables: dict[str, Target] = {}
    for database, schema, name in sorted(stored.relations_behind(execution.statement.text)):
        if not schema and name in execution.frames:
            raise QueryError(
                f"a view or macro of the statement reads the table {name}, not the frame", hint=_OTHER_NAME
            )
        in_main = not schema or (not database and schema == alias)
        found = _table(transaction, joined_name(DEFAULT_SCHEMA if in_main else schema, name))
        if found is not None and database in ("", alias):
            tables[found.info.full_name] = found
    depend_on_tables(replace(execution, tables=tables), at_commit=True)


def _search_path(execution: Execution) -> str:
    """The statement that lets the user's SQL name the tables of the lake, also of new schemas."""
    session = execution.transaction.session
    pending = {split_name(name)[0] for name in execution.transaction.targets}
    return search_path_sql(session.alias, sorted({*pending, *schemas_of(session.reader.connection, session.alias)}))


def _views(execution: Execution) -> list[str]:
    """Stages the frames, and returns the statements that make them views."""
    transaction, info = execution.transaction, execution.target.info
    engine, views = transaction.session.engine, []
    for frame, adopted in execution.frames.items():
        staged = engine.stage_rows(adopted, StagingRequest(info, engine.schema(adopted), transaction.next_token()))
        transaction.add(Change((), info.full_name, staged))  # removes the rows, also if a failure follows
        views.append(f"CREATE TEMP VIEW {identifier(frame)} AS {staged.source}")
    return views


def _source_columns(execution: Execution) -> list[str]:
    """The columns of the source of a MERGE INTO; empty if it is neither a frame nor a table."""
    statement = execution.statement
    source = statement.tree.args["using"]
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return []
    if not source.db and folded(source.name) in execution.frames:
        return list(execution.transaction.session.engine.schema(execution.frames[folded(source.name)]))
    table = execution.tables.get(statement.name_of(source))
    return [] if table is None else list(table.types)


def _check_columns(execution: Execution) -> None:
    """Refuses columns with the names of those that the table of actions adds to the source."""
    engine, frames = execution.transaction.session.engine, execution.frames.values()
    tables = (execution.target, *execution.tables.values())
    found = [
        *(name for frame in frames for name in engine.schema(frame)),
        *(name for table in tables for name in table.types),
    ]
    for name in found:
        if folded(name).startswith(RESERVED):
            raise UnsupportedError(f"the name of the column {name!r} is reserved", hint="rename the column")
