"""Queries have the rows of DuckDB on Spark; parts that Spark may compute in another way are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from sql_twins import Twins, twins

from lakeconf.engines.spark.session import from_arrow
from lakeconf.engines.spark.sql.bound_query import bind
from lakeconf.engines.spark.sql.translation import translated
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLE = {"x": {"i": "INTEGER", "v": "VARCHAR", "u": "UUID", "s": "STRUCT(a INTEGER)", "g": "DOUBLE"}}


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=3)


@pytest.mark.parametrize(
    "sql",
    [
        "FROM (SELECT id, t, v, g, y FROM x)",
        "SELECT * EXCLUDE (y, z), i AS i2 FROM x WHERE o",
        "SELECT DISTINCT o, t FROM x ORDER BY t DESC, o",
        "SELECT DISTINCT (v) FROM x AS k ORDER BY k.v LIMIT 3",
        "SELECT t, s, b FROM x ORDER BY t, s DESC NULLS FIRST, b, id LIMIT 7 OFFSET 2",
        "SELECT t AS b, b AS t FROM x ORDER BY b, t, id LIMIT 5",
        "SELECT t + 1 AS u, u * 2 AS w2 FROM x WHERE t BETWEEN 0 AND 9",
        "SELECT o, count(*), count(i), count(DISTINCT v), min(v), max(g), sum(d) FROM x GROUP BY o",
        "SELECT o, sum(t), avg(t), avg(d), sum(DISTINCT s), min(a), max(m) FROM x GROUP BY ALL",
        "SELECT v, count(*) AS n FROM x GROUP BY v HAVING count(*) > 1 AND max(id) > 3",
        "SELECT o, t, grouping(o), count(*) FROM x GROUP BY ROLLUP (o, t)",
        "SELECT o, t, count(*) FROM x GROUP BY GROUPING SETS ((o), (t), ())",
        "SELECT o, t, count(*) FROM x GROUP BY CUBE (o, t)",
        "SELECT count(*) FILTER (WHERE i > 0), sum(t) FILTER (WHERE o), avg(d) FILTER (WHERE o) FROM x",
        "SELECT sum(t), avg(t), avg(d), min(v), count(*), stddev(t) FROM x WHERE false",
        "SELECT bool_and(o), bool_or(o), stddev_pop(t), var_samp(t), var_pop(s), stddev_samp(t) FROM x",
        "SELECT id, row_number() OVER (ORDER BY t, id), rank() OVER (PARTITION BY o ORDER BY t) FROM x",
        "SELECT id, sum(t) OVER (PARTITION BY o ORDER BY id), avg(d) OVER (PARTITION BY o) FROM x",
        "SELECT id, lag(v) OVER (ORDER BY id), lead(t, 2, 0) OVER (ORDER BY id), dense_rank() OVER (ORDER BY o) FROM x",
        "SELECT id, first_value(v) OVER (ORDER BY id), last_value(v) OVER (ORDER BY id) FROM x",
        "SELECT id, sum(t) OVER (ORDER BY id ROWS BETWEEN 2 PRECEDING AND CURRENT ROW) FROM x",
        "SELECT o, sum(sum(t)) OVER (ORDER BY o) FROM x GROUP BY o",
        "SELECT p.id, q.id FROM x p JOIN x q ON p.t = q.s AND p.id < q.id",
        "SELECT p.id, q.v FROM x p LEFT JOIN x q ON p.b = q.i AND q.o",
        "SELECT id, p.v, q.t FROM x p FULL JOIN (SELECT id, t FROM x WHERE id > 50) q USING (id)",
        "SELECT id, k FROM x RIGHT JOIN (SELECT id + 55 AS id, t AS k FROM x) USING (id)",
        "SELECT id, q.v FROM x LEFT JOIN (SELECT t AS id, v FROM x) q USING (id)",
        "SELECT id, q.v FROM x JOIN x q USING (id, o) WHERE id > 3",
        "SELECT count(*) FROM x p, x q WHERE p.v = q.v",
        "SELECT count(*) FROM x CROSS JOIN (SELECT DISTINCT o FROM x)",
        "SELECT id FROM x SEMI JOIN (SELECT t AS k FROM x) ON id = k",
        "SELECT id FROM x ANTI JOIN (SELECT t AS k FROM x) ON id = k",
        "SELECT id FROM x WHERE t IN (SELECT s FROM x)",
        "SELECT id FROM x WHERE t NOT IN (SELECT s FROM x WHERE s IS NOT NULL)",
        "SELECT id FROM x WHERE t NOT IN (SELECT s FROM x)",
        "SELECT id FROM x WHERE EXISTS (SELECT 1 FROM x q WHERE q.t = x.s) OR NOT EXISTS (SELECT 1 FROM x WHERE false)",
        "SELECT id, (SELECT max(q.i) FROM x q WHERE q.t = x.t) FROM x",
        "SELECT id FROM x WHERE d > (SELECT avg(d) FROM x)",
        "SELECT t FROM x UNION ALL SELECT d FROM x",
        "SELECT t, NULL FROM x UNION SELECT i, v FROM x",
        "SELECT s FROM x INTERSECT SELECT i FROM x",
        "SELECT i FROM x EXCEPT SELECT s FROM x",
        "SELECT i FROM x EXCEPT ALL SELECT s FROM x",
        "(SELECT i FROM x ORDER BY i LIMIT 3) UNION ALL (SELECT s FROM x ORDER BY s LIMIT 3)",
        "SELECT a FROM x UNION ALL SELECT m FROM x",
        "WITH c AS (SELECT o, count(*) AS n FROM x GROUP BY o), e AS (SELECT max(n) AS n FROM c) "
        "FROM c JOIN e USING (n)",
        "WITH x AS (SELECT id + 1 AS id FROM x) SELECT count(*), max(id) FROM x",
        "SELECT k.q FROM (SELECT id AS q FROM x) AS k WHERE k.q > 55",
        "SELECT z.p + 1 FROM (SELECT id, t FROM x) AS z(p, q)",
        "SELECT CASE t WHEN 0 THEN 'zero' WHEN 1 THEN 'one' ELSE v END, if(o, 1, 2.5) FROM x",
        "SELECT 1 AS one, 'a\\b' AS text, '${x}' AS variable, NULL AS nothing, true AS yes",
        'SELECT id AS "odd `name", v AS "select" FROM x',
        "SELECT id, f BETWEEN 0.1 AND g, b BETWEEN 9007199254740993 AND 1e300, i BETWEEN f AND 1 FROM x",
        "SELECT id, b BETWEEN 9007199254740992 AND g FROM (SELECT id, b, 9007199254740992e0 AS g FROM x)",
        "SELECT id, o IN (true) = o, o BETWEEN false AND true = o, NOT o = (t IS NULL), (o = o) IS NULL FROM x",
        "SELECT id FROM x WHERE o AND (t IN (SELECT s FROM x) OR t NOT IN (SELECT s FROM x WHERE s > 0))",
        "SELECT id, CASE WHEN t NOT IN (SELECT s FROM x) THEN 1 ELSE 2 END, if(t IN (SELECT s FROM x), 1, 2) FROM x",
        "SELECT 'all' AS k, sum(t), 1 + 1 FROM x WHERE false GROUP BY ALL",
        "SELECT 1, sum(sum(t)) OVER () FROM x WHERE false GROUP BY ALL",
        "SELECT 1, o, sum(t) FROM x WHERE false GROUP BY ALL",
        "SELECT 1 FROM x GROUP BY ALL",
        "SELECT /* a */ id -- /* not closed\nFROM x",
        "FROM (VALUES (1, 'a', 3.50, DATE '2024-05-17'), (-2, NULL, 19.125, NULL)) AS t(id, item, price, day)",
        "SELECT k.n, x.v FROM (VALUES (1, true), (2, NULL)) AS k(n, o) LEFT JOIN x ON x.id = k.n",
        "WITH k AS (SELECT n + 1 AS n FROM (VALUES (1), (2.5), (1e0)) AS k(n)) SELECT sum(n) FROM k",
        "SELECT o, t, id FROM x ORDER BY ALL LIMIT 9",
        "SELECT o, count(*) FROM x GROUP BY ALL ORDER BY ALL DESC NULLS FIRST LIMIT 2",
        "SELECT id FROM x WHERE m >= '2024-01-01' AND a BETWEEN '0200-01-01' AND '2024-02-29'",
        "SELECT mod(t, 3), id FROM x",
        "SELECT count(*) FROM x WHERE v LIKE 'a\\b' OR v = 'a\\b' OR v IN ('a''b\"c', '${x}')",
    ],
)
def test_query_has_the_rows_of_duckdb(sql: str, pair: Twins) -> None:
    assert pair.difference(sql) is None


NESTED = """
    SELECT * FROM (VALUES
        (1, {'a': 1, 'b': 0.5::DOUBLE}, [1, NULL], [{'x': 'a'}]),
        (2, {'a': 1, 'b': 0.5::DOUBLE}, [1, NULL], [{'x': 'a'}]),
        (3, {'a': NULL, 'b': 'nan'::DOUBLE}, [], []),
        (4, {'a': NULL, 'b': 'nan'::DOUBLE}, [], []),
        (5, {'a': NULL, 'b': '-0.0'::DOUBLE}, [NULL], [NULL]),
        (6, {'a': NULL, 'b': 0.0::DOUBLE}, [NULL, NULL], [{'x': NULL}]),
        (7, NULL, NULL, NULL),
        (8, {'a': NULL, 'b': NULL}, [1], [{'x': 'a'}, NULL])
    ) AS t(id, s, l, n)
