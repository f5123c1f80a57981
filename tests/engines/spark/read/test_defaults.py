"""Initial defaults as Spark SQL: literals that mean the same with any settings of a session."""

from __future__ import annotations

import datetime as dt

import pytest

from lakeconf.catalog.tables import Column
from lakeconf.engines.spark.read.column_reader import _day, _moment, default_sql
from lakeconf.errors import LakeconfError

# DuckLake's type, the default as the catalog stores it, Spark's SQL.
DEFAULTS = [
    ("boolean", "true", "CAST(TRUE AS boolean)"),
    ("boolean", "0", "CAST(FALSE AS boolean)"),
    ("int8", "-3", "CAST(-3 AS tinyint)"),
    ("uint64", "18446744073709551615", "CAST(18446744073709551615BD AS decimal(20,0))"),
    ("int128", "-5", "CAST(-5BD AS decimal(38,0))"),
    ("float64", "0.1", "CAST(0.1D AS double)"),
    ("float64", "nan", "CAST(CAST('nan' AS DOUBLE) AS double)"),
    ("float64", "-inf", "CAST(CAST('-inf' AS DOUBLE) AS double)"),
    ("float32", "1e30", "CAST(1.0000000150474662e+30D AS float)"),
    ("decimal(5,2)", "1.5", "CAST(1.50BD AS decimal(5,2))"),
    ("decimal(38,10)", "0.0000000001", "CAST(0.0000000001BD AS decimal(38,10))"),
    ("varchar", "it's \"\\n", "CAST(CAST(X'6974277320225c6e' AS STRING) AS string)"),
    ("varchar", "", "CAST(CAST(X'' AS STRING) AS string)"),
    ("varchar", "ü", "CAST(CAST(X'c3bc' AS STRING) AS string)"),
    ("json", '{"a": 1}', "CAST(CAST(X'7b2261223a20317d' AS STRING) AS string)"),
    ("blob", "\\xAA\\x00b", "CAST(X'aa0062' AS binary)"),
    ("time", "12:34:56.5", "CAST(CAST(X'31323a33343a35362e35' AS STRING) AS string)"),
    ("date", "1500-03-01", "DATE '1500-03-01'"),
    ("date", "0001-01-01 (BC)", "DATE '0000-01-01'"),
    ("timestamp", "1500-01-01 12:34:56.123456", "TIMESTAMP_NTZ '1500-01-01 12:34:56.123456'"),
    ("timestamp", "1969-12-31 23:59:59.999999", "TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'"),
    ("timestamp", "20000-01-01 00:00:00", "TIMESTAMP_NTZ '+20000-01-01 00:00:00.000000'"),
    ("timestamp_s", "2024-01-01 12:34:56", "TIMESTAMP_NTZ '2024-01-01 12:34:56.000000'"),
    ("timestamp_ms", "2024-01-01 12:34:56.123", "TIMESTAMP_NTZ '2024-01-01 12:34:56.123000'"),
    ("timestamp_ns", "2024-01-01 12:34:56.123456", "TIMESTAMP_NTZ '2024-01-01 12:34:56.123456'"),
    ("timestamptz", "2024-07-01 12:34:56+02", "TIMESTAMP_LTZ '2024-07-01 10:34:56.000000+00:00'"),
]


@pytest.mark.parametrize(("type_name", "default", "sql"), DEFAULTS)
def test_default_is_a_literal_of_the_columns_type(type_name: str, default: str, sql: str) -> None:
    assert default_sql(Column(1, "c", type_name, nullable=True, initial_default=default)) == sql


@pytest.mark.parametrize("type_name", ["timestamp_s", "timestamp_ms", "timestamp"])
def test_infinity_is_a_timestamp_of_spark(type_name: str) -> None:
    """DuckDB's infinity is the largest number of microseconds."""
    sql = default_sql(Column(1, "c", type_name, nullable=True, initial_default="infinity"))
    assert sql == "TIMESTAMP_NTZ '+294247-01-10 04:00:54.775807'"


def test_default_that_the_spark_type_cannot_hold_is_rejected() -> None:
    with pytest.raises(LakeconfError, match="170141183460469231731687303715884105727"):
        default_sql(Column(1, "c", "int128", nullable=True, initial_default="170141183460469231731687303715884105727"))


def test_days_are_those_of_the_gregorian_calendar() -> None:
    epoch = dt.date(1970, 1, 1)
    ends = [0, 1, 58, 59, 60, 364, 365, 366, 789, 1460, 1461, 10956, 10957, 36523, 36524, 36525, 146_096, 146_097]
    steps = [*range(1100), *range(0, 2_900_000, 997), *ends]
    for day in (sign * step for step in steps for sign in (1, -1)):
        if -719_162 <= day <= 2_932_896:
            assert _day(day) == (epoch + dt.timedelta(days=day)).isoformat()


@pytest.mark.parametrize(
    ("day", "text"),
    [
        (-719_162, "0001-01-01"),
        (-719_163, "0000-12-31"),
        (-719_528, "0000-01-01"),
        (-719_529, "-0001-12-31"),
        (-719_894, "-0002-12-31"),
        (2_932_896, "9999-12-31"),
        (2_932_897, "+10000-01-01"),
        (-719_468, "0000-03-01"),
        (-719_469, "0000-02-29"),
    ],
)
def test_years_that_python_lacks(day: int, text: str) -> None:
    assert _day(day) == text


@pytest.mark.parametrize("micros", [0, 1, 999_999, 1_000_000, 59_999_999, 3_599_000_000, 86_399_999_999, -1])
def test_moments_have_all_their_digits(micros: int) -> None:
    expected = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    assert _moment(micros) == expected.isoformat(sep=" ", timespec="microseconds")
