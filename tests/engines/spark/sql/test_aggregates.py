"""Aggregates and window functions have DuckDB's types and values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from sql_twins import Twins, twins

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=9)


@pytest.mark.parametrize(
    ("expression", "type_name"),
    [
        ("sum(t)", "bigint"),
        ("sum(d)", "decimal(38,2)"),
        ("avg(t)", "double"),
        ("avg(d)", "double"),
        ("count(v)", "bigint"),
        ("min(s)", "smallint"),
        ("max(m)", "timestamp_ntz"),
        ("stddev(t)", "double"),
        ("row_number() OVER (ORDER BY 1)", "bigint"),
    ],
)
def test_result_has_the_type_of_duckdb(expression: str, type_name: str, pair: Twins) -> None:
    assert pair.on_spark(f"SELECT {expression} AS r FROM x").dtypes == [("r", type_name)]


@pytest.mark.parametrize(
    "expression",
    [
        "avg(DISTINCT t)",
        "sum(DISTINCT d), count(DISTINCT g), count(DISTINCT v)",
        "avg(t) FILTER (WHERE t > 100000)",
        "sum(t) FILTER (WHERE o) , count(*) FILTER (WHERE NOT o)",
        "min(f), max(f), min(g), max(g), min(y), max(y), min(o), max(o)",
        "avg(i), sum(i), avg(s)",
    ],
)
def test_values_are_those_of_duckdb(expression: str, pair: Twins) -> None:
    assert pair.difference(f"SELECT {expression} FROM x") is None
    assert pair.difference(f"SELECT o, {expression} FROM x GROUP BY o") is None


def test_windows_keep_their_filter_and_frame(pair: Twins) -> None:
    windows = "PARTITION BY o ORDER BY id ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING"
    sql = f"SELECT id, avg(t) FILTER (WHERE t > 0) OVER ({windows}), count(t) OVER ({windows}) FROM x"
    assert pair.difference(sql) is None


def test_sum_that_does_not_fit_is_an_error(pair: Twins) -> None:
    with pytest.raises(PySparkException, match=r"(?i)overflow"):
        pair.on_spark(
            "SELECT sum(b) FROM (SELECT b FROM x WHERE b > 5 UNION ALL SELECT b FROM x WHERE b > 5)"
        ).collect()


@pytest.mark.parametrize(
    "expression",
    [
        "sum(o)",
        "count(DISTINCT (v, t))",
        "lag(v, t) OVER (ORDER BY id)",
        "first_value(v IGNORE NULLS) OVER (ORDER BY id)",
        "sum(t) OVER (ORDER BY id RANGE BETWEEN 1 PRECEDING AND CURRENT ROW)",
        "median(t)",
        "list(t)",
        "any_value(t)",
        "arg_max(v, t)",
    ],
)
def test_other_aggregates_are_refused(expression: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(f"SELECT {expression} FROM x")
