"""Reads the SQL that is stored in a lake: its views, macros, sort keys and default values."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import duckdb

from lakeconf.catalog.reader import CatalogReader, MetadataTransaction, own_rows
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.sql_references import INDIRECT, Name, References, find_references, mentioned, query_at
from lakeconf.catalog.tables import DEFAULT_SCHEMA, joined_name, tables
from lakeconf.connection.connection import Connection, schemas_of
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.ducklake import INTERNAL_SCHEMA, check_placeholders, visible_at
from lakeconf.errors import (
    LakeconfError,
    QueryError,
    UnknownNameError,
    UnsafeQueryError,
    UnsupportedError,
    listed,
    suggestion,
)
from lakeconf.sql import literal

# True if the lake may have such SQL. The SQL itself is read by DuckDB, as DuckLake reads it.
_ANY = """
    SELECT EXISTS (SELECT 1 FROM ducklake_view) OR EXISTS (SELECT 1 FROM ducklake_macro)
        OR EXISTS (SELECT 1 FROM ducklake_sort_expression) OR EXISTS (SELECT 1 FROM ducklake_column
            WHERE NOT coalesce(default_value_type = 'literal', true)) AS found,
        (SELECT max(snapshot_id) FROM ducklake_snapshot) AS newest
"""

_STORED = """
    SELECT 'view', view_name, sql, begin_snapshot, end_snapshot FROM ducklake_view
    UNION ALL SELECT i.type || ' macro', m.macro_name, i.sql, m.begin_snapshot, m.end_snapshot
    FROM ducklake_macro AS m JOIN ducklake_macro_impl AS i ON i.macro_id = m.macro_id
"""

# Expressions that DuckLake evaluates when it writes rows or merges files.
_EXPRESSIONS = """
    WITH latest AS (SELECT max(snapshot_id) AS id FROM ducklake_snapshot),
    expressions AS (
        SELECT 'sort key' AS kind, i.table_id, e.expression, i.begin_snapshot, i.end_snapshot
        FROM ducklake_sort_expression AS e LEFT JOIN ducklake_sort_info AS i USING (sort_id)
        UNION ALL SELECT 'default value', table_id, default_value, begin_snapshot, end_snapshot
        FROM ducklake_column WHERE default_value_type <> 'literal')
    SELECT DISTINCT e.kind || ' of the table', coalesce(t.table_name, ''), e.expression,
        e.begin_snapshot, e.end_snapshot
    FROM expressions AS e LEFT JOIN ducklake_table AS t USING (table_id)
    WHERE coalesce(e.end_snapshot > (SELECT id FROM latest), true)
"""

_RELATIONS = """
    SELECT s.schema_name AS schema_name, r.name AS name, r.begin_snapshot AS begin_snapshot,
        r.end_snapshot AS end_snapshot
    FROM (SELECT schema_id, table_name AS name, begin_snapshot, end_snapshot FROM ducklake_table
          UNION ALL SELECT schema_id, view_name, begin_snapshot, end_snapshot FROM ducklake_view) AS r
    JOIN ducklake_schema AS s ON s.schema_id = r.schema_id
