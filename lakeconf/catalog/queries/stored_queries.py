"""The SQL that is stored in a lake, such as views and macros, and which of it a query may use."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from lakeconf.catalog.data_file import check_doubled
from lakeconf.catalog.forgotten_deletes import check_deletes, forgetful_tables
from lakeconf.catalog.inherited import VIEWS, check_sources, inherited_tables, is_inherited
from lakeconf.catalog.pruning.hidden_columns import HiddenColumns
from lakeconf.catalog.queries.parsed_query import query_at
from lakeconf.catalog.queries.sql_references import INDIRECT, Name, References, find_references, mentioned
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import DEFAULT_SCHEMA, joined_name, split_name, tables
from lakeconf.connection.connection import Connection, schemas_of
from lakeconf.ducklake import INTERNAL_SCHEMA, PARENT, check_placeholders
from lakeconf.errors import LakeconfError, UnknownNameError, UnsafeQueryError, UnsupportedError, listed, suggestion
from lakeconf.sql import folded, literal

# True if the lake may have such SQL. The SQL itself is read by DuckDB, as DuckLake reads it.
_ANY = """
    SELECT EXISTS (SELECT 1 FROM ducklake_view) OR EXISTS (SELECT 1 FROM ducklake_macro)
        OR EXISTS (SELECT 1 FROM ducklake_sort_expression) OR EXISTS (SELECT 1 FROM ducklake_column
            WHERE NOT coalesce(default_value_type = 'literal', true)) AS found,
        (SELECT max(snapshot_id) FROM ducklake_snapshot) AS newest,
        EXISTS (SELECT 1 FROM ducklake_partition_column WHERE transform LIKE 'bucket(%')
        OR EXISTS (SELECT 1 FROM ducklake_column GROUP BY table_id, column_id HAVING count(DISTINCT column_type) > 1)
        OR EXISTS (SELECT 1 FROM ducklake_table_column_stats AS s JOIN ducklake_column AS c
            ON c.table_id = s.table_id AND c.column_id = s.column_id AND c.column_type LIKE 'float%'
            WHERE coalesce(s.contains_nan, true)) AS may_miss
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
# DuckLake's functions that describe the latest snapshot.
_OF_THE_LATEST = frozenset({"ducklake_list_files", "ducklake_table_info"})
_UNKNOWN = re.compile(r"\bTable with name (?P<name>.+?) does not exist")
_ADVICE = re.compile(r"\nDid you mean \"[^\n]*")


class StoredSql(NamedTuple):
    """The SQL of a lake."""

    views: list[tuple[Any, ...]]  # views and macros, each with the kind, name, SQL and snapshots of a `StoredQuery`
    expressions: list[tuple[Any, ...]]  # sort keys and default values, in the same way
    names: list[tuple[Any, ...]]  # the names of tables and views, as in `StoredQueries.relations`
    newest: int  # the newest snapshot
    may_miss: bool  # True if there may be columns for `HiddenColumns`


