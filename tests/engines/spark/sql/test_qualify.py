"""QUALIFY filters rows by windows, before ORDER BY and LIMIT."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import Twins, twins

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = "QUALIFY row_number() OVER (PARTITION BY o ORDER BY t, id) = 1"


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=3)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT id, v FROM x {FIRST}",
        f"SELECT id, id, v AS id FROM x WHERE id > 3 {FIRST}",
        "SELECT id, rank() OVER (ORDER BY t) AS n FROM x QUALIFY n BETWEEN 3 AND 9",
        "SELECT id FROM x QUALIFY row_number() OVER (ORDER BY id DESC) > 5 ORDER BY id LIMIT 4 OFFSET 1",
        "SELECT id AS k FROM x QUALIFY row_number() OVER (ORDER BY id DESC) > 5 ORDER BY t DESC, k LIMIT 4",
        "SELECT o, count(*) AS n FROM x GROUP BY o QUALIFY rank() OVER (ORDER BY count(*) DESC) = 1",
        f"SELECT count(*) FROM (SELECT id FROM x {FIRST}) AS k JOIN x USING (id)",
        f"SELECT id FROM x WHERE id IN (SELECT id FROM x {FIRST}) {FIRST}",
        f"SELECT id FROM x {FIRST} UNION ALL SELECT b FROM x {FIRST}",
        f"WITH k AS (SELECT id, t, o FROM x {FIRST}) SELECT id FROM k {FIRST}",
        "SELECT id FROM x QUALIFY max(t) OVER (PARTITION BY o) = t AND id < 50",
    ],
)
def test_rows_are_those_of_duckdb(sql: str, pair: Twins) -> None:
    assert pair.difference(sql) is None


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT DISTINCT o FROM x {FIRST}",
        "SELECT o, count(*) FROM x GROUP BY ROLLUP (o) QUALIFY rank() OVER (ORDER BY count(*)) = 1",
    ],
)
def test_other_steps_are_refused(sql: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(sql)
