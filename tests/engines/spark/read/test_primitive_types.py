"""Conversions of stored values to the texts and timestamps that DuckDB returns."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import BinaryType, DoubleType, LongType, StructField, StructType

from lakeconf.engines.spark.read import primitive_types as primitive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import DataType

INTERVALS = [
    (0, 0, 0),
    (1, 1, 1),
    (12, 0, 0),
    (13, 2, 0),
    (25, 0, 3_723_004),
    (0, 0, 90_061_000),
    (255, 65_536, 16_777_216),
    (2**31 - 1, 2**31 - 1, 2**31 - 1),
]
WHOLE = [0, 1, -1, 2**32, -(2**32) - 1, 2**53, 2**64, -(2**64), 2**96, 3 * 2**95, -(2**100) + 2**60, 10**22]


def frame(private: SparkSession, values: list[Any], kind: DataType) -> DataFrame:
    """A frame with these values and a NULL in the column `x`."""
    rows = [(value,) for value in (*values, None)]
    return private.createDataFrame(rows, StructType([StructField("x", kind)])).coalesce(1)


def converted(found: DataFrame, convert: primitive.Convert) -> list[Any]:
    return [row[0] for row in found.select(convert(F.col("x"))).collect()]


def by_duckdb(sql: str) -> list[Any]:
    with duckdb.default_connection().cursor() as con:
        return [row[0] for row in con.execute(sql).fetchall()]


def test_intervals_have_the_text_of_duckdb(private: SparkSession) -> None:
    found = frame(private, [bytearray(struct.pack("<3I", *parts)) for parts in INTERVALS], BinaryType())
    queries = (
        f"SELECT CAST(to_months({months}) + to_days({days}) + to_milliseconds({millis}) AS VARCHAR)"
        for months, days, millis in INTERVALS
    )
    expected = [text for query in queries for text in by_duckdb(query)]
    assert converted(found, primitive.interval_from_bytes) == [*expected, None]


def test_whole_microseconds_of_nanoseconds_are_kept(private: SparkSession) -> None:
    found = frame(private, [0, 1000, -1000, 1_700_000_000_123_456_000, -(2**62) // 1000 * 1000], LongType())
    values = converted(found, primitive.timestamp_from_nanos)
    epoch = dt.datetime(1970, 1, 1)
    steps = (0, 1, -1, 1_700_000_000_123_456, -(2**62) // 1000)
    assert values == [*(epoch + dt.timedelta(microseconds=step) for step in steps), None]
    for value in (1, -1, 1001):
        with pytest.raises(Exception, match=rf"a TIMESTAMP_NS has more digits .* read it with DuckDB: {value} ns"):
            converted(frame(private, [value], LongType()), primitive.timestamp_from_nanos)


def test_milliseconds_and_infinity(private: SparkSession) -> None:
    infinity = 2**63 - 1
    found = frame(private, [0, -1, 1_700_000_000_123, infinity, -infinity], LongType())
    moments = found.select(primitive.timestamp_from_millis(F.col("x")).alias("t"))
    assert moments.dtypes == [("t", "timestamp_ntz")]
    micros = moments.selectExpr("unix_micros(CAST(t AS TIMESTAMP))")
    assert micros.collect() == [(0,), (-1000,), (1_700_000_000_123_000,), (infinity,), (-infinity,), (None,)]


def test_doubles_become_their_exact_integers(private: SparkSession) -> None:
    doubles = [float(value) for value in WHOLE]
    found = frame(private, doubles, DoubleType())
    assert converted(found, primitive.decimal_from_double) == [*(Decimal(int(value)) for value in doubles), None]