def stored_sql(transaction: MetadataTransaction, *, names: bool) -> StoredSql:
    """Reads the SQL of a lake, and the names that it may use."""
    ((has_any, newest, may_miss),) = transaction.own_rows(_ANY, "found BOOLEAN, newest BIGINT, may_miss BOOLEAN")
    if not has_any:
        return StoredSql([], [], transaction.own_rows(_RELATIONS, _RELATION_TYPES) if names else [], newest, may_miss)
    views, expressions, relations = map(transaction.rows, (_STORED, _EXPRESSIONS, _RELATIONS))
    return StoredSql(views, expressions, relations, newest, may_miss)


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

    reader: CatalogReader
    snapshot_id: int  # the snapshot whose views and macros a query without `AT` uses
    queries: tuple[StoredQuery, ...]  # the views and macros of all snapshots
    # Schema and name of tables and views, in lower case, with the snapshots between which they exist.
    relations: tuple[tuple[str, str, int, int | None], ...]
    expressions: tuple[StoredQuery, ...] = ()  # the sort keys and default values of tables that writes evaluate
    may_miss: bool = False  # True if there may be columns for `HiddenColumns`

    @classmethod
    def load(cls, reader: CatalogReader, snapshot_id: int | None = None, *, names: bool = True) -> StoredQueries:
        """Reads the stored SQL without binding it; without `names`, `relations` only if there is stored SQL."""
        with reader.transaction() as transaction:
            rows = stored_sql(transaction, names=names)
        stored = tuple(
            StoredQuery(kind, name.lower(), _as_run(kind, sql, reader.alias), *rest)
            for kind, name, sql, *rest in rows.views
        )
        named = tuple((schema.lower(), name.lower(), *ends) for schema, name, *ends in rows.names)
        expressions = tuple(StoredQuery(*row) for row in rows.expressions)
        if snapshot_id is None and stored:  # a lake may be attached at an earlier one
            ((snapshot_id,),) = reader.connection.rows("FROM ducklake_current_snapshot(?)", [reader.alias])
        return cls(
            reader, rows.newest if snapshot_id is None else snapshot_id, stored, named, expressions, rows.may_miss
        )

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
            for stored in sorted(reached, key=lambda query: (query.name, query.begin)):
                if past or self._is_current(stored.begin, stored.end):
                    references = self._check_one(stored, past=past)
                    past |= references.past
                    waiting.append(references)
        if past and query is not None and not query.past:
            self.check(replace(query, past=True))

    def check_statement(self, sql: str) -> None:
        """Rejects a statement that changes rows if it may use an unsafe view or macro."""
        self.check(mentioned(sql, (stored.name for stored in self.queries)))

    def relations_behind(self, sql: str) -> set[Name]:
        """The tables that the views and macros in a statement read; a name in a string counts too."""
        return {relation for references in self.references_behind(sql) for relation in references.relations}

    def references_behind(self, sql: str) -> list[References]:
        """The names in the views and macros that a statement uses; a name in a string counts too."""
        reached = list(self._reached(mentioned(sql, (stored.name for stored in self.queries)), frozenset()))
        behind: list[References] = []
        for stored in reached:  # it grows
            references = self._references(stored) if self._is_current(stored.begin, stored.end) else None
            if references is not None:
                behind.append(references)
                reached += (query for query in set(self._reached(references, frozenset())) if query not in reached)
        return behind

    def check_expressions(self) -> None:
        """Rejects a lake with sort keys or default values that may do more than compute from its tables."""
        for expression in self.expressions:
            self.check(self._check_one(expression, past=False))

    def reading_macros(self) -> set[str]:
        """The macros whose result depends on the snapshot: they read tables, or a later snapshot changes them."""
        kept = [
            query
            for query in self.queries
            if query.kind != "view" and (query.end is None or query.end > self.snapshot_id)
        ]
        macros = [(query, self._references(query)) for query in kept]
        reading = {
            query.name
            for query, references in macros
            if references is None or references.everything or references.table_functions
            or any(name.schema or name.name not in references.local for name in references.relations)
            or query.end is not None or query.begin > self.snapshot_id
        }  # fmt: skip
        for _ in macros:  # a macro that calls such a macro reads, too
            reading |= {
                query.name
                for query, references in macros
                if references is not None and not reading.isdisjoint(references.functions)
            }
        return reading

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
            schemas = sorted({schema for schema, name, *_ in self.relations if name == relation.name})
            # The connection's open transaction may have created it.
            in_transaction = (
                f"SELECT 1 FROM duckdb_tables() WHERE database_name = {literal(self.reader.alias)} "  # noqa: S608
                f"AND schema_name = '{DEFAULT_SCHEMA}' AND lower(table_name) = {literal(relation.name)}"
            )
            if schemas and not connection.rows(in_transaction):
                hint = f"did you mean {schemas[0]}.{relation.name}?"
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
            shadowed = cursor.rows(
                "SELECT DISTINCT lower(function_name) FROM duckdb_functions() "  # noqa: S608
                f"WHERE database_name = 'system' AND lower(function_name) IN ({listed})"
            )
        return frozenset(name for (name,) in shadowed)

    def _check_one(self, stored: StoredQuery, *, past: bool) -> References:
        references = self._references(stored)
        if references is None:
            raise _unsafe(stored, "is not a single query that can be checked")
        if self._is_inherited(stored):
            return references
        macros = {query.name for query in self.queries if query.kind == "table macro"}
        unsafe = (references.table_functions - SAFE_TABLE_FUNCTIONS - macros) | (
            references.functions & _UNSAFE_FUNCTIONS
        )
        for name in sorted(unsafe):
            raise _unsafe(stored, f"calls {name}()")
        past = past or references.past
        lake_names = {relation[:2] for relation in self.relations if past or self._is_current(*relation[2:])}
        for relation in sorted(references.relations):
            if not self._is_of_the_lake(relation, lake_names, references.local):
                raise _unsafe(stored, f"reads {relation}, which is not a table of the lake")
        return references

    def _is_inherited(self, stored: StoredQuery) -> bool:
        """True for a view that stands for a table of the lake that this one is a branch of."""
        return stored.kind == "view" and is_inherited(self.reader, stored.sql)

    def check_inherited(self, sql: str) -> None:
        """Rejects SQL that reads, by way of a branch, tables of another lake of which DuckLake would miss rows."""
        parent = self.reader.parent
        if parent is None:
            return
        sources = {(name.schema, name.name) for name in self.relations_behind(sql) if name.database == PARENT}
        check_sources(self.reader, sources)
        if sources:
            HiddenColumns.load(parent.reader, parent.snapshot_id).check_sources(sources)

    def _references(self, stored: StoredQuery) -> References | None:
        sql = stored.sql if stored.kind in ("view", "table macro") else f"SELECT {stored.sql}"
        return find_references(sql)

    def _is_of_the_lake(self, relation: Name, lake_names: Iterable[tuple[str, str]], local: frozenset[str]) -> bool:
        alias = self.reader.alias.lower()
        if relation.database not in ("", alias):
            return False
        if not relation.schema:
            named = relation.name in local or any(name == relation.name for _, name in lake_names)
            return named and not SYSTEM_VIEW.fullmatch(relation.name)
        if relation.schema == "information_schema" and not relation.database:
            return True
        schemas = {relation.schema} if relation.database or relation.schema != alias else {alias, "main"}
        return any((schema, relation.name) in lake_names for schema in schemas)

    def _is_current(self, begin: int, end: int | None) -> bool:
        return begin <= self.snapshot_id and (end is None or end > self.snapshot_id)