"""

_RELATION_TYPES = "schema_name VARCHAR, name VARCHAR, begin_snapshot BIGINT, end_snapshot BIGINT"


class StoredSql(NamedTuple):
    """The SQL of a lake."""

    views: list[tuple[Any, ...]]  # views and macros, each with the kind, name, SQL and snapshots of a `StoredQuery`
    expressions: list[tuple[Any, ...]]  # sort keys and default values, in the same way
    names: list[tuple[Any, ...]]  # the names of tables and views, as in `StoredQueries.relations`
    newest: int  # the newest snapshot


def stored_sql(transaction: MetadataTransaction, *, names: bool) -> StoredSql:
    """Reads the SQL of a lake, and the names that it may use."""
    ((has_any, newest),) = own_rows(transaction, _ANY, "found BOOLEAN, newest BIGINT")
    if not has_any:
        return StoredSql([], [], own_rows(transaction, _RELATIONS, _RELATION_TYPES) if names else [], newest)
    views, expressions, relations = map(transaction.rows, (_STORED, _EXPRESSIONS, _RELATIONS))
    return StoredSql(views, expressions, relations, newest)


# Table functions that only compute, or read the lake through DuckLake. This excludes DuckLake's list of files, which
# shows encryption keys.
SAFE_TABLE_FUNCTIONS = frozenset(
    {
        *("current_snapshot", "last_committed_snapshot", "snapshots", "table_changes", "table_deletions"),
        *("table_info", "table_insertions", "ducklake_current_snapshot", "ducklake_last_committed_snapshot"),
        *("ducklake_snapshots", "ducklake_table_changes", "ducklake_table_deletions", "ducklake_table_info"),
        *("ducklake_table_insertions", "generate_series", "json_each", "json_tree", "range", "repeat", "repeat_row"),
        *("summary", "test_all_types", "unnest"),
    }
)

# Scalar functions that read the settings or the environment of the process, change its state, or only wait.
_UNSAFE_FUNCTIONS = frozenset(
    {
        *("currval", "current_setting", "getenv", "getvariable", "nextval", "pg_sleep", "setseed", "sleep_ms"),
        *("json_serialize_plan", "write_log"),  # the first one binds a query in a string, so it reads files
    }
)

# DuckDB's own views, which a name without a schema means even if the lake has a table of that name. Some show settings,
# such as the keys of AWS that DuckDB takes from the environment.
SYSTEM_VIEW = re.compile(
    "duckdb_(columns|constraints|databases|indexes|logs|schemas|tables|types|views)|pragma_database_list"
    "|pg_(am|attrdef|attribute|class|collation|constraint|database|depend|description|enum|index|indexes|namespace"
    "|prepared_statements|proc|sequence|sequences|settings|tables|tablespace|type|views)|sqlite_(temp_)?(master|schema)"
)
# DuckLake stores the name of the lake in a view as this word, and inserts the name under which the lake is attached.
_THIS_LAKE = "{DUCKLAKE_CATALOG}."
# DuckLake does not quote it, so views that contain the word only work for such names.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class StoredQuery:
    """A view or a macro of the lake, or an expression of a table."""

    kind: str  # `view`, `scalar macro`, `table macro`, `sort key of the table` or `default value of the table`
    name: str  # its name, without the schema, in lower case; for an expression, the name of the table
    sql: str  # its query, or the expression
    begin: int  # the first snapshot that contains it
    end: int | None  # the first later snapshot that does not contain it; None if it still exists


@dataclass(frozen=True)
class StoredQueries:
    """All SQL stored in a lake, and the names that this SQL may use."""

    reader: CatalogReader  # the lake
    snapshot_id: int  # the snapshot whose views and macros a query without `AT` uses
    queries: tuple[StoredQuery, ...]  # the views and macros of all snapshots
    # Schema and name of tables and views, in lower case, with the snapshots between which they exist.
    relations: tuple[tuple[str, str, int, int | None], ...]
    expressions: tuple[StoredQuery, ...] = ()  # the sort keys and default values of tables that writes evaluate

    @classmethod
    def load(cls, reader: CatalogReader, snapshot_id: int | None = None, *, names: bool = True) -> StoredQueries:
        """Reads the stored SQL without binding it; without `names`, `relations` only if there is stored SQL."""
        with reader.transaction() as transaction:
            found = stored_sql(transaction, names=names)
        stored = tuple(
            StoredQuery(kind, name.lower(), _as_run(kind, sql, reader.alias), *rest)
            for kind, name, sql, *rest in found.views
        )
        named = tuple((schema.lower(), name.lower(), *ends) for schema, name, *ends in found.names)
        expressions = tuple(StoredQuery(*row) for row in found.expressions)
        if snapshot_id is None and stored:  # a lake may be attached at an earlier one
            ((snapshot_id,),) = reader.connection.rows("FROM ducklake_current_snapshot(?)", [reader.alias])
        return cls(reader, found.newest if snapshot_id is None else snapshot_id, stored, named, expressions)

    def check(self, query: References | None) -> None:
        """Rejects a query that uses a view or macro that does more than compute; None may use any of them."""
        if not self.queries:
            return
        waiting, past = [query], query is None or query.past
        seen: set[StoredQuery] = set()
        always = self._shadows()
        while waiting:
            reached = set(self._reached(waiting.pop(), always)) - seen
            seen |= reached
            for stored in sorted(reached, key=lambda one: (one.name, one.begin)):
                if past or self._is_current(stored.begin, stored.end):
                    found = self._check_one(stored, past=past)
                    past |= found.past
                    waiting.append(found)
        if past and query is not None and not query.past:
            self.check(replace(query, past=True))

    def check_statement(self, sql: str) -> None:
        """Rejects a statement that changes rows if it may use an unsafe view or macro."""
        self.check(mentioned(sql, (stored.name for stored in self.queries)))

    def relations_behind(self, sql: str) -> set[Name]:
        """The tables that the views and macros in a statement read; a name in a string counts too."""
        reached = list(self._reached(mentioned(sql, (stored.name for stored in self.queries)), frozenset()))
        found: set[Name] = set()
        for stored in reached:  # it grows
            references = self._references(stored) if self._is_current(stored.begin, stored.end) else None
            if references is not None:
                found |= references.relations
                reached += (one for one in set(self._reached(references, frozenset())) if one not in reached)
        return found

    def check_expressions(self) -> None:
        """Rejects a lake with sort keys or default values that may do more than compute from its tables."""
        for expression in self.expressions:
            self.check(self._check_one(expression, past=False))

    def reading_macros(self) -> set[str]:
        """The macros whose result depends on the snapshot: they read tables, or a later snapshot changes them."""
        kept = [one for one in self.queries if one.kind != "view" and (one.end is None or one.end > self.snapshot_id)]
        macros = [(one, self._references(one)) for one in kept]
        found = {
            one.name
            for one, read in macros
            if read is None or read.everything or read.table_functions
            or any(name.schema or name.name not in read.local for name in read.relations)
            or one.end is not None or one.begin > self.snapshot_id
        }  # fmt: skip
        for _ in macros:  # a macro that calls such a macro is one
            found |= {one.name for one, read in macros if read is not None and not found.isdisjoint(read.functions)}
        return found

    def open_schemas(self, connection: Connection) -> None:
        """Lets queries on a connection name the lake's tables as `schema.table`."""
        connection.prefer_builtins(self.reader.alias, schemas_of(connection, self.reader.alias))

    def check_schemas(self, query: References | None, connection: Connection) -> None:
        """Rejects table names without a schema if the table is not in `main`: the search path contains all schemas."""
        if query is None:
            return
        main = {name for schema, name, *_ in self.relations if schema == DEFAULT_SCHEMA}
        for relation in sorted(query.relations):
            if relation.schema or relation.name in main | query.local:
                continue
            found = sorted({schema for schema, name, *_ in self.relations if name == relation.name})
            # The connection's open transaction may have created it.
            made = (
                f"SELECT 1 FROM duckdb_tables() WHERE database_name = {literal(self.reader.alias)} "  # noqa: S608
                f"AND schema_name = '{DEFAULT_SCHEMA}' AND lower(table_name) = {literal(relation.name)}"
            )
            if found and not connection.rows(made):
                hint = f"did you mean {found[0]}.{relation.name}?"
                raise UnknownNameError(f"the schema {DEFAULT_SCHEMA} has no table {relation.name}", hint=hint)

    def _reached(self, query: References | None, always: frozenset[str]) -> Iterator[StoredQuery]:
        for stored in self.queries:
            if query is None or query.everything:
                yield stored
            elif stored.kind == "view":
                if any(relation.name == stored.name for relation in query.relations):
                    yield stored
            elif stored.name in query.functions | query.table_functions | always:
                yield stored

    def _shadows(self) -> frozenset[str]:
        """Returns names of macros that shadow DuckDB functions: DuckDB's internal SQL may call them."""
        names = {stored.name for stored in self.queries if stored.kind != "view"}
        if not names:
            return frozenset()
        listed = ", ".join(map(literal, sorted(names)))
        with self.reader.connection.cursor() as cursor:
            found = cursor.rows(
                "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "  # noqa: S608
                f"WHERE database_name = 'system' AND lower(function_name) IN ({listed})"
            )
        return frozenset(name for (name,) in found)

    def _check_one(self, stored: StoredQuery, *, past: bool) -> References:
        found = self._references(stored)
        if found is None:
            raise _unsafe(stored, "is not a single query that can be checked")
        macros = {one.name for one in self.queries if one.kind == "table macro"}
        unsafe = (found.table_functions - SAFE_TABLE_FUNCTIONS - macros) | (found.functions & _UNSAFE_FUNCTIONS)
        for name in sorted(unsafe):
            raise _unsafe(stored, f"calls {name}()")
        past = past or found.past
        known = {relation[:2] for relation in self.relations if past or self._is_current(*relation[2:])}
        for relation in sorted(found.relations):
            if not self._is_of_the_lake(relation, known, found.local):
                raise _unsafe(stored, f"reads {relation}, which is not a table of the lake")
        return found

    def _references(self, stored: StoredQuery) -> References | None:
        sql = stored.sql if stored.kind in ("view", "table macro") else f"SELECT {stored.sql}"
        return find_references(self.reader.connection, sql)

    def _is_of_the_lake(self, relation: Name, known: Iterable[tuple[str, str]], local: frozenset[str]) -> bool:
        alias = self.reader.alias.lower()
        if relation.database not in ("", alias):
            return False
        if not relation.schema:
            named = relation.name in local or any(name == relation.name for _, name in known)
            return named and not SYSTEM_VIEW.fullmatch(relation.name)
        if relation.schema == "information_schema" and not relation.database:
            return True
        schemas = {relation.schema} if relation.database or relation.schema != alias else {alias, "main"}
        return any((schema, relation.name) in known for schema in schemas)

    def _is_current(self, begin: int, end: int | None) -> bool:
        return begin <= self.snapshot_id and (end is None or end > self.snapshot_id)


