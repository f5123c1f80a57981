"""Inlined rows become a frame with the types of the table; values that Spark cannot hold are rejected."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField

from lakeconf.catalog.column_types import columns_of
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.read.native_scan import inlined_frame
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def arrow(query: str) -> pa.Table:
    with connect() as connection:
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        return connection.arrow(query)


def test_rows_have_the_types_of_the_table(private: SparkSession) -> None:
    types = {'a"`b': "HUGEINT", "t": "TIME", "s": "STRUCT(x UTINYINT, y TIMESTAMP_MS[])", "n": "TIMESTAMP"}
    values = ("7", "'01:02:03.5'", "{'x': 255, 'y': ['2024-01-01 00:00:00.123']}", "'2024-01-01 12:00:00'")
    casts = ", ".join(
        f"""CAST({value} AS {text}) AS "{name.replace('"', '""')}" """
        for (name, text), value in zip(types.items(), values, strict=True)
    )
    rows = arrow(f"SELECT {casts}, 5 AS rowid UNION ALL SELECT NULL, NULL, NULL, NULL, 6")
    virtual = [(StructField("id", LongType()), "rowid"), (StructField("f", StringType()), "CAST(NULL AS VARCHAR)")]
    frame = inlined_frame(private, columns_of(types), rows, virtual)
    assert frame.dtypes == [
        ('a"`b', "decimal(38,0)"),
        ("t", "string"),
        ("s", "struct<x:smallint,y:array<timestamp_ntz>>"),
        ("n", "timestamp_ntz"),
        ("id", "bigint"),
        ("f", "string"),
    ]
    moment = dt.datetime(2024, 1, 1, 0, 0, 0, 123_000)
    assert frame.collect() == [
        (Decimal(7), "01:02:03.5", (255, [moment]), dt.datetime(2024, 1, 1, 12), 5, None),
        (None, None, None, None, 6, None),
    ]


@pytest.mark.parametrize("type_name", ["TIMETZ", "TIMETZ[]", "STRUCT(a MAP(INTEGER, TIMETZ))"])
def test_times_with_an_offset_are_rejected(private: SparkSession, type_name: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        inlined_frame(private, columns_of({"x": type_name}), arrow("SELECT NULL AS x"), ())
    assert refused.value.message == ("the column 'x' holds TIMETZ in the catalog, whose offsets would be lost in Spark")
    assert refused.value.hint == ("move the rows to a file, CALL ducklake_flush_inlined_data(…), or omit the column")


def test_hidden_row_ids_are_rejected(private: SparkSession) -> None:
    columns = columns_of({"a": "INTEGER"})
    virtual = [(StructField("id", LongType()), "_row_id")]
    with pytest.raises(UnsupportedError) as refused:
        inlined_frame(private, columns, arrow("SELECT 1 AS a"), virtual)
    assert refused.value.message == (
        "the catalog contains rows of the table, and a column named 'rowid' or 'snapshot_id' hides their ids"
    )
    assert refused.value.hint == "move the rows to a file: CALL ducklake_flush_inlined_data(…)"
    assert inlined_frame(private, columns, arrow("SELECT 1 AS a, 2 AS _row_id"), virtual).collect() == [(1, 2)]


@pytest.mark.parametrize(
    ("type_name", "value", "reason"),
    [
        ("HUGEINT", "170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
        ("TIMESTAMP_NS", "2024-01-01 00:00:00.123456789", "a TIMESTAMP_NS has more digits than Spark's microseconds"),
    ],
)
def test_values_that_spark_cannot_hold_are_rejected(
    private: SparkSession, type_name: str, value: str, reason: str
) -> None:
    rows = arrow(f"SELECT '{value}'::{type_name} AS x")
    with pytest.raises(UnsupportedError, match=f"an inlined row has a value that Spark cannot hold: .*{reason}") as no:
        inlined_frame(private, columns_of({"x": type_name}), rows, ())
    assert no.value.hint == "read it with DuckDB"
