"""Functions of dates and timestamps have DuckDB's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from pyspark.errors import PySparkException
from sql_twins import Twins, assert_alike, twins

from lakeconf.engines.spark.session import from_arrow
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=7, count=120)


@pytest.fixture(scope="module")
def far(spark: SparkSession) -> Twins:
    """Dates and timestamps that are infinite, or before the year 1."""
    connection = duckdb.connect()
    connection.execute("CREATE TABLE x (id INTEGER, a DATE, m TIMESTAMP)")
    times = ["infinity", "-infinity", *(f"{year:04}-{month}-17 (BC)" for year in (1, 2, 44) for month in (1, 3, 9, 11))]
    rows = [(number, time, time) for number, time in enumerate([*times, "2024-05-17", None])]
    connection.executemany("INSERT INTO x VALUES (?, ?, ?)", rows)
    return Twins(connection, spark, from_arrow(spark, connection.sql("FROM x").to_arrow_table()).cache())


def test_infinite_and_early_times_are_those_of_duckdb(far: Twins) -> None:
    parts = ("year", "quarter", "month", "day", "week", "isodow", "dayofweek", "dayofyear")
    units = ("day", "month", "quarter", "year")
    assert_alike(
        far,
        [
            *(f"{part}({value})" for part in parts for value in "am"),
            *(f"{part}(m)" for part in ("hour", "minute", "second")),
            *("extract(doy FROM m)", "extract(dow FROM a)", "day(last_day(a))", "year(last_day(m))"),
            *(f"date_diff('{unit}', a, DATE '2024-05-17')" for unit in units),
            *(f"date_diff('{unit}', TIMESTAMP '2024-05-17', m)" for unit in units),
            *(f"date_trunc('{unit}', m) = m" for unit in ("week", "month", "hour")),
            *("a + 1 = a", "a - 1 = a", "1 + a > a", "a - DATE '2024-01-01'", "m + INTERVAL 1 DAY = m"),
            *("m - INTERVAL 1 MONTH < m", "m::DATE = a", "m::DATE > DATE '9999-12-31'"),
        ],
    )


def test_a_date_out_of_range_is_an_error(pair: Twins) -> None:
    with pytest.raises(PySparkException):
        pair.on_spark("SELECT a + 2147483647 FROM x WHERE a > DATE '2024-01-01'").collect()


def test_parts_of_dates_are_those_of_duckdb(pair: Twins) -> None:
    units = ("year", "quarter", "month", "day", "week", "dow", "isodow", "doy", "hour", "minute", "second")
    functions = (
        "year",
        "quarter",
        "month",
        "day",
        "week",
        "weekofyear",
        "dayofweek",
        "isodow",
        "dayofyear",
        "last_day",
    )
    assert_alike(
        pair,
        [
            *(f"{name}({value})" for name in functions for value in "am"),
            *(f"{name}(m)" for name in ("hour", "minute", "second")),
            *(f"extract({unit} FROM m)" for unit in units),
            *(f"extract({unit} FROM a)" for unit in units[:8]),
            *(f"date_trunc('{unit}', m)" for unit in (*units[:4], "hour", "minute", "week", "second")),
            *(f"date_trunc('{unit}', a)" for unit in ("month", "WEEK")),
        ],
    )


def test_differences_are_those_of_duckdb(pair: Twins) -> None:
    units = ("day", "MONTH", "quarter", "year")
    sides = ("a, DATE '2024-05-17'", "DATE '2024-05-20', a", "m, a", "a, m", "m, TIMESTAMP '2024-03-31 02:30:00'")
    assert_alike(pair, [f"date_diff('{unit}', {side})" for unit in units for side in sides] + ["datediff('day', a, m)"])


def test_written_times_are_those_of_duckdb(pair: Twins) -> None:
    formats = ("%Y-%m-%d", "%Y", "%m/%d %H:%M:%S", "%Y%m%d_%H.%M")
    assert_alike(
        pair,
        [f"strftime({value}, '{one}')" for value in "am" for one in formats] + ["CAST(a AS VARCHAR)", "m::VARCHAR"],
    )


@pytest.mark.parametrize(
    "expression", ["(a - 3000000)::VARCHAR", "strftime(m + INTERVAL 9000 YEAR, '%Y')", "'' || (a + 3000000)"]
)
def test_years_that_the_engines_write_differently_are_errors(expression: str, pair: Twins) -> None:
    with pytest.raises(PySparkException, match="the year is not between 1 and 9999"):
        pair.on_spark(f"SELECT {expression} FROM x WHERE a IS NOT NULL AND m IS NOT NULL").collect()


@pytest.mark.parametrize(
    "expression",
    [
        "extract(epoch FROM m)",
        "extract(millisecond FROM m)",
        "date_trunc('decade', m)",
        "year(z)",
        "date_trunc('day', z)",
        "date_diff('hour', m, m)",
        "date_diff('week', a, a)",
        "date_diff('day', z, z)",
        "strftime(a, '%y')",
        "strftime(a, '%-d')",
        "strftime(a, '%%')",
        "strftime(z, '%Y')",
        "last_day(z)",
        "isodow(z)",
    ],
)
def test_other_functions_are_refused(expression: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(f"SELECT {expression} FROM x")