def prepare_query(
    reader: CatalogReader,
    sql: str,
    connection: Connection | None = None,
    *,
    frames: Iterable[str] = (),
    at: int | None = None,
) -> str:
    """Prepares a connection for a user's query, which may do anything; views and macros of the lake are restricted.

    Returns the query, which reads the latest snapshot unless `at` is another one.
    """
    check_placeholders(sql, "the query")
    stored = StoredQueries.load(reader, at)
    runner = connection or reader.connection
    stored.open_schemas(runner)
    references, given = find_references(reader.connection, sql), frozenset(frames)
    stored.check(references)
    if references is not None:
        references = replace(references, local=references.local | {name.lower() for name in given})
    stored.check_schemas(references, runner)
    if at is None:
        return sql
    called = references.functions | references.table_functions if references is not None else frozenset[str]()
    for name in sorted(called & (stored.reading_macros() | INDIRECT)):
        raise UnsupportedError(
            f"{name}() would read the latest snapshot instead of {at}", hint="write the query itself, or make it a view"
        )
    if references is not None and (references.everything or called & _OF_THE_LATEST):
        raise UnsupportedError(
            f"the query would describe the latest snapshot instead of {at}",
            hint="call tables() of the lake, and schema, files() or count() of its tables; or write DESCRIBE t",
        )
    return query_at(sql, at, given)


