"""The queries that a lake itself holds, its views and macros, and what they may do when another query reaches them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.references import Name, References, find_references
from lakeconf.catalog.table import DEFAULT_SCHEMA
from lakeconf.connection.connection import Connection
from lakeconf.errors import UnknownNameError, UnsafeQueryError
from lakeconf.sql import literal

# Table functions that only compute, or read the lake through DuckLake. DuckLake's list of files is not among them: it
# shows the encryption keys.
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
        "write_log",
    }
)
# DuckDB takes a name for a file if there is no such table and the name has a known ending; URLs have a dot as well.
_LIKE_A_FILE = re.compile(r"[./\\:*?\[]")
_SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog"})

_STORED = """
    SELECT 'view', v.schema_id, v.view_name, v.sql, v.begin_snapshot, v.end_snapshot FROM ducklake_view AS v
    UNION ALL
    SELECT i.type || ' macro', m.schema_id, m.macro_name, i.sql, m.begin_snapshot, m.end_snapshot
    FROM ducklake_macro AS m JOIN ducklake_macro_impl AS i ON i.macro_id = m.macro_id
"""
# What DuckLake evaluates when it writes rows or merges files.
_EXPRESSIONS = """
    WITH latest AS (SELECT max(snapshot_id) AS id FROM ducklake_snapshot),
    expressions AS (
        SELECT 'sort key' AS kind, i.table_id, e.expression, i.begin_snapshot, i.end_snapshot
        FROM ducklake_sort_expression AS e JOIN ducklake_sort_info AS i USING (sort_id, table_id)
        UNION ALL SELECT 'default value', table_id, default_value, begin_snapshot, end_snapshot
        FROM ducklake_column WHERE default_value_type = 'expression')
    SELECT DISTINCT e.kind || ' of the table', coalesce(t.table_name, ''), e.expression,
        e.begin_snapshot, e.end_snapshot
    FROM expressions AS e LEFT JOIN ducklake_table AS t USING (table_id)
    WHERE coalesce(e.end_snapshot > (SELECT id FROM latest), true)
"""
_RELATIONS = """
    SELECT s.schema_name, r.name, r.begin_snapshot, r.end_snapshot
    FROM (SELECT schema_id, table_name AS name, begin_snapshot, end_snapshot FROM ducklake_table
          UNION ALL SELECT schema_id, view_name, begin_snapshot, end_snapshot FROM ducklake_view) AS r
    JOIN ducklake_schema AS s ON s.schema_id = r.schema_id
