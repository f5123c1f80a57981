"""The Spark engine scans and stages with the user's session, and accepts only frames of its application."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from spark_rows import access_to

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.catalog.tables import load_table
from lakeconf.engines.engine import FILE_ID, FILE_ROW_NUMBER, ROW_ID, SparkOperations, StagingRequest
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.errors import SchemaError, SparkError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import Lake
    from pyspark.sql import SparkSession


@pytest.fixture
def engine(spark: SparkSession, usual: Lake) -> Iterator[SparkEngine]:
    usual.run("CREATE TABLE lake.t (a BIGINT NOT NULL, b VARCHAR)", "INSERT INTO lake.t VALUES (1, 'x'), (2, 'y')")
    with usual.connection.cursor() as writer:
        writer.execute("USE lake")
        yield SparkEngine(spark, usual.reader, writer, {}, access_to(usual))


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.to_native().collect()))


def test_scans_select_columns_and_rows(engine: SparkEngine, usual: Lake, spark: SparkSession) -> None:
    assert isinstance(engine, SparkOperations)
    assert engine.details() == {"spark": spark.version, "application_id": spark.sparkContext.applicationId}
    assert rows(engine.scan("t", usual.newest, ["B"], "a > 1")) == [("y",)]
    assert rows(engine.scan("t", usual.newest, ["b", "a"])) == [("x", 1), ("y", 2)]
    found = engine.scan_rows("t", usual.newest, "b = 'y'")
    assert found.collect_schema().names() == [ROW_ID, FILE_ID, FILE_ROW_NUMBER, "a", "b"]
    assert rows(found) == [(1, None, None, 2, "y")]


def test_rows_are_found_by_file_and_position(engine: SparkEngine, usual: Lake, spark: SparkSession) -> None:
    usual.run(
        "CREATE TABLE lake.many (a BIGINT, b VARCHAR)", "INSERT INTO lake.many SELECT i, i FROM range(20) AS r(i)"
    )
    usual.run("DELETE FROM lake.many WHERE a = 7", "INSERT INTO lake.many VALUES (8, 'inlined')")
    plan = plan_scan(usual.reader, "many", usual.newest, ["a"], "a > 5 AND a < 9")
    found = engine.find_rows(plan).to_native()
    assert (found.columns, found.sparkSession) == ([ROW_ID, FILE_ID, FILE_ROW_NUMBER], spark)
    ((file,),) = usual.metadata("SELECT data_file_id FROM ducklake_data_file")
    query = f"SELECT rowid, {file}, file_row_number FROM lake.many WHERE a IN (6, 8) AND b != 'inlined'"
    assert sorted(map(tuple, found.collect())) == sorted(usual.rows(query))


def test_frame_of_another_application_is_rejected(engine: SparkEngine, spark: SparkSession) -> None:
    frame = spark.range(2)
    assert engine.adopt(frame) is frame
    assert engine.schema(engine.adopt(pa.table({"a": [1]}))) == {"a": "BIGINT"}
    engine._spark = type("Other", (), {"sparkContext": object()})()
    with pytest.raises(SparkError, match=r"belongs to another Spark application(.|\n)*frame\.sparkSession"):
        engine.adopt(frame)


def test_manifest_exists_until_the_release(engine: SparkEngine, usual: Lake, spark: SparkSession) -> None:
    request = StagingRequest(load_table(usual.reader, "t", usual.newest), {"a": "BIGINT", "b": "VARCHAR"}, "0a1b")
    staged = engine.stage(spark.range(3).selectExpr("id AS a", "'x' AS b"), request)
    assert sorted(path.name for path in usual.folder.rglob("lakeconf-*")) == ["lakeconf-0a1b", "lakeconf-0a1b.parquet"]
    engine.release(staged)
    assert [path.name for path in usual.folder.rglob("lakeconf-*")] == ["lakeconf-0a1b"]


@pytest.mark.parametrize("keeps_files", [True, False])
def test_release_removes_the_folder_of_files_that_were_moved(
    engine: SparkEngine, usual: Lake, spark: SparkSession, keeps_files: bool
) -> None:
    usual.run("CREATE TABLE lake.p (a BIGINT, b VARCHAR)", "ALTER TABLE lake.p SET PARTITIONED BY (b)")
    request = StagingRequest(load_table(usual.reader, "p", usual.newest), {"a": "BIGINT", "b": "VARCHAR"}, "0a1b")
    staged = engine.stage(spark.sql("SELECT 1L AS a, 'x' AS b UNION ALL SELECT 2L, 'NULL'"), request)
    assert [path.rpartition("/p/")[2] for path in staged.files] == ["b=x/lakeconf-0a1b-0.parquet"]
    assert staged.placed_files == staged.files
    assert engine._writer.rows(f"SELECT * FROM ({staged.rest})") == [(2, "NULL")]
    assert sorted(engine._writer.rows(f"SELECT * FROM ({staged.source})")) == [(1, "x"), (2, "NULL")]
    assert (staged.row_count, len(list(usual.folder.rglob("lakeconf-0a1b/*/*.parquet")))) == (2, 1)
    engine.release(replace(staged, keeps_files=keeps_files))
    left = [str(path).rpartition("/p/")[2] for path in usual.folder.rglob("lakeconf-*")]
    assert left == (["b=x/lakeconf-0a1b-0.parquet"] if keeps_files else [])


def test_failed_staging_leaves_nothing(engine: SparkEngine, usual: Lake, spark: SparkSession) -> None:
    request = StagingRequest(load_table(usual.reader, "t", usual.newest), {"a": "BIGINT", "b": "VARCHAR"}, "0a1b")
    with pytest.raises(SchemaError, match="NOT NULL"):
        engine.stage(spark.range(1).selectExpr("CAST(NULL AS BIGINT) AS a", "'x' AS b"), request)
    assert not list(usual.folder.rglob("lakeconf-*"))
