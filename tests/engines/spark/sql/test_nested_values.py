"""Fields of structs and elements of lists have DuckDB's values on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from sql_twins import Twins

from lakeconf.engines.spark.session import from_arrow
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = """
SELECT * FROM (VALUES
    (1, {'a': 5, 'Inner Name': {'c': 'x'}}, [1, NULL, 3], [{'k': 'one'}], MAP {'m': 1}),
    (2, {'a': NULL, 'Inner Name': {'c': NULL}}, [], [], MAP {}),
    (3, {'a': 7, 'Inner Name': NULL}, [NULL], [NULL, {'k': NULL}], MAP {'m': NULL}),
    (4, NULL, NULL, NULL, NULL),
    (5, {'a': -1, 'Inner Name': {'c': ''}}, [9, 8, 7, 6], [{'k': 'two'}, {'k': 'three'}], MAP {'n': 2})
) AS t(id, s, l, ls, m)
"""


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE x AS {ROWS}")
    return Twins(connection, spark, from_arrow(spark, connection.sql("FROM x").to_arrow_table()).cache())


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id, s.a, x.s.a AS b, s['a'], struct_extract(s, 'a'), (s).a + 1 FROM x",
        "SELECT id, S.A, s.\"inner name\".C, s['Inner Name']['c'] FROM x",
        "SELECT id, upper(s.\"Inner Name\".c) || '!' FROM x WHERE s.a IS NOT NULL OR l[1] > 3",
        "SELECT id, l[1], l[2], l[4], l[9], len(l), length(l), array_length(l), len(ls) FROM x",
        "SELECT id, ls[1].k, ls[2].k FROM x",
        "SELECT s.a, count(*), sum(l[1]) FROM x GROUP BY s.a",
        "SELECT id FROM x ORDER BY s.a, id LIMIT 2",
        "SELECT id, rank() OVER (PARTITION BY l[1] ORDER BY s.a) FROM x",
        "SELECT one.id FROM x AS one JOIN x AS other ON one.s.a = other.l[2] + 5",
        "SELECT id, CASE s.a WHEN 5 THEN l[3] ELSE len(l) END FROM x",
        "SELECT q.a FROM (SELECT s AS q FROM x)",
    ],
)
def test_values_are_those_of_duckdb(sql: str, pair: Twins) -> None:
    assert pair.difference(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT l[0] FROM x",
        "SELECT l[-1] FROM x",
        "SELECT l[id] FROM x",
        "SELECT l[1:2] FROM x",
        "SELECT m['m'] FROM x",
        "SELECT array_length(l, 1) FROM x",
        "SELECT unnest(s) FROM x",
        "SELECT unnest(l) FROM x",
        "SELECT s.* FROM x",
    ],
)
def test_other_parts_are_refused(sql: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(sql)
