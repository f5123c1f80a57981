"""Checks the SQL stored in a lake, its views, macros and expressions, before a query runs it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.references import Name, References, find_references, mentioned
from lakeconf.catalog.stored_sql import stored_sql
from lakeconf.catalog.table_name import DEFAULT_SCHEMA
from lakeconf.connection.connection import Connection, schemas_of
from lakeconf.ducklake import check_placeholders
from lakeconf.errors import UnknownNameError, UnsafeQueryError
from lakeconf.sql import literal

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
        *("json_serialize_plan", "write_log"),  # the first one binds a query in a text, so it reads files
    }
)
# DuckDB reads a file if no table has the name and the name has a known extension; URLs contain a dot as well.
_LIKE_A_FILE = re.compile(r"[./\\:*?\[]")
# DuckLake stores the name of the lake in a view as this word, and inserts the name under which the lake is attached.
_THIS_LAKE = "{DUCKLAKE_CATALOG}."
# DuckLake does not quote it, so views that contain the word only work for such names.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SYSTEM_SCHEMAS = frozenset({"information_schema", "pg_catalog"})


@dataclass(frozen=True)
class StoredQuery:
    """A view or a macro of the lake, or an expression of a table.

    Attributes:
        kind: `view`, `scalar macro`, `table macro`, `sort key of the table` or `default value of the table`.
        name: Its name, without the schema, in lower case; for an expression, the name of the table.
        sql: Its query, or the expression.
        begin: The first snapshot that contains it.
        end: The first later snapshot that does not contain it; None if it still exists.
    """

    kind: str
    name: str
    sql: str
    begin: int
    end: int | None


@dataclass(frozen=True)
class StoredQueries:
    """All SQL stored in a lake, and the names that this SQL may use.

    Attributes:
        reader: The lake.
        snapshot_id: The snapshot whose views and macros a query without `AT` uses.
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
    @repeated
    def load(cls, reader: CatalogReader, snapshot_id: int | None = None, *, names: bool = True) -> StoredQueries:
        """Reads the stored SQL from the catalog without binding it.

        Args:
            reader: The lake.
            snapshot_id: The snapshot that queries read; default: the latest.
            names: False to read `relations` only if there is stored SQL, which may use them.
        """
        with reader.transaction() as transaction:
            found = stored_sql(transaction, names=names)
        stored = tuple(
            StoredQuery(kind, name.lower(), _as_run(kind, sql, reader.alias), *rest)
            for kind, name, sql, *rest in found.views
        )
        named = tuple((schema.lower(), name.lower(), *ends) for schema, name, *ends in found.names)
        expressions = tuple(StoredQuery(*row) for row in found.expressions)
        return cls(reader, found.newest if snapshot_id is None else snapshot_id, stored, named, expressions)

    def check(self, query: References | None) -> None:
        """Rejects a query that uses a view or macro that does more than compute from the lake's tables.

        Args:
            query: The names that the query refers to; None if they are unknown: then it may use any view and macro.

        Raises:
            UnsafeQueryError: The query uses an unsafe view or macro; the message names it and the reason.
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

    def check_statement(self, sql: str) -> None:
        """Rejects a statement that changes rows if it may use an unsafe view or macro.

        Raises:
            UnsafeQueryError: As for `check`.
        """
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
        """Rejects a lake with sort keys or default values that may do more than compute from its tables.

        Raises:
            UnsafeQueryError: An expression is unsafe; the message names it and the reason.
        """
        for expression in self.expressions:
            self.check(self._check_one(expression, past=False))

    def open_schemas(self, connection: Connection) -> None:
        """Lets queries on a connection name the lake's tables as `schema.table`."""
        connection.prefer_builtins(self.reader.alias, schemas_of(connection, self.reader.alias))

    def check_schemas(self, query: References | None, connection: Connection) -> None:
        """Rejects table names without a schema if the table is not in `main`: the search path contains all schemas.

        Raises:
            UnknownNameError: A table without a schema is not in `main`; the hint names a schema that contains it.
        """
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
        known = {relation[:2] for relation in self.relations if past or self._is_current(*relation[2:])}
        for relation in sorted(found.relations):
            if not self._is_of_the_lake(relation, known):
                raise _unsafe(stored, f"reads {relation}, which is not a table of the lake")
        return found

    def _references(self, stored: StoredQuery) -> References | None:
        sql = stored.sql if stored.kind in ("view", "table macro") else f"SELECT {stored.sql}"
        return find_references(self.reader.connection, sql)

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
    """Prepares a connection for a user's query, which may do anything; views and macros of the lake are restricted.

    Args:
        reader: The lake.
        sql: The query.
        connection: The connection that will run it; default: the reader's.
        frames: Names in the query that are frames, not tables of the lake.

    Raises:
        UnsafeQueryError: The query uses an unsafe view or macro of the lake, or its names are unknown.
        UnknownNameError: A table without a schema is not in `main`, but in another schema.
        SchemaError: The query contains a word that DuckLake would replace in a filter, which would then lose rows.
    """
    check_placeholders(sql, "the query")
    stored = StoredQueries.load(reader)
    runner = connection or reader.connection
    stored.open_schemas(runner)
    references = find_references(reader.connection, sql)
    stored.check(references)
    if references is not None:
        references = replace(references, local=references.local | {name.lower() for name in frames})
    stored.check_schemas(references, runner)


def _as_run(kind: str, sql: str, alias: str) -> str:
    """The SQL as DuckLake runs it, except that it does not change strings; a plain name cannot end one."""
    return sql.replace(_THIS_LAKE, f"{alias}.") if kind == "view" and _PLAIN.fullmatch(alias) else sql


def _unsafe(stored: StoredQuery, what: str) -> UnsafeQueryError:
    return UnsafeQueryError(
        f"the {stored.kind} {stored.name!r} of the lake {what}: a writer of the lake could use it to read your files "
        "or steal your credentials",
        hint="replace it, or run it as your own query: SQL stored in a lake may only compute from its tables",
    )