"""


@dataclass(frozen=True)
class StoredQuery:
    """A view or a macro of the lake, or an expression of a table.

    Attributes:
        kind: `view`, `scalar macro`, `table macro`, `sort key of the table` or `default value of the table`.
        name: Its name, without the schema, in lower case; of an expression that of the table.
        sql: Its query, or the expression.
        begin: The snapshot that it begins at.
        end: The snapshot that it ends before; None if it has not ended.
    """

    kind: str
    name: str
    sql: str
    begin: int
    end: int | None


@dataclass(frozen=True)
class StoredQueries:
    """Everything in a lake that holds SQL, and the names that this SQL may use.

    Attributes:
        reader: The lake.
        snapshot_id: The snapshot whose views and macros a query without `AT` reaches.
        queries: The views and macros of all snapshots.
        relations: Schema and name of tables and views, in lower case, with the snapshots between which they exist.
        expressions: The sort keys and default values of tables that writes evaluate.
    """

    reader: CatalogReader
    snapshot_id: int
    queries: tuple[StoredQuery, ...]
    relations: tuple[tuple[str, str, int, int | None], ...]
    expressions: tuple[StoredQuery, ...] = ()

    @classmethod
    def load(cls, reader: CatalogReader, snapshot_id: int | None = None) -> StoredQueries:
        """Reads them from the catalog, without binding any.

        Args:
            reader: The lake.
            snapshot_id: The snapshot that queries read; the latest by default.
        """
        with reader.transaction() as transaction:
            found = transaction.rows(_STORED)
            stored = tuple(StoredQuery(kind, name.lower(), sql, *rest) for kind, _, name, sql, *rest in found)
            relations = transaction.rows(_RELATIONS)
            expressions = tuple(StoredQuery(*row) for row in transaction.rows(_EXPRESSIONS))
            if snapshot_id is None:
                ((snapshot_id,),) = transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
        named = tuple((schema.lower(), name.lower(), begin, end) for schema, name, begin, end in relations)
        return cls(reader, snapshot_id, stored, named, expressions)

    def check(self, query: References | None) -> None:
        """Refuses a query that would run a view or macro which does more than compute from the lake's tables.

        Args:
            query: What the query refers to; None if this is not known, so that it may reach each view and macro.

        Raises:
            UnsafeQueryError: It reaches an unsafe view or macro; names it and what is unsafe about it.
        """
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

    def check_expressions(self) -> None:
        """Refuses a lake whose sort keys or default values may do more than compute from its tables.

        Raises:
            UnsafeQueryError: One does; names it and what is unsafe about it.
        """
        for expression in self.expressions:
            self.check(self._check_one(expression, past=False))

    def open_schemas(self, connection: Connection) -> None:
        """Lets queries on a connection name the lake's tables as `schema.table`."""
        alias = literal(self.reader.alias)
        found = connection.rows(f"SELECT schema_name FROM duckdb_schemas() WHERE database_name = {alias}")  # noqa: S608
        connection.prefer_builtins(self.reader.alias, sorted(schema for (schema,) in found))

    def check_schemas(self, query: References | None, connection: Connection) -> None:
        """Refuses a table without its schema that is not in `main`: the search path holds the others as well.

        Raises:
            UnknownNameError: There is one; says in which schemas it is.
        """
        if query is None:
            return
        main = {name for schema, name, *_ in self.relations if schema == DEFAULT_SCHEMA}
        for relation in sorted(query.relations):
            if relation.schema or relation.name in main | query.local:
                continue
            found = sorted({schema for schema, name, *_ in self.relations if name == relation.name})
            # The open transaction of the connection may have made it.
            made = (
                f"SELECT 1 FROM duckdb_tables() WHERE database_name = {literal(self.reader.alias)} "  # noqa: S608
                f"AND schema_name = '{DEFAULT_SCHEMA}' AND lower(table_name) = {literal(relation.name)}"
            )
            if found and not connection.rows(made):
                raise UnknownNameError(
                    f"there is no table {relation.name} in the schema {DEFAULT_SCHEMA}",
                    hint=f"did you mean {found[0]}.{relation.name}?",
                )

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
        """The names of macros that DuckDB has functions of: SQL that only DuckDB holds may call them."""
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
        sql = stored.sql if stored.kind in ("view", "table macro") else f"SELECT {stored.sql}"
        found = find_references(self.reader.connection, sql)
        if found is None:
            raise _unsafe(stored, "is not one query that can be checked")
        macros = {one.name for one in self.queries if one.kind == "table macro"}
        for name in sorted(found.table_functions - SAFE_TABLE_FUNCTIONS - macros):
            raise _unsafe(stored, f"calls {name}()")
        for name in sorted(found.functions & _UNSAFE_FUNCTIONS):
            raise _unsafe(stored, f"calls {name}()")
        known = {relation[:2] for relation in self.relations if past or self._is_current(*relation[2:])}
        for relation in sorted(found.relations):
            if not self._is_of_the_lake(relation, known):
                raise _unsafe(stored, f"reads {relation}, which is not a table of the lake")
        return found

    def _is_of_the_lake(self, relation: Name, known: Iterable[tuple[str, str]]) -> bool:
        alias = self.reader.alias.lower()
        if relation.database not in ("", alias):
            return False
        if not relation.schema:
            return not _LIKE_A_FILE.search(relation.name)
        if relation.schema in _SYSTEM_SCHEMAS and not relation.database:
            return True
        schemas = {relation.schema} if relation.database or relation.schema != alias else {alias, "main"}
        return any((schema, relation.name) in known for schema in schemas)

    def _is_current(self, begin: int, end: int | None) -> bool:
        return begin <= self.snapshot_id and (end is None or end > self.snapshot_id)


def prepare_query(
    reader: CatalogReader, sql: str, connection: Connection | None = None, *, frames: Iterable[str] = ()
) -> None:
    """Prepares a connection for a query of the user, which may do anything; views and macros of the lake may not.

    Args:
        reader: The lake.
        sql: The query.
        connection: The connection that will run it; the reader's by default.
        frames: Names in the query that are frames and not tables of the lake.

    Raises:
        UnsafeQueryError: It reaches an unsafe view or macro of the lake, or it may, since DuckDB cannot tell what the
            query reaches.
        UnknownNameError: A name has no schema, and is not in the schema `main`, but in another.
    """
    stored = StoredQueries.load(reader)
    runner = connection or reader.connection
    stored.open_schemas(runner)
    references = find_references(reader.connection, sql)
    stored.check(references)
    if references is not None:
        references = replace(references, local=references.local | {name.lower() for name in frames})
    stored.check_schemas(references, runner)


def _unsafe(stored: StoredQuery, what: str) -> UnsafeQueryError:
    return UnsafeQueryError(
        f"the {stored.kind} {stored.name!r} of the lake {what}: whoever can write to the lake could read your files "
        "or send your credentials away by it",
        hint="SQL that a lake holds may only compute from its tables: replace it, or run a query as your own",
    )
