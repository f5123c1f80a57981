"""Runs a statement of the user in the transaction of a commit, with the conflicts of the tables that it reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeconf.catalog.column_types import parsed_type
from lakeconf.catalog.pruning.hidden_columns import HiddenColumns
from lakeconf.catalog.queries.only_reads import check_functions
from lakeconf.catalog.queries.sql_references import Name
from lakeconf.catalog.queries.stored_queries import StoredQueries, check_past
from lakeconf.catalog.tables import DEFAULT_SCHEMA, joined_name, split_name
from lakeconf.commit.actions import Action, RunSql, Target
from lakeconf.commit.moved_values import inexact_types, unchecked_columns
from lakeconf.connection.connection import schemas_of, search_path_sql
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.engine import StagingRequest
from lakeconf.engines.lossless import is_stored_inexactly
from lakeconf.engines.schema_check import check_writable
from lakeconf.errors import QueryError, TableNotFoundError, UnsupportedError
from lakeconf.sql import folded, identifier
from lakeconf.write.context import StartsFromLatest, WriteContext
from lakeconf.write.user_statement import UserStatement

_OTHER_NAME = "give the frame another name"


@dataclass(frozen=True)
class Execute(StartsFromLatest):
    """Runs an INSERT, UPDATE or DELETE; see `Lake.execute`."""

    statement: UserStatement
    frames: Mapping[str, object]

    def plan(self, context: WriteContext) -> Sequence[Action]:
        """Stages the frames as views; DuckDB runs the statement at the commit."""
        statement, session = self.statement, context.session
        check_placeholders(statement.text, "the statement")
        check_functions(statement.reads.table_functions)
        _check_frames(statement, self.frames)
        frames = {folded(frame): session.engine.adopt(value) for frame, value in self.frames.items()}
        _check_names(context, statement, frames)
        target = context.target()
        _check_stored_types(statement, target)
        info, is_insert = target.info, statement.kind == "insert"
        if not is_insert:
            target.evolved.check_read(info.full_name, target.types)
        views = (_search_path(context), *_views(context, target, frames))
        run = RunSql(
            table=info.full_name,
            sql=(statement.text,),
            deletes=not is_insert,
            inserts=is_insert,
            # Columns of these types that the statement sets were rejected above.
            kept=inexact_types(target.types) if statement.kind == "update" else {},
            required=_required(statement, target),
            depends_on=None if is_insert else context.dependency_at_commit(info),
            written_for=target.stored,
            strategy=str(context.strategist(target).by_statement("SQL runs in the commit")),
        )
        drops = tuple(f"DROP VIEW temp.main.{identifier(frame)}" for frame in frames)
        return [
            RunSql(table=info.full_name, sql=views, user_sql=statement.text),
            run,
            *_dependencies(context, (statement.name_of(name) for name in _tables(statement, frames))),
            *_dependencies(context, _behind_views(context, statement, frames)),
            RunSql(table=info.full_name, sql=drops),
        ]


def _required(statement: UserStatement, target: Target) -> tuple[str, ...]:
    """The columns that the statement may set, and of which DuckLake does not check that they are NOT NULL."""
    if statement.kind == "delete":
        return ()
    # An INSERT sets the columns that it leaves out, too.
    return unchecked_columns(target.info.columns, None if statement.kind == "insert" else statement.columns)


def _check_frames(statement: UserStatement, frames: Mapping[str, object]) -> None:
    """Rejects frames that the statement changes, does not use, or uses as tables of the lake too."""
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


def _check_names(context: WriteContext, statement: UserStatement, frames: Mapping[str, object]) -> None:
    """Rejects names of tables without a schema that DuckDB would find in another schema than `main`."""
    tables = {statement.target, *statement.reads.relations}
    names = frozenset(
        Name("", "", table.name) if statement.is_in_default_schema(table) and not table.database else table
        for table in tables
    )
    defined = [split_name(name) for name in context.transaction.contents.targets]
    pending = {table for schema, table in defined if schema == DEFAULT_SCHEMA}
    local = frozenset({*frames, *pending, *statement.reads.local})
    stored = StoredQueries.load(context.session.reader)
    stored.check_schemas(replace(statement.reads, relations=names, local=local), context.session.writer)
    behind = stored.references_behind(statement.text)
    changed = context.transaction.contents.changed_tables
    check_past(context.session.reader, statement.text, behind, changed=changed)
    if stored.may_miss:
        read = tables if statement.kind != "insert" else statement.reads.relations
        read = {table for table in read if table.schema or table.name not in frames}
        HiddenColumns.load(context.session.reader).check_statement(statement.text, read, behind)
    alias = folded(statement.alias)
    if alias in {schema for schema, *_ in stored.relations} and any(table.schema == alias for table in tables):
        raise QueryError(
            f"{statement.alias} is the name of the lake and of a schema", hint="name all three: lake.schema.table"
        )


def _tables(statement: UserStatement, frames: Mapping[str, Any]) -> list[Name]:
    """The names that may be tables which the statement reads, also those of common table expressions."""
    return [name for name in sorted(statement.reads.relations) if name.schema or name.name not in frames]


def _dependencies(context: WriteContext, names: Iterable[str]) -> list[Action]:
    """Makes the commit depend on the tables among these names."""
    actions: list[Action] = []
    for name in dict.fromkeys(names):
        try:
            table = context.read_table(name)
        except (TableNotFoundError, UnsupportedError):
            continue  # a view, or a common table expression
        table.evolved.check_read(table.info.full_name, table.types)
        depends_on = context.dependency_at_commit(table.info)
        actions.append(RunSql(table=table.info.full_name, depends_on=depends_on, written_for=table.stored))
    return actions


def _check_stored_types(statement: UserStatement, target: Target) -> None:
    """Rejects values that the files would round: nothing else checks those that DuckDB computes."""
    if statement.kind == "delete":
        return
    for name, type_name in target.types.items():
        kind = parsed_type(type_name)
        check_writable(name, kind)
        if is_stored_inexactly(kind) and (not statement.columns or folded(name) in statement.columns):
            raise UnsupportedError(
                f"files could round values of the column {name!r} of the type {type_name}",
                hint="use append, merge or update, which check each value; or a DECIMAL(38, 0) column",
            )


def _behind_views(context: WriteContext, statement: UserStatement, frames: Mapping[str, Any]) -> list[str]:
    """The tables that views and macros in the statement read."""
    alias, stored = folded(context.session.alias), StoredQueries.load(context.session.reader)
    tables = []
    for database, schema, name in sorted(stored.relations_behind(statement.text)):
        if not schema and name in frames:
            raise QueryError(
                f"a view or macro of the statement reads the table {name}, not the frame", hint=_OTHER_NAME
            )
        in_main = not schema or (not database and schema == alias)
        if database in ("", alias):
            tables.append(joined_name(DEFAULT_SCHEMA if in_main else schema, name))
    return tables


def _search_path(context: WriteContext) -> str:
    """The statement that lets the user's SQL name the tables of the lake, also of new schemas."""
    session = context.session
    pending = {split_name(name)[0] for name in context.transaction.contents.targets}
    return search_path_sql(session.alias, sorted({*pending, *schemas_of(session.reader.connection, session.alias)}))


def _views(context: WriteContext, target: Target, frames: Mapping[str, Any]) -> list[str]:
    """Stages the frames, and returns the statements that make them views."""
    engine, staging, views = context.session.engine, context.staging, []
    for frame, adopted in frames.items():
        request = StagingRequest(target.info, engine.schema(adopted), staging.next_token())
        staged = staging.own(engine.stage_rows(adopted, request))
        views.append(f"CREATE TEMP VIEW {identifier(frame)} AS {staged.source}")
    return views