def _as_run(kind: str, sql: str, alias: str) -> str:
    """The SQL as DuckLake runs it, except that it does not change strings; a plain name cannot end one."""
    return sql.replace(_THIS_LAKE, f"{alias}.") if kind == "view" and _PLAIN.fullmatch(alias) else sql


def _unsafe(stored: StoredQuery, what: str) -> UnsafeQueryError:
    return UnsafeQueryError(
        f"the {stored.kind} {stored.name!r} of the lake {what}: a writer of the lake could use it to read your files "
        "or steal your credentials",
        hint="replace it, or run it as your own query: SQL stored in a lake may only compute from its tables",
    )


# Table functions that only compute, read the lake or describe it.
READERS = SAFE_TABLE_FUNCTIONS | {
    *("duckdb_columns", "duckdb_constraints", "duckdb_functions", "duckdb_indexes", "duckdb_keywords"),
    *("duckdb_schemas", "duckdb_tables", "duckdb_types", "duckdb_views", "ducklake_options", "ducklake_settings"),
    *("options", "settings", "pragma_table_info", "pragma_version"),
}

_DUCKLAKE = "ducklake_"
# DuckLake's other functions that read: they list files, whose keys `lakeconf sql` does not show.
_LISTS = frozenset({"ducklake_list_files", "ducklake_scan"})

