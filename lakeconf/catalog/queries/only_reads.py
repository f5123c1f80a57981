"""Rejects SQL that may do more than read: a single query is allowed, with functions that are known to only read."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import duckdb

from lakeconf.catalog.queries.sql_references import find_references
from lakeconf.catalog.queries.stored_queries import SAFE_TABLE_FUNCTIONS
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.connection.sql_text import TokenKind, tokens
from lakeconf.errors import QueryError

# Table functions that only compute, read the lake or describe it.
READERS = SAFE_TABLE_FUNCTIONS | {
    *("duckdb_columns", "duckdb_constraints", "duckdb_functions", "duckdb_indexes", "duckdb_keywords"),
    *("duckdb_schemas", "duckdb_tables", "duckdb_types", "duckdb_views", "ducklake_options", "ducklake_settings"),
    *("options", "settings", "pragma_table_info", "pragma_version"),
}
_DUCKLAKE = "ducklake_"
# DuckLake's other functions that read: they list files, whose keys `lakeconf sql` does not show.
_LISTS = frozenset({"ducklake_list_files", "ducklake_scan"})
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
_NOT_ONE_QUERY = (
    "write one SELECT … or FROM …; use lake.execute(…) to change rows, and methods such as lake.drop_table(…) to "
    "change tables"
)


def check_only_reads(sql: str) -> None:
    """Rejects SQL that is more than one query that reads.

    A PIVOT is allowed, and a CALL of a function that is known to only read.
    """
    with translated_errors():
        statements = duckdb.extract_statements(sql)
    # DuckDB's parser adds statements without any text to a PIVOT, and reports a PRAGMA as a query.
    written = [
        statement.type for statement in statements if statement.query or statement.type != duckdb.StatementType.CREATE
    ]
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
    references = find_references(sql)
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
    return [
        token.word.lower() if token.kind is not TokenKind.OTHER or token.word == "(" else "" for token in tokens(sql)
    ]
