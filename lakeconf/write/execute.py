"""Runs a statement of SQL that changes the rows of one table, as part of a transaction.

DuckDB runs the text of the statement inside the transaction of the commit, where frames are temporary views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from lakeconf.catalog.only_reads import check_functions
from lakeconf.catalog.references import Name
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
from lakeconf.engines.schema_check import check_writable
from lakeconf.errors import QueryError, TableNotFoundError, UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write import writes
from lakeconf.write.statement import Statement, parse_statement

_OTHER_NAME = "give the frame another name"


@dataclass(frozen=True)
class _Execution:
    """A statement, and what it needs.

    Attributes:
        statement: The statement.
        transaction: The transaction that it becomes a part of.
        target: The table that it changes.
        frames: The frames, by their names in lower case.
    """

    statement: Statement
    transaction: Transaction
    target: Target
    frames: Mapping[str, Any]


def execute(scope: Scope, sql: str, frames: Mapping[str, object], key: str | None) -> int:
    """Runs a statement; see `Lake.execute`."""
    statement = parse_statement(scope.session.reader.connection, sql, scope.session.alias)
    change = partial(_add, statement=statement, frames=frames)
    return writes.write_once(scope, statement.name_of(statement.target), key, change)


def _add(transaction: Transaction, name: str, *, statement: Statement, frames: Mapping[str, object]) -> None:
    check_placeholders(statement.text, "the statement")
    check_functions(statement.reads.table_functions)
    _check_frames(statement, frames)
    given = {folded(frame): transaction.session.engine.adopt(value) for frame, value in frames.items()}
    _check_names(transaction, statement, given)
    execution = _Execution(statement, transaction, writes.target(transaction, name), given)
    _check_stored_types(execution)
    _run_by_duckdb(execution)


def _check_frames(statement: Statement, frames: Mapping[str, object]) -> None:
    """Refuses frames that the statement changes, does not use, or uses as tables of the lake too."""
    target, names = statement.target, set(map(folded, frames))
    used = {table.name for table in statement.reads.relations if not table.schema}
    for frame in frames:
        if not target.schema and target.name == folded(frame):
            raise QueryError(f"{frame} is both the table that the statement changes and a frame", hint=_OTHER_NAME)
        if folded(frame) not in used:
            raise QueryError(f"the statement does not use the frame {frame!r}", hint="name it like a table")
    for table in (target, *statement.reads.relations):
        # The view of a frame is in the schema `main` of DuckDB's temporary database, which comes first.
        if not table.database and table.schema == DEFAULT_SCHEMA and table.name in names:
            raise QueryError(f"{table} is both a table and a frame", hint=_OTHER_NAME)


def _check_names(transaction: Transaction, statement: Statement, frames: Mapping[str, object]) -> None:
    """Refuses names of tables without a schema that DuckDB would find in another schema than `main`."""
    tables = {statement.target, *statement.reads.relations}
    names = frozenset(
        Name("", "", table.name) if statement.is_in_default_schema(table) and not table.database else table
        for table in tables
    )
    pending = {split_name(name)[1] for name in transaction.targets if split_name(name)[0] == DEFAULT_SCHEMA}
    local = frozenset({*frames, *pending, *statement.reads.local})
    stored = StoredQueries.load(transaction.session.reader)
    stored.check_schemas(replace(statement.reads, relations=names, local=local), transaction.session.writer)
    alias = folded(statement.alias)
    if alias in {schema for schema, *_ in stored.relations} and any(table.schema == alias for table in tables):
        raise QueryError(
            f"{statement.alias} is the name of the lake and of a schema", hint="name all three: lake.schema.table"
        )


def _run_by_duckdb(execution: _Execution) -> None:
    """Adds the changes that run the statement at the commit."""
    transaction, statement, info = execution.transaction, execution.statement, execution.target.info
    name, is_insert = info.full_name, statement.kind == "insert"
    views = (_search_path(execution), *_views(execution))
    transaction.add(Change(views, name, sql=statement.text))
    depends_on = None if is_insert else writes.read_dependency_at_commit(transaction, info)
    change = Change((statement.text,), name, depends_on=depends_on, deletes=not is_insert, inserts=is_insert)
    # Columns of these types that the statement sets were refused above.
    kept = inexact_types(execution.target.types) if statement.kind == "update" else {}
    transaction.add(replace(change, written_for=writes.written_for(transaction, info), kept=kept))
    _depend_on(transaction, (statement.name_of(one) for one in _tables(execution)))
    _depend_on(transaction, _behind_views(execution))
    transaction.add(Change(tuple(f"DROP VIEW temp.main.{identifier(one)}" for one in execution.frames), name))


def _tables(execution: _Execution) -> list[Name]:
    """The names that may be tables which the statement reads, also those of common table expressions."""
    return [
        one for one in sorted(execution.statement.reads.relations) if one.schema or one.name not in execution.frames
    ]


def _depend_on(transaction: Transaction, names: Iterable[str]) -> None:
    """Makes the commit depend on the tables among these names."""
    for name in dict.fromkeys(names):
        try:
            info = writes.target(transaction, name).info
        except (TableNotFoundError, UnsupportedError):
            continue  # a view, or a common table expression
        depends_on = writes.read_dependency_at_commit(transaction, info)
        transaction.add(Change((), info.full_name, depends_on=depends_on))


def _check_stored_types(execution: _Execution) -> None:
    """Refuses values that the files would round: nothing else checks those that DuckDB computes."""
    statement = execution.statement
    if statement.kind == "delete":
        return
    for name, text in execution.target.types.items():
        found = parsed_type(text)
        check_writable(name, found)
        if is_stored_inexactly(found) and (not statement.columns or folded(name) in statement.columns):
            raise UnsupportedError(
                f"files could round values of the column {name!r} of the type {text}",
                hint="use append, merge or update, which check each value; or a DECIMAL(38, 0) column",
            )


def _behind_views(execution: _Execution) -> list[str]:
    """The tables that views and macros in the statement read."""
    transaction, alias = execution.transaction, folded(execution.transaction.session.alias)
    stored = StoredQueries.load(transaction.session.reader)
    found = []
    for database, schema, name in sorted(stored.relations_behind(execution.statement.text)):
        if not schema and name in execution.frames:
            raise QueryError(
                f"a view or macro of the statement reads the table {name}, not the frame", hint=_OTHER_NAME
            )
        in_main = not schema or (not database and schema == alias)
        if database in ("", alias):
            found.append(joined_name(DEFAULT_SCHEMA if in_main else schema, name))
    return found


def _search_path(execution: _Execution) -> str:
    """The statement that lets the user's SQL name the tables of the lake, also of new schemas."""
    session = execution.transaction.session
    pending = {split_name(name)[0] for name in execution.transaction.targets}
    return search_path_sql(session.alias, sorted({*pending, *schemas_of(session.reader.connection, session.alias)}))


def _views(execution: _Execution) -> list[str]:
    """Stages the frames, and returns the statements that make them views."""
    transaction, info = execution.transaction, execution.target.info
    engine, views = transaction.session.engine, []
    for frame, adopted in execution.frames.items():
        staged = engine.stage_rows(adopted, StagingRequest(info, engine.schema(adopted), transaction.next_token()))
        transaction.add(
            Change((), info.full_name, replace(staged, row_count=None))
        )  # removes the rows, also if a failure follows
        views.append(f"CREATE TEMP VIEW {identifier(frame)} AS {staged.source}")
    return views
