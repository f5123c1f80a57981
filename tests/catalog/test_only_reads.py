"""SQL that does more than read: which statements and functions are refused, and what is not mistaken for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.stored_queries import READERS, WRITERS, called_functions, check_functions, check_only_reads
from lakeconf.errors import QueryError

if TYPE_CHECKING:
    from lakeconf import Lake


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT Lower(a) FROM range(3) AS t(a)", ["lower", "range", "t"]),
        ('FROM dev."Merge""x" -- (\n/* f( */ (1)', ['merge"x']),
        ("SELECT 'é f(', $$g($$, (1), h (2)", ["h"]),
        ("FROM checkpoint()", ["checkpoint"]),
        ("", []),
    ],
)
def test_called_functions(sql: str, names: list[str]) -> None:
    assert called_functions(sql) == names


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'call ducklake_expire_snapshots(1)' AS \"set_option\"",
        "SELECT 1 -- merge_adjacent_files()",
        "SELECT expire_snapshots FROM t",
        "CALL pragma_version()",
        "CALL dev.table_info()",
        "PIVOT (FROM t) ON a USING count(*)",
        "DESCRIBE t",
        "WITH query(a) AS (SELECT 1) FROM query AS set_option(b)",
        "FROM ducklake_list_files('dev', 't')",
    ],
)
def test_sql_that_reads_is_accepted(sql: str, two_tables: Lake) -> None:
    check_only_reads(two_tables._session.reader.connection, sql)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("CALL dev.set_option('x', 1)", "CALL set_option() may do more than read"),
        ("/* x */ call ducklake_new('dev')", "CALL ducklake_new() may do more than read"),
        ("CALL enable_logging()", "CALL enable_logging() may do more than read"),
        ("CHECKPOINT", "the SQL is not a single query"),
        ("EXPLAIN SELECT 1", "the SQL is not a single query"),
        ("EXPLAIN ANALYZE FROM dev.set_option('x', 1)", "the SQL is not a single query"),
        ("FROM dev.\"Set_Option\"('x', 1)", "set_option() changes the lake"),
        ("FROM ducklake_new('dev')", "ducklake_new() changes the lake"),
        ("FROM enable_logging(storage = 'file', storage_path = 'x')", "enable_logging() changes the lake"),
        ("FROM postgres_configure_pool(max_connections = 1)", "postgres_configure_pool() changes the lake"),
        ("PIVOT (FROM dev.expire_snapshots()) ON a USING count(*)", "expire_snapshots() changes the lake"),
        ("SELECT (SELECT count(*) FROM sqlite_query('x', 'DELETE FROM t'))", "sqlite_query() changes the lake"),
        ("FROM query('FROM duck' || 'lake_expire_snapshots()')", "query() runs SQL that cannot be checked"),
    ],
)
def test_sql_that_may_write_is_refused(sql: str, message: str, two_tables: Lake) -> None:
    with pytest.raises(QueryError, match=f"^{message.replace('(', r'[(]').replace(')', r'[)]')}"):
        check_only_reads(two_tables._session.reader.connection, sql)


def test_every_function_of_ducklake_is_known_to_read_or_to_write(two_tables: Lake) -> None:
    """A new version of the extension may add functions that write."""
    found = two_tables.sql("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_name ^@ 'ducklake_'")
    names = {name for (name,) in found.to_native().fetchall()}
    refused = set()
    for name in names:
        try:
            check_functions([name])
        except QueryError:
            refused.add(name.removeprefix("ducklake_"))
    assert refused == WRITERS
    assert not WRITERS & READERS
