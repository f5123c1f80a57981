"""A predicate as a filter of Spark finds the rows that DuckDB finds, without casts of the column."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.catalog.pruning.predicates import Comparison, In
from lakeconf.catalog.tables import Column
from lakeconf.engines.spark.read.native_scan import to_spark
from lakeconf.engines.spark.spark_types import spark_type
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf.catalog.pruning.predicates import Predicate


def column(type_name: str, name: str = "x") -> Column:
    return Column(3, name, type_name, nullable=True, initial_default=None)


VALUES = [
    ("boolean", True, "true", "false"),
    ("int8", -3, "-3Y", "4Y"),
    ("uint64", 2**64 - 1, "18446744073709551615BD", "1BD"),
    *(("int128", value, f"{value}BD", "1BD") for value in (2**100, 2**63, 2**63 - 1, -(2**63), -(2**63) - 1)),
    ("float32", 0.5, "0.5F", "0.25F"),
    ("float64", float("nan"), "double('nan')", "1D"),
    ("decimal(9,2)", Decimal("1.50"), "1.50BD", "1.51BD"),
    ("varchar", "it's \\", r"'it\'s \\'", "'b'"),
    ("blob", b"\x00\xff", "X'00ff'", "X'00'"),
    ("date", dt.date(2024, 2, 29), "DATE '2024-02-29'", "DATE '2024-02-28'"),
    ("date", dt.date(1582, 10, 15), "DATE '1582-10-15'", "DATE '1582-10-14'"),
    ("date", dt.date(1500, 3, 1), "DATE '1500-03-01'", "DATE '1500-02-28'"),
    ("timestamp", dt.datetime(2024, 1, 1, 1, 2, 3, 4), "TIMESTAMP_NTZ '2024-01-01 01:02:03.000004'", "NULL"),
    ("timestamp", dt.datetime(1500, 1, 1), "TIMESTAMP_NTZ '1500-01-01 00:00:00'", "NULL"),
    *(
        ("timestamptz", dt.datetime(2024, 7, 1, tzinfo=zone), "TIMESTAMP '2024-07-01 00:00:00Z'", "NULL")
        for zone in (dt.UTC, None)
    ),
    ("timestamptz", dt.datetime(1883, 7, 1, 0, 0, 0, 5, dt.UTC), "TIMESTAMP '1883-07-01 00:00:00.000005Z'", "NULL"),
]


@pytest.mark.parametrize(("type_name", "value", "same", "other"), VALUES)
def test_values_have_the_type_of_the_column(
    spark: SparkSession, type_name: str, value: Any, same: str, other: str
) -> None:
    kind = column(type_name)
    text = spark_type(kind).simpleString()
    frame = spark.sql(f"SELECT CAST(value AS {text}) AS x FROM VALUES ({same}), ({other}) AS given (value)")
    for predicate in (Comparison(kind, "=", value), In(kind, (value,))):
        filtered = frame.where(to_spark(predicate))
        assert filtered.count() == 1
        assert "cast(x" not in filtered._jdf.queryExecution().optimizedPlan().toString().lower()


def condition(spark: SparkSession, predicate: Predicate, kind: str) -> str:
    """The filter as Spark shows it."""
    frame = spark.range(1).selectExpr(f"CAST(NULL AS {kind}) AS x").where(to_spark(predicate))
    return str(frame._jdf.queryExecution().analyzed().toString())


def test_only_old_dates_and_times_are_compared_as_numbers(spark: SparkSession) -> None:
    """Spark pushes other filters down to the statistics in files."""
    for day, as_number in ((dt.date(1582, 10, 14), True), (dt.date(1582, 10, 15), False)):
        assert ("unix_date" in condition(spark, Comparison(column("date"), "<", day), "DATE")) is as_number
    for moment, as_number in (
        (dt.datetime(1900, 12, 31, 23, 59, 59, 999_999, dt.UTC), True),
        (dt.datetime(1901, 1, 1, tzinfo=dt.UTC), False),
    ):
        text = condition(spark, Comparison(column("timestamptz"), "<", moment), "TIMESTAMP")
        assert ("unix_micros" in text) is as_number
    mixed = In(column("date"), (dt.date(2024, 1, 1), dt.date(1500, 1, 1)))
    assert "unix_date" in condition(spark, mixed, "DATE")


@pytest.mark.parametrize("value", [10**38, -(10**38)])
def test_number_with_more_than_38_digits_is_rejected(spark: SparkSession, value: int) -> None:
    kind = column("int128", "n`n")
    with pytest.raises(UnsupportedError) as refused:
        to_spark(Comparison(kind, "<", value))
    assert refused.value.message == (
        f"the column 'n`n' cannot be compared with {value} on Spark, whose numbers have 38 digits"
    )
    assert refused.value.hint == "read the table with DuckDB"
    to_spark(Comparison(kind, "<", 10**38 - 1))
