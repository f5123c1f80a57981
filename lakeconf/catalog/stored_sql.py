"""Reads the SQL that is stored in a lake: its views, macros, sort keys and default values."""

from __future__ import annotations

from typing import Any, NamedTuple

from lakeconf.catalog.own_queries import own_rows
from lakeconf.catalog.reader import MetadataTransaction

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
        FROM ducklake_sort_expression AS e JOIN ducklake_sort_info AS i USING (sort_id, table_id)
        UNION ALL SELECT 'default value', table_id, default_value, begin_snapshot, end_snapshot
        FROM ducklake_column WHERE default_value_type = 'expression')
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
    """The SQL of a lake.

    Attributes:
        views: Views and macros, each with the kind, name, SQL and snapshots of a `StoredQuery`.
        expressions: Sort keys and default values, in the same way.
        names: The names of tables and views, as in `StoredQueries.relations`.
        newest: The newest snapshot.
    """

    views: list[tuple[Any, ...]]
    expressions: list[tuple[Any, ...]]
    names: list[tuple[Any, ...]]
    newest: int


def stored_sql(transaction: MetadataTransaction, *, names: bool) -> StoredSql:
    """Reads the SQL of a lake, and the names that it may use.

    Args:
        transaction: An open read transaction.
        names: False to read the names only if there is SQL.
    """
    ((has_any, newest),) = own_rows(transaction, _ANY, "found BOOLEAN, newest BIGINT")
    if not has_any:
        return StoredSql([], [], own_rows(transaction, _RELATIONS, _RELATION_TYPES) if names else [], newest)
    views, expressions, relations = map(transaction.rows, (_STORED, _EXPRESSIONS, _RELATIONS))
    return StoredSql(views, expressions, relations, newest)
