"""The Spark engine scans, stages, registers views and checks with the user's session, in jobs of its own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pytest
from spark_rows import access_to, scan

from lakeconf.catalog.tables import load_table
from lakeconf.engines.spark.classic_engine import SparkEngine, check
from lakeconf.engines.spark.versions import reads_file_with
from lakeconf.engines.spark.write.storage import run_job
from lakeconf.errors import SparkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import Lake
    from pyspark.sql import SparkSession

    from lakeconf.engines.engine import TableCheck


@pytest.fixture
def engine(spark: SparkSession, usual: Lake) -> Iterator[SparkEngine]:
    usual.run("CREATE TABLE lake.t (a BIGINT NOT NULL, b VARCHAR)", "INSERT INTO lake.t VALUES (1, 'x'), (2, 'y')")
    with usual.connection.cursor() as writer:
        writer.execute("USE lake")
        yield SparkEngine(spark, usual.reader, writer, {}, access_to(usual))


def test_frame_of_another_application_is_rejected(engine: SparkEngine, spark: SparkSession) -> None:
    frame = spark.range(2)
    assert engine.adopt(frame) is frame
    assert engine.schema(engine.adopt(pa.table({"a": [1]}))) == {"a": "BIGINT"}
    running = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: False))
    engine._session = cast("SparkSession", SimpleNamespace(sparkContext=SimpleNamespace(_jsc=running)))
    with pytest.raises(SparkError, match=r"belongs to another Spark application(.|\n)*frame\.sparkSession"):
        engine.adopt(frame)


TYPE = "VARIANT" if reads_file_with(["variant"]) else "JSON"
ROWS = f"FROM (VALUES (1, 'x', 1::{TYPE}), (2, NULL, NULL), (3, 'z', 2::{TYPE})) AS v (a, b, v)"


def checked(spark: SparkSession, lake: Lake, change: str = "") -> TableCheck:
    frame = scan(spark, lake, "t")
    table = load_table(lake.reader, "t", lake.newest)
    return check(frame.selectExpr(*change.split(";")) if change else frame, lake.reader, table, lake.newest)


def test_column_that_spark_reads_differently_is_found(spark: SparkSession, files: Lake) -> None:
    files.run(f"CREATE TABLE lake.t (a INTEGER, b VARCHAR, v {TYPE})", f"INSERT INTO lake.t {ROWS}")
    found = checked(spark, files, "a + 0 AS a;coalesce(b, '') AS b;v")
    assert [one.equal for one in found.columns] == [True, False, True]
    assert (found.columns[1].duckdb.values, found.columns[1].spark.values) == (2, 3)


def test_job_inherits_the_properties_of_the_callers_thread(spark: SparkSession) -> None:
    seen: list[Any] = []
    spark.sparkContext.setLocalProperty("spark.scheduler.pool", "planted")
    try:
        run_job(spark, lambda: seen.append(spark.sparkContext.getLocalProperty("spark.scheduler.pool")), "0a1b")
    finally:
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", None)  # type: ignore[arg-type]
    assert seen == ["planted"]
