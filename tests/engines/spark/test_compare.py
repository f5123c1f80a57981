"""The check of a table compares each column as DuckDB and Spark read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_rows import scan

from lakeconf.catalog.tables import load_table
from lakeconf.engines.spark.classic_engine import check

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession

    from lakeconf.engines.engine import TableCheck

ROWS = "FROM (VALUES (1, 'x', 1::VARIANT), (2, NULL, NULL), (3, 'z', 2::VARIANT)) AS v (a, b, v)"


def checked(spark: SparkSession, lake: Lake, change: str = "") -> TableCheck:
    frame = scan(spark, lake, "t")
    table = load_table(lake.reader, "t", lake.newest)
    return check(frame.selectExpr(*change.split(";")) if change else frame, lake.reader, table, lake.newest)


def test_columns_of_both_engines_are_equal(spark: SparkSession, files: Lake) -> None:
    files.run('CREATE TABLE lake.t ("A `x`" INTEGER, b VARCHAR, v VARIANT)', f"INSERT INTO lake.t {ROWS}")
    found = checked(spark, files)
    assert (found.duckdb_rows, found.spark_rows) == (3, 3)
    assert [(one.name, one.type, one.spark.values) for one in found.columns] == [
        ("A `x`", "int32", 3),
        ("b", "varchar", 2),
        ("v", "variant", 2),
    ]
    assert [(one.equal, one.is_hashed) for one in found.columns] == [(True, True), (True, True), (True, False)]
    active = type(spark).getActiveSession()
    assert active is not None
    assert active._jsparkSession.equals(spark._jsparkSession)


def test_column_that_spark_reads_differently_is_found(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a INTEGER, b VARCHAR, v VARIANT)", f"INSERT INTO lake.t {ROWS}")
    found = checked(spark, files, "a + 0 AS a;coalesce(b, '') AS b;v")
    assert [one.equal for one in found.columns] == [True, False, True]
    assert (found.columns[1].duckdb.values, found.columns[1].spark.values) == (2, 3)
