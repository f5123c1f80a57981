"""Deleted rows are filtered out, with a bitmap lookup or a join; single fields of structs are read alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake
from jvm_calls import execution_of
from pyspark.sql.types import IntegerType, StructField, StructType
from spark_rows import assert_alike, scan

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.read import scan_source
from lakeconf.engines.spark.read.file_index import relation
from lakeconf.engines.spark.read.scan_source import _is_at_hand, bitmap_condition
from lakeconf.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from catalog_lake import AttachedLake
    from pyspark.sql import SparkSession

TABLE = "CREATE TABLE lake.t (a INTEGER, b VARCHAR)"


def fill(lake: AttachedLake, *starts: int) -> None:
    """Creates a file of 100 rows for each start."""
    lake.run(TABLE)
    for start in starts:
        lake.run(f"INSERT INTO lake.t SELECT i, 'row ' || i FROM range({start}, {start + 100}) r(i)")


def test_plan_uses_the_parametrized_delete_method(spark: SparkSession, file_lake: AttachedLake, way: str) -> None:
    fill(file_lake, 0)
    file_lake.run("DELETE FROM lake.t WHERE a < 20")
    plan = str(execution_of(scan(spark, file_lake, "t")).analyzed().toString())
    assert ("Join" in plan) == (way != "bits")


@pytest.mark.slow
@pytest.mark.prove("a join", "a join with many delete files")
@pytest.mark.usefixtures("way")
def test_deletes_in_the_first_and_last_rows_of_files(spark: SparkSession, file_lake: AttachedLake) -> None:
    fill(file_lake, 0, 1000, 2000, 3000)
    file_lake.run("DELETE FROM lake.t WHERE a % 1000 IN (0, 63, 64, 65, 99) AND a < 3000")
    file_lake.run("DELETE FROM lake.t WHERE a BETWEEN 1000 AND 1062")
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
@pytest.mark.prove("a join with many delete files", "a join")
@pytest.mark.usefixtures("way")
def test_deletes_in_the_catalog_and_in_files(spark: SparkSession, inlining_lake: AttachedLake) -> None:
    fill(inlining_lake, 0, 1000)
    inlining_lake.run("DELETE FROM lake.t WHERE a < 60", "DELETE FROM lake.t WHERE a IN (99, 1000)")
    assert_alike(spark, inlining_lake, "t")
    inlining_lake.run("CALL ducklake_flush_inlined_data('lake')", "DELETE FROM lake.t WHERE a = 1050")
    assert_alike(spark, inlining_lake, "t")


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_deletes_with_a_partition_column_named_pos(spark: SparkSession, file_lake: AttachedLake) -> None:
    file_lake.run("CREATE TABLE lake.t (pos INTEGER, b VARCHAR)", "ALTER TABLE lake.t SET PARTITIONED BY (pos)")
    file_lake.run("INSERT INTO lake.t SELECT i % 3, 'row ' || i FROM range(100) r(i)")
    file_lake.run("DELETE FROM lake.t WHERE b LIKE '%7'")
    assert_alike(spark, file_lake, "t")


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_delete_position_after_the_end_of_the_file_is_ignored(spark: SparkSession, file_lake: AttachedLake) -> None:
    fill(file_lake, 0, 1000)
    file_lake.run("DELETE FROM lake.t WHERE a = 5", "DELETE FROM lake.t WHERE a = 1005")
    for (path,) in file_lake.rows("SELECT delete_file FROM ducklake_list_files('lake', 't')"):
        named = f"SELECT unnest([file_path, file_path]) AS file_path, unnest([pos, 128]) AS pos FROM '{path}'"
        file_lake.run(
            f"CREATE OR REPLACE TEMP TABLE positions AS {named}", f"COPY positions TO '{path}' (FORMAT parquet)"
        )
        size = (file_lake.folder / path).stat().st_size
        name = path.rpartition("/")[2]
        catalog = "__ducklake_metadata_lake.ducklake_delete_file"
        file_lake.run(f"UPDATE {catalog} SET file_size_bytes = {size}, footer_size = NULL WHERE path LIKE '%{name}'")
    assert scan(spark, file_lake, "t").count() == 198


@pytest.mark.slow
def test_many_delete_files_are_read_by_several_tasks(
    spark: SparkSession, file_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(file_lake, 0, 1000, 2000)
    file_lake.run("DELETE FROM lake.t WHERE a % 10 = 0")
    monkeypatch.setattr(scan_source, "_MOST_POSITIONS", -1)
    exchanged = {}
    for most in (3, 2):
        monkeypatch.setattr(scan_source, "_FEW_FILES", most)
        plan = str(execution_of(scan(spark, file_lake, "t")).executedPlan().toString())
        exchanged[most] = "Exchange hashpartitioning(_groupingexpression" in plan
    assert exchanged == {3: False, 2: True}


NUMBERS = StructType([StructField("a", IntegerType())])
DELETES = DeleteFile("/d.parquet", "parquet", 5, 100)
FILE = DataFile(1, "/f.parquet", 10, 100, 0, 1, delete_file=DELETES)
PLAIN = replace(FILE, delete_file=None)


def test_limits_apply_to_all_files_together() -> None:
    assert _is_at_hand([PLAIN] * 500)
    assert not _is_at_hand([PLAIN] * 501)
    half = replace(PLAIN, record_count=1 << 25)
    assert _is_at_hand([half, half])
    assert not _is_at_hand([half, half, PLAIN])
    many = replace(FILE, delete_file=replace(DELETES, delete_count=2_500_000))
    assert _is_at_hand([many, many])
    assert not _is_at_hand([many, many, FILE])


@pytest.fixture
def three_files(file_lake: AttachedLake) -> AttachedLake:
    """Files with 100, 64 and 10 rows; rows deleted in two snapshots, in delete files and in the catalog."""
    file_lake.run("CREATE TABLE lake.t (a INTEGER)")
    for start, end in ((0, 100), (100, 164), (164, 174)):
        file_lake.run(f"INSERT INTO lake.t SELECT i FROM range({start}, {end}) r(i)")
    file_lake.run("DELETE FROM lake.t WHERE a IN (0, 63, 64, 99)", "DELETE FROM lake.t WHERE a IN (1, 100, 163)")
    file_lake.run("CALL lake.set_option('data_inlining_row_limit', 10)", "DELETE FROM lake.t WHERE a IN (2, 173)")
    return file_lake


def test_delete_files_are_read_once_for_a_snapshot(
    spark: SparkSession, three_files: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unread(*_: object) -> None:
        raise AssertionError

    plan, before = (plan_scan(three_files.reader, "t", three_files.newest - past) for past in (0, 2))
    assert bitmap_condition(spark, plan.files, plan.snapshot_id) is not None
    monkeypatch.setattr(scan_source, "connect", unread)
    again = plan_scan(three_files.reader, "t", three_files.newest)
    condition = bitmap_condition(spark, again.files, again.snapshot_id)
    assert condition is not None
    assert relation(spark, again.files, NUMBERS).where(condition).count() == 174 - 9
    with pytest.raises(AssertionError):
        bitmap_condition(spark, before.files, before.snapshot_id)
    (path, *_) = [file.delete_file.path for file in plan.files if file.delete_file]
    Path(path).unlink()
    with pytest.raises(StorageError, match="is missing"):
        bitmap_condition(spark, plan.files, plan.snapshot_id)


STRUCT = "STRUCT(x INTEGER, y VARCHAR)"
VALUE = "{'x': i, 'y': 'y' || i}"
ROWS = f"SELECT i, {VALUE}, {VALUE}, {VALUE}, {{'below': {VALUE}}}"
# Selected fields; the syntax is the same in DuckDB and Spark.
SELECTED = [
    ("plain.x",),
    ("renamed.x",),
    ("grown.yy", "renamed.y"),
    ("grown.x", "plain.y"),
    ("grown.z", "plain.x"),
    ("a", "grown.yy", "deep.below.w"),
]


@pytest.fixture(scope="module")
def structs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttachedLake]:
    """Tables with unchanged structs, renamed structs and structs with an added field; `deleted` has deleted rows."""
    folder: Path = tmp_path_factory.mktemp("structs")
    with lake("duckdb", folder, options=", DATA_INLINING_ROW_LIMIT 0") as source:
        for table in ("whole", "deleted"):
            columns = f"a INTEGER, plain {STRUCT}, s {STRUCT}, grown {STRUCT}, deep STRUCT(below {STRUCT})"
            source.run(
                f"CREATE TABLE lake.{table} ({columns})",
                f"INSERT INTO lake.{table} {ROWS} FROM range(50) r(i)",
                f"ALTER TABLE lake.{table} RENAME s TO renamed",
                f"ALTER TABLE lake.{table} ADD COLUMN grown.z INTEGER DEFAULT 4",
                f"ALTER TABLE lake.{table} RENAME grown.y TO yy",
                f"ALTER TABLE lake.{table} RENAME deep.below.x TO w",
            )
        source.run("DELETE FROM lake.deleted WHERE a % 7 = 1")
        yield source


@pytest.mark.slow
@pytest.mark.parametrize("selected", SELECTED, ids=" ".join)
@pytest.mark.parametrize("table", ["whole", "deleted"])
def test_single_struct_fields_are_read(
    spark: SparkSession, structs: AttachedLake, table: str, selected: tuple[str, ...]
) -> None:
    found = scan(spark, structs, table).selectExpr(*selected).collect()
    expected = structs.rows(f"SELECT {', '.join(selected)} FROM lake.{table}")
    assert sorted(map(tuple, found)) == sorted(expected)


@pytest.mark.slow
def test_whole_struct_and_a_single_field_are_read_together(spark: SparkSession, structs: AttachedLake) -> None:
    found = scan(spark, structs, "whole").where("a = 3").selectExpr("to_json(grown)", "plain.x").collect()
    assert [tuple(row) for row in found] == [('{"x":3,"yy":"y3","z":4}', 3)]
