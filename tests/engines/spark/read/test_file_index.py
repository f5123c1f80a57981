"""The files of a relation are those of the plan; their sizes are compared when an action needs them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.internals import with_file_index
from lakeconf.engines.spark.read.file_index import in_texts
from lakeconf.engines.spark.read.scan_source import file_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def files(spark: SparkSession, tmp_path: Path) -> list[tuple[str, int]]:
    """Three files of three rows: their URIs and sizes."""
    found = []
    for number in range(3):
        spark.range(3 * number, 3 * number + 3, 1, 1).write.parquet(f"{tmp_path}/t/{number}")
        (part,) = (tmp_path / "t" / str(number)).glob("part-*.parquet")
        found.append((f"file://{part}", part.stat().st_size))
    return found


def over(spark: SparkSession, files: list[tuple[str, int]]) -> DataFrame:
    return with_file_index(spark.read.schema("id BIGINT").parquet(), in_texts(files, 10_000))


def index_of(frame: DataFrame) -> object:
    return frame._jdf.queryExecution().analyzed().relation().location()


def test_rows_and_facts_are_those_of_the_files(spark: SparkSession, files: list[tuple[str, int]]) -> None:
    planned = over(spark, files[:2])
    listed = spark.read.parquet(*(uri for uri, _ in files[:2]))
    assert sorted(row.id for row in planned.collect()) == list(range(6))
    assert sorted(planned.inputFiles()) == sorted(uri for uri, _ in files[:2])
    assert planned.where("id = 4").select("_metadata.file_name").count() == 1
    before, after = index_of(listed), index_of(planned)
    assert after.sizeInBytes() == before.sizeInBytes()  # type: ignore[attr-defined]
    assert str(after.partitionSchema()) == str(before.partitionSchema())  # type: ignore[attr-defined]
    assert str(after.rootPaths().mkString()) == str(before.rootPaths().mkString())  # type: ignore[attr-defined]


@pytest.mark.parametrize("refreshed", [False, True])
def test_missing_file_fails_the_job(spark: SparkSession, files: list[tuple[str, int]], *, refreshed: bool) -> None:
    planned = over(spark, files)
    planned.createOrReplaceTempView("planned")
    Path(files[1][0].removeprefix("file://")).unlink()
    if refreshed:
        spark.catalog.refreshByPath(files[1][0])
        spark.sql("REFRESH TABLE planned")
    with pytest.raises(Exception, match="is missing, but the catalog lists it"):
        spark.table("planned").count()


def test_file_that_is_missing_after_the_first_action_fails_the_job(
    spark: SparkSession, files: list[tuple[str, int]]
) -> None:
    planned = over(spark, files)
    assert planned.count() == 9
    Path(files[1][0].removeprefix("file://")).unlink()
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|FileNotFound"):
        planned.select("id").collect()


def test_another_parquet_file_in_place_of_the_planned_one_fails_the_job(
    spark: SparkSession, files: list[tuple[str, int]]
) -> None:
    planned = over(spark, files)
    spark.range(100).coalesce(1).write.parquet(files[0][0] + ".other")
    (other,) = Path(files[0][0].removeprefix("file://") + ".other").glob("part-*.parquet")
    other.replace(files[1][0].removeprefix("file://"))
    with pytest.raises(Exception, match=r"bytes, but the catalog says \d+: it was truncated or replaced"):
        planned.count()


def test_same_files_are_equal(spark: SparkSession, files: list[tuple[str, int]]) -> None:
    """Spark reuses and caches plans that are equal."""
    first, second = index_of(over(spark, files)), index_of(over(spark, files))
    assert first.equals(second)  # type: ignore[attr-defined]
    assert first.hashCode() == second.hashCode()  # type: ignore[attr-defined]
    assert first.toString() == second.toString() == "PlannedFiles(3 files)"  # type: ignore[attr-defined]
    (uri, size), *others = files
    for different in (others, [(uri, size + 1), *others], [*others, (uri, size)], [(uri + "2", size), *others]):
        assert not first.equals(index_of(over(spark, different)))  # type: ignore[attr-defined]
    assert not first.equals(index_of(spark.read.parquet(uri)))  # type: ignore[attr-defined]


def test_scan_of_the_same_files_is_exchanged_once(spark: SparkSession, files: list[tuple[str, int]]) -> None:
    planned = over(spark, files)
    sums = planned.groupBy((planned.id % 2).alias("k")).sum("id")
    joined = sums.join(over(spark, files).groupBy("id").count().limit(1), sums.k == 0).unionAll(
        sums.join(over(spark, files).groupBy("id").count().limit(1), sums.k == 0)
    )
    joined.collect()
    assert "ReusedExchange" in joined._jdf.queryExecution().executedPlan().toString()


def test_numbers_of_many_files_are_those_of_the_list(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).coalesce(1).write.parquet(f"{tmp_path}/t")
    (part,) = (tmp_path / "t").glob("part-*.parquet")
    for number in range(1100):
        (tmp_path / f"{number}.parquet").hardlink_to(part)
    size = part.stat().st_size
    listed = over(spark, [(f"file://{tmp_path}/{number}.parquet", size) for number in range(1100)])
    found = listed.select(file_number().alias("number"), "_metadata.file_name").coalesce(2).collect()
    assert len(found) == 1100
    assert all(row.file_name == f"{row.number}.parquet" for row in found)


def test_texts_have_a_number_of_files() -> None:
    assert in_texts([("a", 1), ("b", 2), ("c", 3)], 2) == ["1\0a\0" + "2\0b\0", "3\0c\0"]
    assert in_texts([], 2) == []
