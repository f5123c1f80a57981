"""Deleted rows are filtered out, with a bitmap lookup for each row or a join with the deleted rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spark_rows import assert_alike, scan

from lakeconf.engines.spark.read import scan_source

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession

JOIN = "a join"
TABLE = "CREATE TABLE lake.t (a INTEGER, b VARCHAR)"


@pytest.fixture(params=["bits", JOIN])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The method that filters out deleted rows; a join is used for large numbers of them."""
    if request.param == JOIN:
        monkeypatch.setattr(scan_source, "_MOST_POSITIONS", -1)
    return str(request.param)


def fill(lake: Lake, *starts: int) -> None:
    """Creates a file of 100 rows for each start."""
    lake.run(TABLE)
    for start in starts:
        lake.run(f"INSERT INTO lake.t SELECT i, 'row ' || i FROM range({start}, {start + 100}) r(i)")


def test_plan_uses_the_parametrized_delete_method(spark: SparkSession, files: Lake, way: str) -> None:
    fill(files, 0)
    files.run("DELETE FROM lake.t WHERE a < 20")
    plan = str(scan(spark, files, "t")._jdf.queryExecution().analyzed().toString())
    assert ("Join" in plan) == (way == JOIN)


def test_deletes_in_the_first_and_last_rows_of_files(spark: SparkSession, files: Lake, way: str) -> None:
    assert way
    fill(files, 0, 1000, 2000, 3000)
    files.run("DELETE FROM lake.t WHERE a % 1000 IN (0, 63, 64, 65, 99) AND a < 3000")
    files.run("DELETE FROM lake.t WHERE a BETWEEN 1000 AND 1062")
    assert_alike(spark, files, "t")


def test_deletes_of_several_snapshots_in_one_file(spark: SparkSession, files: Lake, way: str) -> None:
    assert way
    fill(files, 0, 100)
    files.run("DELETE FROM lake.t WHERE a IN (3, 103)", "DELETE FROM lake.t WHERE a IN (4, 70, 104)")
    files.run("CALL ducklake_merge_adjacent_files('lake')", "DELETE FROM lake.t WHERE a = 150")
    assert_alike(spark, files, "t")


def test_deletes_in_the_catalog_and_in_files(spark: SparkSession, usual: Lake, way: str) -> None:
    assert way
    fill(usual, 0, 1000)
    usual.run("DELETE FROM lake.t WHERE a < 60", "DELETE FROM lake.t WHERE a IN (99, 1000)")
    assert_alike(spark, usual, "t")
    usual.run("CALL ducklake_flush_inlined_data('lake')", "DELETE FROM lake.t WHERE a = 1050")
    assert_alike(spark, usual, "t")


def test_deletes_with_a_partition_column_named_pos(spark: SparkSession, files: Lake, way: str) -> None:
    assert way
    files.run("CREATE TABLE lake.t (pos INTEGER, b VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (pos)")
    files.run("INSERT INTO lake.t SELECT i % 3, 'row ' || i FROM range(100) r(i)")
    files.run("DELETE FROM lake.t WHERE b LIKE '%7'")
    assert_alike(spark, files, "t")


def test_delete_position_after_the_end_of_the_file_is_ignored(spark: SparkSession, files: Lake, way: str) -> None:
    assert way
    fill(files, 0, 1000)
    files.run("DELETE FROM lake.t WHERE a = 5", "DELETE FROM lake.t WHERE a = 1005")
    for (path,) in files.rows("SELECT delete_file FROM ducklake_list_files('lake', 't')"):
        named = f"SELECT unnest([file_path, file_path]) AS file_path, unnest([pos, 128]) AS pos FROM '{path}'"
        files.run(f"CREATE OR REPLACE TEMP TABLE positions AS {named}", f"COPY positions TO '{path}' (FORMAT parquet)")
        size = (files.folder / path).stat().st_size
        name = path.rpartition("/")[2]
        catalog = "__ducklake_metadata_lake.ducklake_delete_file"
        files.run(f"UPDATE {catalog} SET file_size_bytes = {size}, footer_size = NULL WHERE path LIKE '%{name}'")
    assert scan(spark, files, "t").count() == 198


def test_many_delete_files_are_read_by_several_tasks(
    spark: SparkSession, files: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(files, 0, 1000, 2000)
    files.run("DELETE FROM lake.t WHERE a % 10 = 0")
    monkeypatch.setattr(scan_source, "_MOST_POSITIONS", -1)
    exchanged = {}
    for most in (3, 2):
        monkeypatch.setattr(scan_source, "_FEW_FILES", most)
        plan = str(scan(spark, files, "t")._jdf.queryExecution().executedPlan().toString())
        exchanged[most] = "Exchange hashpartitioning(_groupingexpression" in plan
    assert exchanged == {3: False, 2: True}