"""


@pytest.mark.parametrize(
    "sql",
    [f"SELECT p.id, q.id FROM x p, x q WHERE p.{column} IS NOT DISTINCT FROM q.{column}" for column in ("s", "l", "n")]
    + [
        "SELECT count(*) FROM (SELECT DISTINCT s, l, n FROM x)",
        "SELECT count(*), min(id) FROM x GROUP BY s",
        "SELECT count(*), min(id) FROM x GROUP BY l, n",
        "SELECT count(*) FROM (SELECT s, l, n FROM x EXCEPT ALL SELECT s, l, n FROM x WHERE id IN (1, 4, 5))",
        "SELECT id, count(*) OVER (PARTITION BY s) FROM x",
    ],
)
def test_nested_values_are_equal_as_in_duckdb(sql: str, spark: SparkSession) -> None:
    with duckdb.connect() as connection:
        connection.execute(f"CREATE TABLE x AS {NESTED}")
        frame = from_arrow(spark, connection.sql("FROM x").to_arrow_table())
        assert Twins(connection, spark, frame).difference(sql) is None


def test_values_of_unknown_types_can_be_passed_on() -> None:
    text = translated(bind("SELECT u, s, u IS NULL, count(u) OVER () FROM x", TABLE))
    assert text.startswith("SELECT `x`.`u` AS `u`, `x`.`s` AS `s`, `x`.`u` IS NULL")


def test_filters_on_columns_stay_filters_on_columns() -> None:
    """Spark pushes them down to the files."""
    text = translated(bind("SELECT i FROM x WHERE i > 3 AND v = 'a' AND g < 2", TABLE))
    assert "WHERE `x`.`i` > 3 AND `x`.`v` = 'a' AND `x`.`g` < CAST(2 AS DOUBLE)" in text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i IN (SELECT i FROM x) FROM x",
        "SELECT i FROM x WHERE (i IN (SELECT i FROM x)) IS NULL",
        "SELECT i FROM x WHERE NOT (i > 0 AND i IN (SELECT i FROM x))",
        "SELECT i FROM x WHERE coalesce(i NOT IN (SELECT i FROM x), true)",
        "SELECT CASE g > 0 WHEN i IN (SELECT i FROM x) THEN 1 END FROM x",
        "SELECT i FROM x WHERE (i, v) IN (SELECT i, v FROM x)",
        "SELECT (SELECT max(i) FROM x), sum(i) FROM x GROUP BY ALL",
        "SELECT 1e400",
    ],
)
def test_part_with_other_values_in_spark_is_refused(sql: str) -> None:
    with pytest.raises(UnsupportedError):
        translated(bind(sql, TABLE))