def check_past(
    reader: CatalogReader,
    sql: str,
    behind: Sequence[References],
    *,
    at: int | None = None,
    changed: Collection[str] = (),
) -> None:
    """Rejects SQL that may read other rows at an older snapshot than this had.

    Args:
        reader: Reads the catalog.
        sql: The SQL.
        behind: The names in the views and macros that it uses.
        at: The snapshot that it reads where it names none; None for the latest one.
        changed: The tables of which the transaction that runs it has changed rows.
    """
    if reader.parent is not None:  # `check_inherited` checks what a branch has not written
        behind = [each for each in behind if {relation.database for relation in each.relations} != {PARENT}]
    _check_doubled(reader, sql, behind, at)
    is_past = mentioned(sql, ()).past or any(references.past for references in behind)
    if at is None and not is_past:
        return
    with reader.transaction() as transaction:
        forgetful = forgetful_tables(transaction)
    tables = {name.lower() for _, _, name in forgetful} | {split_name(name)[1].lower() for name in changed}
    read = {relation.name for references in (mentioned(sql, tables), *behind) for relation in references.relations}
    for name in sorted(changed) if is_past else ():
        # DuckLake applies the deletes and the new rows of a transaction to all versions: ducklake#1073.
        if split_name(name)[1].lower() in read:
            raise UnsupportedError(
                f"the transaction has changed rows of {name}: until its commit, DuckDB also sees the changes in "
                "earlier versions, which the SQL reads with AT",
                hint="read the earlier version before the changes, or in another transaction",
            )
    for table_id, schema, name in forgetful:
        full = joined_name(schema, name)
        if name.lower() not in read:
            continue
        if is_past or at is None:
            raise UnsupportedError(
                f"the query may read {full} at a version at which it is not known which rows were deleted",
                hint="read it without AT: lake.at(version=…).sql(…)",
            )
        with reader.transaction() as transaction:
            check_deletes(transaction, table_id, full, at)


