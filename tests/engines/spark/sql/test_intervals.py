"""Intervals: added to times, and compared with differences of times."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import Twins, assert_alike, twins

from lakeconf.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=13, count=100)


UNITS = ("SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "YEAR")


def test_times_with_intervals_are_those_of_duckdb(pair: Twins) -> None:
    assert_alike(
        pair,
        [
            *(f"m + INTERVAL 5 {unit}" for unit in UNITS),
            *(f"a - INTERVAL 13 {unit}" for unit in UNITS),
            "INTERVAL 1 MONTH + a",
            "m + INTERVAL '2 days'",
            "a + INTERVAL '1' MONTH + INTERVAL 1 DAY",
        ],
    )


def test_differences_of_times_are_compared_as_in_duckdb(pair: Twins) -> None:
    assert_alike(
        pair,
        [
            "m - TIMESTAMP '2024-02-29 00:00:00' <= INTERVAL 1 DAY",
            "m - TIMESTAMP '2024-02-29 00:00:00' < INTERVAL 24 HOUR",
            "TIMESTAMP '1970-01-01 00:00:01' - m = INTERVAL 1 SECOND",
            "m - a::TIMESTAMP > INTERVAL 2 WEEK",
            "(m - a::TIMESTAMP) IS DISTINCT FROM (a::TIMESTAMP - m)",
            "m - lag(m) OVER (PARTITION BY o ORDER BY m, id) <= INTERVAL 30 MINUTE",
        ],
    )


@pytest.mark.parametrize(
    "expression",
    [
        "m - m",
        "INTERVAL 1 DAY",
        "m - TIMESTAMP '2024-02-29 00:00:00' < INTERVAL 1 MONTH",
        "m + INTERVAL (i) DAY",
        "m + INTERVAL '1 day 2 hours'",
        "m + INTERVAL 1000000 YEAR",
        "z + INTERVAL 1 DAY",
        "max(m) - min(m)",
        "coalesce(m - m, INTERVAL 1 DAY)",
        "INTERVAL 1 DAY - m",
        "INTERVAL 1 DAY * 2 > m - m",
    ],
)
def test_other_intervals_are_refused(expression: str, pair: Twins) -> None:
    with pytest.raises((UnsupportedError, QueryError)):
        pair.on_spark(f"SELECT {expression} FROM x")
