from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import IntegerType, StructField, StructType

from lakeconf.catalog.scan import plan_scan
from lakeconf.engines.spark.read.scan_source import ClassicSource

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


def test_contents_are_those_of_each_file(private: SparkSession, files: Lake) -> None:
    files.run(
        "CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)", "ALTER TABLE lake.t ADD COLUMN b DATE"
    )
    files.run("INSERT INTO lake.t VALUES (2, NULL)")
    plan = plan_scan(files.reader, "t", files.newest)
    source = ClassicSource(private)
    found = source.contents(plan.files)
    assert [[field.name for field in found[file.path].children] for file in plan.files] == [["a"], ["a", "b"]]
    assert source.contents([]) == {}


def test_relation_without_filters_has_a_session_without_pushdown(private: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t AS SELECT 1 AS a")
    plan = plan_scan(files.reader, "t", files.newest)
    source = ClassicSource(private)
    schema = StructType([StructField("a", IntegerType())])
    for can_filter, expected in ((True, "true"), (False, "false")):
        reader = source.relation(plan.files, schema, can_filter=can_filter).sparkSession
        assert reader.conf.get("spark.sql.parquet.filterPushdown") == expected


def test_shared_tasks_are_a_broadcast(private: SparkSession) -> None:
    assert ClassicSource(private).shared([1, 2]).value == [1, 2]
