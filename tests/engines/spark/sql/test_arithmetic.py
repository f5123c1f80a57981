"""Arithmetic has DuckDB's types, and its results for division by zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from pyspark.errors import PySparkException
from sql_twins import Twins, assert_alike, twins

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=5)


def test_values_are_those_of_duckdb(pair: Twins) -> None:
    assert_alike(
        pair,
        [
            "CAST(t AS INTEGER) + s",
            "d + e",
            "d - 1",
            "d * d",
            "d * e * 1.5",
            "g + g",
            "g * i",
            "f + 1",
            "f * 0.5",
            "i / 2",
            "i / t",
            "g / g",
            "1 / g",
            "d / 0",
            "i % t",
            "i % 0",
            "g % 2.5",
            "g % g",
            "d % 0.7",
            "i // NULLIF(t, -1)",
            "i // 0",
            "-d",
            "-g",
            "round(d, 1)",
            "round(g, 2)",
            "round(g)",
            "round(i, 2)",
            "a + 1",
            "1 + a",
            "a - t",
            "a - DATE '2000-01-01'",
            "t * CAST(2 AS BIGINT)",
        ],
    )


@pytest.mark.parametrize("expression", ["i + 1", "t * t", "b - 9223372036854775807", "-b", "w * 100000000000"])
def test_overflow_is_an_error_in_both(expression: str, pair: Twins) -> None:
    sql = f"SELECT {expression} FROM x"
    with pytest.raises(duckdb.Error, match=r"(?i)overflow|out of range"):
        pair.connection.sql(sql).fetchall()
    with pytest.raises(PySparkException, match=r"(?i)overflow|out_of_range"):
        pair.on_spark(sql).collect()


@pytest.mark.parametrize("expression", ["m - m", "f % f", "g // 2", "round(i, -1)", "round(g, t)", "f / f", "2 ** 3"])
def test_other_arithmetic_is_refused(expression: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(f"SELECT {expression} FROM x")
