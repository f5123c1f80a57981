"""ROLLUP, CUBE and GROUPING SETS return their grand total for any rows, also for none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import Twins, twins

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The rows that each query reads: some, only those whose keys are NULL, or none.
ROWS = ("id < 9", "o IS NULL AND t IS NULL", "false")
QUERIES = [
    "SELECT o, t, grouping(o), count(*) AS n FROM x WHERE {rows} GROUP BY ROLLUP (o, t)",
    "SELECT o, t, count(*), sum(d), avg(t), min(v), count(DISTINCT v) FROM x WHERE {rows} GROUP BY CUBE (o, t)",
    "SELECT o, t, count(t) FROM x WHERE {rows} GROUP BY GROUPING SETS ((o), (t, o), ())",
    "SELECT count(*), max(g) FROM x WHERE {rows} GROUP BY GROUPING SETS (())",
    "SELECT count(*), max(g) FROM x WHERE {rows} GROUP BY ()",
    "SELECT o, count(*) FROM x WHERE {rows} GROUP BY GROUPING SETS ((o), (t))",
    "SELECT o, t, count(*) FROM x WHERE {rows} GROUP BY o, ROLLUP (t)",
    "SELECT coalesce(t > 0, false) AS k, count(*) FROM x WHERE {rows} GROUP BY ROLLUP (coalesce(t > 0, false))",
    "SELECT o, count(*) AS n FROM x WHERE {rows} GROUP BY ROLLUP (o) HAVING count(*) < 7 OR o ORDER BY n DESC, o",
    "SELECT o, count(*) FILTER (WHERE t > 0), sum(t) FILTER (WHERE NOT o) FROM x WHERE {rows} GROUP BY ROLLUP (o)",
    "SELECT o, rank() OVER (ORDER BY count(*)), sum(sum(t)) OVER () FROM x WHERE {rows} GROUP BY ROLLUP (o)",
    "SELECT DISTINCT count(*) >= 0 FROM x WHERE {rows} GROUP BY CUBE (o, t)",
    "SELECT q.o, count(p.id) FROM x p JOIN x q USING (id) WHERE q.{rows} GROUP BY ROLLUP (q.o)",
    "SELECT k.o, count(*) FROM (SELECT o, id FROM x WHERE {rows}) k LEFT JOIN x ON k.id = x.id GROUP BY ROLLUP (k.o)",
    "WITH c AS (SELECT o, sum(t) AS s FROM x WHERE {rows} GROUP BY ROLLUP (o)) SELECT count(*), sum(s) FROM c",
    "SELECT o, (SELECT max(id) FROM x q) AS m, count(*) FROM x WHERE {rows} GROUP BY ROLLUP (o)",
    "SELECT o, count(*) FROM x WHERE {rows} GROUP BY ROLLUP (o) UNION ALL SELECT true, count(*) FROM x",
    "SELECT id FROM x WHERE EXISTS (SELECT 1 FROM x q WHERE {rows} GROUP BY ROLLUP (q.o))",
    "SELECT bool_or(o), a, m, y, g, e FROM x WHERE {rows} GROUP BY ROLLUP (a, m, y, g, e)",
]


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=5, count=20)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("sql", QUERIES)
def test_groups_and_totals_are_those_of_duckdb(pair: Twins, sql: str, rows: str) -> None:
    if "q.{rows}" in sql:
        rows = "id < 0" if rows == "false" else rows.replace("AND t", "AND q.t")
    assert pair.difference(sql.format(rows=rows)) is None


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT id FROM x WHERE EXISTS (SELECT 1 FROM x q WHERE q.t = x.t GROUP BY ROLLUP (q.o))", "correlated"),
        ("SELECT o, (SELECT max(x.id) FROM x) FROM x GROUP BY ROLLUP (o)", "an equal alias"),
        ("SELECT 1 FROM x GROUP BY ()", "without an aggregate"),
        ("SELECT count(*) FROM x GROUP BY GROUPING SETS ((), ())", "GROUPING SETS"),
        ("SELECT count(*) FROM x GROUP BY GROUPING SETS (ROLLUP (o, t), ())", "two grand totals"),
        ("SELECT count(*) FROM x GROUP BY GROUPING SETS ((o), (), ())", "two grand totals"),
        ("SELECT count(*) FROM x GROUP BY ROLLUP (o) HAVING o", "not selected"),
    ],
)
def test_totals_that_cannot_be_added_are_refused(pair: Twins, sql: str, reason: str) -> None:
    with pytest.raises(UnsupportedError, match=reason):
        pair.on_spark(sql)