# Those that describe the latest snapshot.
_OF_THE_LATEST = frozenset({"ducklake_list_files", "ducklake_table_info"})

# DuckLake's functions that change files, snapshots or settings; the schema of a lake has them without the prefix.
WRITERS = frozenset(
    {
        *("add_data_files", "cleanup_old_files", "commit", "delete_orphaned_files", "expire_snapshots"),
        *("flush_inlined_data", "merge_adjacent_files", "rewrite_data_files", "set_commit_message", "set_option"),
    }
)

# DuckDB's functions that write files, attach databases, change settings, or run a statement in a database, such as the
# catalog's.
_OTHERS = frozenset(
    {
        *("add_parquet_key", "checkpoint", "copy_database", "disable_logging", "disable_profile", "disable_profiling"),
        *("enable_logging", "enable_profile", "enable_profiling", "force_checkpoint", "import_database"),
        *("mysql_clear_cache", "mysql_execute", "mysql_query", "pg_clear_cache", "postgres_attach"),
        *("postgres_configure_pool", "postgres_execute", "postgres_query", "sqlite_attach", "sqlite_query"),
        "truncate_duckdb_logs",
    }
)

# Functions that run a query in a string, which may be computed.
_RUNNING_SQL = frozenset({"json_execute_serialized_sql", "query"})
_WORD = re.compile(r'"((?:[^"]|"")*)"|([\w$]+)')
_NOT_ONE_QUERY = (
    "write one SELECT … or FROM …; use lake.execute(…) to change rows, and methods such as lake.drop_table(…) to "
    "change tables"
)


def check_only_reads(connection: Connection, sql: str) -> None:
    """Rejects SQL that is more than one query that reads.

    A PIVOT is allowed, and a CALL of a function that is known to only read.
    """
    with translated_errors():
        statements = duckdb.extract_statements(sql)
    # DuckDB's parser adds statements without any text to a PIVOT, and reports a PRAGMA as a query.
    written = [one.type for one in statements if one.query or one.type != duckdb.StatementType.CREATE]
    first = next(iter(_words(sql)), "")
    # DuckDB's parser reports CHECKPOINT as a CALL.
    if written == [duckdb.StatementType.CALL] and first == "call":
        called = next(iter(called_functions(sql)), "")
        if called not in READERS:
            raise QueryError(
                f"CALL {called}() may do more than read",
                hint="use the methods of lake.maintenance and of tables; write SELECT … or FROM … to read",
            )
    elif written != [duckdb.StatementType.SELECT] or first == "pragma":
        raise QueryError("the SQL is not a single query", hint=_NOT_ONE_QUERY)
    references = find_references(connection, sql)
    check_functions(called_functions(sql) if references is None else references.table_functions)


