"""The list of files of a relation does not change when Spark refreshes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.read.file_index import with_fixed_files

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def relation(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A relation over two files of three rows."""
    for number in range(2):
        spark.range(3 * number, 3 * number + 3, 1, 1).write.parquet(f"{tmp_path}/t/{number}")
    return spark.read.parquet(f"{tmp_path}/t/0", f"{tmp_path}/t/1")


def test_rows_and_facts_of_the_relation_are_kept(relation: DataFrame) -> None:
    fixed = with_fixed_files(relation)
    assert sorted(row.id for row in fixed.collect()) == list(range(6))
    assert sorted(fixed.inputFiles()) == sorted(relation.inputFiles())
    assert fixed.where("id = 4").select("_metadata.file_name").count() == 1
    before, after = (each._jdf.queryExecution().analyzed().relation() for each in (relation, fixed))
    assert after.location().sizeInBytes() == before.location().sizeInBytes()
    assert str(after.location().partitionSchema()) == str(before.location().partitionSchema())
    assert str(after.location().rootPaths()) == str(before.location().rootPaths())


def test_missing_file_fails_the_job_after_a_refresh(spark: SparkSession, relation: DataFrame, tmp_path: Path) -> None:
    fixed = with_fixed_files(relation)
    (path,) = (tmp_path / "t" / "0").glob("part-*.parquet")
    path.unlink()
    spark.catalog.refreshByPath(f"{tmp_path}/t/0")
    fixed.createOrReplaceTempView("fixed")
    spark.sql("REFRESH TABLE fixed")
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|FileNotFound"):
        fixed.collect()


def test_same_files_are_equal(spark: SparkSession, relation: DataFrame, tmp_path: Path) -> None:
    """Spark reuses and caches plans that are equal."""
    first, second = (with_fixed_files(relation)._jdf.queryExecution().analyzed().relation().location() for _ in "ab")
    assert first.equals(second)
    assert first.hashCode() == second.hashCode()
    assert first.toString() == second.toString()
    one = spark.read.parquet(f"{tmp_path}/t/0")
    other = with_fixed_files(one)._jdf.queryExecution().analyzed().relation().location()
    assert not first.equals(other)
    assert not other.equals(one._jdf.queryExecution().analyzed().relation().location())
