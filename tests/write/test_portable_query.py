"""Spark runs a query only if its rows are those of DuckDB."""

from __future__ import annotations

import pytest
import sqlglot

from lakeconf.write.portable_query import is_portable

PORTABLE = [
    "SELECT * FROM t",
    "SELECT t.*, 1 AS x, -2.5, 'a', NULL FROM t JOIN u ON t.a = u.a LEFT JOIN v ON true WHERE a > 1 AND NOT b IS NULL",
    "SELECT a, count(*), max(b) FROM t WHERE a IN (SELECT a FROM u) GROUP BY a HAVING count(*) > 1 ORDER BY a",
    "WITH c AS (SELECT DISTINCT a FROM t) SELECT a FROM c UNION ALL FROM c",
    "SELECT (a = b) IS NOT NULL, a = b AND NOT c = d OR a BETWEEN b AND c FROM t",
    "SELECT CASE WHEN a THEN 1 ELSE 2 END, coalesce(a, b), DATE '2024-03-01' FROM t AS x(a, b)",
]
OTHERS = [
    "SELECT a + 1 FROM t",
    "SELECT sum(a) FROM t",
    "SELECT a::INT FROM t",
    "SELECT upper(a) FROM t",
    "SELECT DATE '24-3-1' FROM t",
    "SELECT 1e3 FROM t",
    "SELECT 'a\\b' FROM t",
    "SELECT a FROM t WHERE a LIKE 'x'",
    "SELECT * FROM t JOIN u USING (a)",
    "SELECT a FROM (t JOIN u ON t.a = u.a)",
    "SELECT a FROM t NATURAL JOIN u",
    "SELECT a FROM t ASOF JOIN u ON t.a >= u.a",
    "SELECT a FROM t LIMIT 1",
    "SELECT a FROM t USING SAMPLE 3",
    "SELECT a FROM t AT (VERSION => 1)",
    "SELECT * EXCLUDE (a) FROM t",
    "SELECT DISTINCT ON (a) a FROM t",
    "SELECT a FROM t UNION BY NAME SELECT a FROM u",
    "SELECT a FROM t QUALIFY row_number() OVER () = 1",
    "SELECT #1 FROM t",
    "SELECT a = b IS NOT NULL FROM t",
    "SELECT a FROM t WHERE a BETWEEN b AND c = d",
]


@pytest.mark.parametrize("query", PORTABLE)
def test_portable_query(query: str) -> None:
    assert is_portable(sqlglot.parse_one(query, dialect="duckdb"))


@pytest.mark.parametrize("query", OTHERS)
def test_query_with_another_meaning_on_spark(query: str) -> None:
    assert not is_portable(sqlglot.parse_one(query, dialect="duckdb"))