def check_functions(names: Iterable[str]) -> None:
    """Rejects functions that change the lake, or may do so."""
    for name in sorted(names):
        if name in _RUNNING_SQL:
            raise QueryError(f"{name}() runs SQL that cannot be checked", hint="write the query itself")
        unknown = name.startswith(_DUCKLAKE) and name not in READERS | _LISTS
        if unknown or name in WRITERS or name in _OTHERS:
            raise QueryError(
                f"{name}() changes the lake without its locks, and is no query",
                hint="use methods such as lake.maintenance.compact(), .expire_snapshots(…) and .cleanup(…)",
            )


def called_functions(sql: str) -> Sequence[str]:
    """The names in front of parentheses, in lower case and in their order; text in strings and comments is none."""
    return [name for name, after in itertools.pairwise(_words(sql)) if after == "(" and name not in ("", "(")]


def _words(sql: str) -> list[str]:
    """The tokens: names and keywords in lower case and without quotes, `(`, and an empty string for all others."""
    text = sql.encode()  # the offsets count bytes
    found = []
    with translated_errors():
        tokens = duckdb.tokenize(sql)
    for start, kind in tokens:
        if kind == duckdb.token_type.comment:
            continue
        named = kind in (duckdb.token_type.identifier, duckdb.token_type.keyword)
        word = _WORD.match(text[start:].decode()) if named else None
        if word is not None:
            found.append((word[2] or word[1].replace('""', '"')).lower())
        else:
            found.append("(" if text[start : start + 1] == b"(" else "")
    return found


_VIEWS = f"""
    SELECT s.schema_name, v.view_name
    FROM ducklake_view AS v JOIN ducklake_schema AS s ON s.schema_id = v.schema_id
    WHERE {visible_at(row="v")} AND {visible_at(row="s")}
"""  # noqa: S608


def view_names(reader: CatalogReader, snapshot_id: int) -> tuple[str, ...]:
    """Returns the sorted full names of the views at a snapshot."""
    with reader.transaction() as transaction:
        return tuple(sorted(joined_name(*row) for row in transaction.rows(_VIEWS, [snapshot_id])))


_UNKNOWN = re.compile(r"\bTable with name (?P<name>.+?) does not exist")
_ADVICE = re.compile(r"\nDid you mean \"[^\n]*")


@contextlib.contextmanager
def tables_suggested(names: Callable[[], Iterable[str]], otherwise: str) -> Iterator[None]:
    """Gives the errors inside a hint that names a similar table or view of the lake."""
    try:
        yield
    except UnknownNameError as error:
        unknown = _UNKNOWN.search(error.message)
        if unknown is not None and error.hint is None:
            known: list[str] = []
            with contextlib.suppress(LakeconfError):  # the error itself is more important
                known += names()
            error.hint = _hint(unknown["name"].strip('"'), known, otherwise)
            error.message = _ADVICE.sub("", error.message)
            error.args = (error.message,)
        raise


def readable_names(reader: CatalogReader) -> list[str]:
    """The sorted names of the tables and views at the latest snapshot, without internal tables."""
    snapshot_id = latest(reader).snapshot_id
    found = [info.full_name for info in tables(reader, snapshot_id) if info.schema_name.lower() != INTERNAL_SCHEMA]
    return sorted([*found, *view_names(reader, snapshot_id)])


def _hint(name: str, known: list[str], otherwise: str) -> str:
    # DuckDB's message has no schema.
    names = {full.rpartition(".")[2].strip('"'): full for full in known} | {full: full for full in known}
    similar = suggestion(name, names)
    if similar:
        full = names[similar.partition('"')[2].rpartition('"')[0]]
        return suggestion(full, [full])
    return f"{otherwise}: {listed(known)}" if known else "create a table first: lake.create_table(…)"