def _check_doubled(reader: CatalogReader, sql: str, behind: Sequence[References], at: int | None) -> None:
    """Rejects SQL that reads a table of which DuckDB would return rows twice."""
    if not reader.doubled_tables:
        return
    with reader.transaction() as transaction:
        version = transaction.newest() if at is None else at
    doubled = [info for info in tables(reader, version) if info.table_id in reader.doubled_tables]
    described = find_references(sql) or mentioned(sql, {info.name.lower() for info in doubled})
    for info in doubled:
        for names in (described, *behind):
            if names.everything or any(info.name.lower() == relation.name for relation in names.relations):
                check_doubled(reader, info, version)


def prepare_query(
    reader: CatalogReader,
    sql: str,
    connection: Connection | None = None,
    *,
    frames: Iterable[str] = (),
    at: int | None = None,
    changed: Collection[str] = (),
) -> str:
    """Prepares a connection for a user's query, which may do anything; views and macros of the lake are restricted.

    Returns the query, which reads the latest snapshot unless `at` is another one. `changed` is that of `check_past`.
    """
    check_placeholders(sql, "the query")
    stored = StoredQueries.load(reader, at)
    runner = connection or reader.connection
    stored.open_schemas(runner)
    references, frame_names = find_references(sql), frozenset(frames)
    stored.check(references)
    if references is not None:
        references = replace(references, local=references.local | {name.lower() for name in frame_names})
    stored.check_schemas(references, runner)
    behind = stored.references_behind(sql)
    check_past(reader, sql, behind, at=at, changed=changed)
    stored.check_inherited(sql)
    if stored.may_miss:
        sql = HiddenColumns.load(reader, at).hide(sql, references, frame_names, behind)
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
    return query_at(sql, at, frame_names)


def _as_run(kind: str, sql: str, alias: str) -> str:
    """The SQL as DuckLake runs it, except that it does not change strings; a plain name cannot end one."""
    return sql.replace(_THIS_LAKE, f"{alias}.") if kind == "view" and _PLAIN.fullmatch(alias) else sql


def _unsafe(stored: StoredQuery, what: str) -> UnsafeQueryError:
    return UnsafeQueryError(
        f"the {stored.kind} {stored.name!r} of the lake {what}: a writer of the lake could use it to read your files "
        "or steal your credentials",
        hint="replace it, or run it as your own query: SQL stored in a lake may only compute from its tables",
    )


def view_names(reader: CatalogReader, snapshot_id: int) -> tuple[str, ...]:
    """Returns the sorted full names of the views at a snapshot, without those that lakeconf has made."""
    with reader.transaction() as transaction:
        rows = transaction.rows(VIEWS, [snapshot_id])
    own = [row for row in rows if folded(row[0]) != INTERNAL_SCHEMA and not is_inherited(reader, row[2])]
    return tuple(sorted(joined_name(schema, name) for schema, name, *_ in own))


@contextlib.contextmanager
def tables_suggested(names: Callable[[], Iterable[str]], otherwise: str) -> Iterator[None]:
    """Gives the errors inside a hint that names a similar table or view of the lake."""
    try:
        yield
    except UnknownNameError as error:
        unknown = _UNKNOWN.search(error.message)
        if unknown is not None and error.hint is None:
            existing: list[str] = []
            with contextlib.suppress(LakeconfError):  # the error itself is more important
                existing += names()
            error.hint = _hint(unknown["name"].strip('"'), existing, otherwise)
            error.message = _ADVICE.sub("", error.message)
            error.args = (error.message,)
        raise


def readable_names(reader: CatalogReader) -> list[str]:
    """The sorted names of the tables and views at the latest snapshot, without internal tables."""
    snapshot_id = latest(reader).snapshot_id
    table_names = [
        info.full_name for info in tables(reader, snapshot_id) if info.schema_name.lower() != INTERNAL_SCHEMA
    ]
    return sorted([*table_names, *inherited_tables(reader, snapshot_id), *view_names(reader, snapshot_id)])


def _hint(name: str, existing: list[str], otherwise: str) -> str:
    # DuckDB's message has no schema.
    names = {full.rpartition(".")[2].strip('"'): full for full in existing} | {full: full for full in existing}
    similar = suggestion(name, names)
    if similar:
        full = names[similar.partition('"')[2].rpartition('"')[0]]
        return suggestion(full, [full])
    return f"{otherwise}: {listed(existing)}" if existing else "create a table first: lake.create_table(…)"
