"""Queries on a store that can change nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

from lakeconf.connection import translated_errors
from lakeconf.errors import QueryError
from lakeconf.store import Store

# Table functions that read. Of DuckLake's and of its catalogs' there are others that delete files or execute
# statements, read_only or not, also from within a view or a macro: what is not named here is refused.
_READERS = frozenset(
    {
        *("DUCKLAKE_CURRENT_SNAPSHOT", "DUCKLAKE_LAST_COMMITTED_SNAPSHOT", "DUCKLAKE_LIST_FILES", "DUCKLAKE_OPTIONS"),
        *("DUCKLAKE_SCAN", "DUCKLAKE_SNAPSHOTS", "DUCKLAKE_TABLE_CHANGES", "DUCKLAKE_TABLE_DELETIONS"),
        *("DUCKLAKE_TABLE_INFO", "DUCKLAKE_TABLE_INSERTIONS", "DUCKDB_COLUMNS", "DUCKDB_FUNCTIONS", "DUCKDB_SCHEMAS"),
        *("DUCKDB_TABLES", "DUCKDB_TYPES", "DUCKDB_VIEWS", "PRAGMA_TABLE_INFO", "SUMMARY"),
        *("GENERATE_SERIES", "GLOB", "JSON_EACH", "JSON_TREE", "RANGE", "REPEAT", "REPEAT_ROW", "UNNEST"),
        *("PARQUET_FILE_METADATA", "PARQUET_METADATA", "PARQUET_SCAN", "PARQUET_SCHEMA"),
        *("READ_CSV", "READ_CSV_AUTO", "READ_JSON", "READ_JSON_AUTO", "READ_NDJSON", "READ_PARQUET", "SNIFF_CSV"),
    }
)


def query(store: Store, statement: str, limit: int | None = None) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    """Runs a query of DuckDB's SQL on a lake, which is attached for reading only.

    Args:
        store: The store.
        statement: One query; the lake is the default database.
        limit: How many rows to fetch; all unless given.

    Returns:
        The names of the columns, and the rows.

    Raises:
        QueryError: It is no query, it calls a function that may change something, or DuckDB refuses it.
    """
    with store.for_reading().open_connection() as connection, translated_errors():
        found = connection.native.extract_statements(statement)
        if [one.type for one in found] != [duckdb.StatementType.SELECT]:
            raise QueryError("this is not one query", hint="write SELECT … or FROM …; tables are changed by jobs")
        _check_functions(connection.native, found[0].query)
        result = connection.native.execute(statement)
        names = [column[0] for column in result.description or ()]
        return names, result.fetchall() if limit is None else result.fetchmany(limit)


def _check_functions(native: duckdb.DuckDBPyConnection, statement: str) -> None:
    """Refuses a query whose plan, with its views and macros, calls anything that does not only read."""
    ((_, plan),) = native.execute(f"EXPLAIN (FORMAT json) {statement}").fetchall()
    refused = sorted({name for node in json.loads(plan) for name in _functions(node)} - _READERS)
    if refused:
        raise QueryError(
            f"the query calls {', '.join(name.lower() for name in refused)}, which does more than read",
            hint="maintain a lake by: lakeconf maintain; look into it by: lakeconf tables, snapshots, files",
        )


def _functions(node: Mapping[str, Any]) -> Iterator[str]:
    """The table functions of a plan."""
    name = node["extra_info"].get("Function")
    if name is not None:
        yield name
    for child in node["children"]:
        yield from _functions(child)
