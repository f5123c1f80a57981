"""Inlined rows become a frame; columns that are constant in a file."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField

from lakeconf.catalog.column_types import columns_of
from lakeconf.catalog.data_file import DataFile, NameMapping
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.connection import connect
from lakeconf.engines.engine import FILE_ID, FILENAME
from lakeconf.engines.spark.read.groups import BEGIN, FILE, ROW_ID_START, path_text, path_value, with_constants
from lakeconf.engines.spark.read.native_scan import inlined_frame
from lakeconf.errors import StorageError, UnsupportedError

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


def column(type_name: str = "varchar", field_id: int = 4) -> Column:
    return Column(field_id, "P", type_name, nullable=True, initial_default=None)


def plan_of(*columns: Column, source_name: str = "p") -> ScanPlan:
    mappings = tuple(NameMapping(source_name, each.field_id, in_path=True) for each in columns)
    other = NameMapping("other", 1)
    table = TableInfo(1, "main", "t", columns, "/t/")
    return ScanPlan(5, table, columns, (), {3: (other, *mappings)}, ())


def file_of(path: str) -> DataFile:
    return DataFile(1, path, 10, 100, row_id_start=7, begin_snapshot=2, mapping_id=3)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/t/p=7/f.parquet", "7"),
        ("/t/P=7/f.parquet", "7"),
        ("/t/P=8/p=7/f.parquet", "7"),
        ("/t/p=7/p=8/f.parquet", "7"),
        ("/t/p=a%20b%2Fc+d/f.parquet", "a b/c+d"),
        ("/t/%70=7/f.parquet", "7"),
        ("s3://b/p=7/q=8/f.parquet", "7"),
        ("/t/p=NULL/f.parquet", None),
        ("/t/p=null/f.parquet", None),
        ("/t/p=__HIVE_DEFAULT_PARTITION__/f.parquet", None),
        ("/t/p=%4EULL/f.parquet", "NULL"),
        ("/t/p=/f.parquet", ""),
    ],
)
def test_value_in_a_path(path: str, text: str | None) -> None:
    assert path_text(plan_of(column()), file_of(path), column()) == text


@pytest.mark.parametrize(("type_name", "text"), [("varchar", ""), ("json", ""), ("int32", None), ("date", None)])
def test_empty_value_is_null_except_for_texts(type_name: str, text: str | None) -> None:
    wanted = column(type_name)
    assert path_text(plan_of(wanted), file_of("/t/p=/f.parquet"), wanted) == text


@pytest.mark.parametrize(
    "path", ["/t/f.parquet", "/t/q=7/f.parquet", "/t/p=1=2/f.parquet", "/t/a/p=7", "/t/p/f.parquet"]
)
def test_path_without_the_value_is_rejected(path: str) -> None:
    with pytest.raises(StorageError) as refused:
        path_text(plan_of(column()), file_of(path), column())
    assert refused.value.message == f"the path of {path} has no value for 'P': no folder P=…"


def test_value_that_is_not_utf_8_is_rejected() -> None:
    with pytest.raises(StorageError, match=r"^the value of 'P' in the path of /t/p=%FF/f\.parquet is not UTF-8$"):
        path_text(plan_of(column()), file_of("/t/p=%FF/f.parquet"), column())


def test_rows_get_the_properties_of_their_file(spark: SparkSession) -> None:
    columns = (column("date", 4), column("timestamp", 5), column("json", 6), column("uint64", 7))
    paths = ["/t/p=2024-01-02/f.parquet", "/t/p=NULL/g.parquet"]
    frame = spark.createDataFrame([(0,), (1,)], f"{FILE} BIGINT")
    found = with_constants(spark, frame, plan_of(*columns[:2]), list(map(file_of, paths)), columns[:2])
    wanted = [FILE, FILENAME, FILE_ID, ROW_ID_START, BEGIN, path_value(columns[0]), path_value(columns[1])]
    day = dt.date(2024, 1, 2)
    assert sorted(found.select(*wanted).collect()) == [
        (0, paths[0], 1, 7, 2, day, dt.datetime(2024, 1, 2)),
        (1, paths[1], 1, 7, 2, None, None),
    ]
    assert dict(found.dtypes)[path_value(columns[1])] == "timestamp_ntz"


def test_values_of_paths_are_cast_like_duckdb(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(0,)], f"{FILE} BIGINT")
    wanted = (column("json", 6), column("uint64", 7), column("timestamptz", 8))
    files = [file_of("/t/p=18446744073709551615/f.parquet")]
    found = with_constants(spark, frame, plan_of(*wanted[:2]), files, wanted[:2])
    values = found.select(*map(path_value, wanted[:2])).collect()
    assert [tuple(map(str, row)) for row in values] == [("18446744073709551615",) * 2]
    files = [file_of("/t/p=2024-07-01 00:00:00/f.parquet")]
    found = with_constants(spark, frame, plan_of(wanted[2]), files, wanted[2:])
    assert found.selectExpr(f"unix_seconds({path_value(wanted[2])})").collect() == [(1_719_792_000,)]


def test_row_of_a_file_that_is_not_in_the_plan_is_an_error(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(1,)], f"{FILE} BIGINT")
    found = with_constants(spark, frame, plan_of(), [file_of("/f")], ())
    with pytest.raises(Exception, match="not in the plan of this scan"):
        found.collect()
