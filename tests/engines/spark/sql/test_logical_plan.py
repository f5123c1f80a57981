"""Two queries with one plan mean the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from lakeconf.engines.spark.sql.logical_plan import SYNONYMS, logical_plan

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        found.execute("CREATE TABLE t (i INTEGER, j INTEGER, m TIMESTAMP)")
        yield found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT i AS a FROM t", 'SELECT "x"."i" AS b FROM t AS x'),
        ("SELECT i FROM t WHERE i IS NOT NULL", "SELECT i FROM t WHERE NOT i IS NULL"),
        ("SELECT date_trunc('day', m) FROM t", "SELECT DATE_TRUNC('DAY', m) FROM t"),
        ("SELECT stddev(i) FROM t", "SELECT stddev_samp(i) FROM t"),
        ("SELECT mod(i, 3) FROM t", "SELECT i % 3 FROM t"),
        ("SELECT extract(dow FROM m) FROM t", "SELECT EXTRACT(DAYOFWEEK FROM m) FROM t"),
        ("SELECT extract(doy FROM m) FROM t", "SELECT EXTRACT(DAYOFYEAR FROM m) FROM t"),
        ("SELECT datediff('day', m, m) FROM t", "SELECT DATE_DIFF('DAY', m, m) FROM t"),
        ("SELECT i FROM t ORDER BY ALL", "SELECT i FROM t ORDER BY 1"),
        ("FROM t", "SELECT i, j, m FROM t"),
        ("SELECT m + INTERVAL 5 DAY FROM t", "SELECT m + INTERVAL '5' DAY FROM t"),
        ("SELECT m + INTERVAL '5 days' FROM t", "SELECT m + INTERVAL 5 DAYS FROM t"),
    ],
)
def test_names_do_not_matter(one: str, other: str, connection: duckdb.DuckDBPyConnection) -> None:
    assert logical_plan(connection, one) == logical_plan(connection, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("SELECT i FROM t", "SELECT j FROM t"),
        ("SELECT i + 1 FROM t", "SELECT i + 2 FROM t"),
        ("SELECT i FROM t ORDER BY i", "SELECT i FROM t ORDER BY i DESC"),
        ("SELECT i FROM t ORDER BY i NULLS FIRST", "SELECT i FROM t ORDER BY i"),
        ("SELECT count(i) FROM t", "SELECT count(DISTINCT i) FROM t"),
        ("SELECT i FROM t UNION SELECT j FROM t", "SELECT i FROM t UNION ALL SELECT j FROM t"),
        ("SELECT a.i FROM t a, t b", "SELECT b.i FROM t a, t b"),
        ("SELECT a.i FROM t a LEFT JOIN t b ON a.i = b.j", "SELECT a.i FROM t a JOIN t b ON a.i = b.j"),
        ("SELECT i FROM t LIMIT 1", "SELECT i FROM t LIMIT 2"),
        ("SELECT sum(i) OVER (ORDER BY j) FROM t", "SELECT sum(i) OVER (ORDER BY j ROWS 1 PRECEDING) FROM t"),
        ("SELECT stddev_pop(i) FROM t", "SELECT stddev_samp(i) FROM t"),
        ("SELECT 'a' FROM t", "SELECT 'A' FROM t"),
        ("SELECT extract(dow FROM m) FROM t", "SELECT extract(isodow FROM m) FROM t"),
        ("SELECT date_diff('day', m, m) FROM t", "SELECT date_diff('week', m, m) FROM t"),
        ("SELECT date_diff('day', m, m) FROM t", "SELECT date_sub('day', m, m) FROM t"),
        ("SELECT m + INTERVAL 5 DAY FROM t", "SELECT m + INTERVAL 6 DAY FROM t"),
        ("SELECT m + INTERVAL 5 DAY FROM t", "SELECT m + INTERVAL 5 HOUR FROM t"),
        ("SELECT m + INTERVAL '5 days' FROM t", "SELECT m + INTERVAL '-5 days' FROM t"),
    ],
)
def test_other_meanings_have_other_plans(one: str, other: str, connection: duckdb.DuckDBPyConnection) -> None:
    assert logical_plan(connection, one) != logical_plan(connection, other)


def test_query_that_duckdb_rejects_has_no_plan(connection: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(duckdb.Error, match="nothing"):
        logical_plan(connection, "SELECT nothing FROM t")


@pytest.mark.parametrize("name", SYNONYMS)
def test_synonyms_are_the_same_function_in_duckdb(name: str, connection: duckdb.DuckDBPyConnection) -> None:
    found = connection.execute("SELECT DISTINCT alias_of FROM duckdb_functions() WHERE function_name = ?", [name])
    assert found.fetchall() == [(SYNONYMS[name],)]
