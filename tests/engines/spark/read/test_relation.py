"""A relation has exactly the files of the plan, in their order."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql.types import LongType, StructField, StructType

from lakeconf.engines.spark.internals import with_file_index
from lakeconf.engines.spark.read.file_index import in_texts, relation
from lakeconf.engines.spark.read.scan_source import file_number, of_file
from lakeconf.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


NUMBERS = StructType([StructField("id", LongType())])


@dataclass(frozen=True)
class Planned:
    """A file of a plan."""

    path: str
    file_size_bytes: int


def planned(path: Path) -> Planned:
    return Planned(str(path), path.stat().st_size)


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> list[Planned]:
    """Two files with unusual names and different sizes."""
    folder = tmp_path_factory.mktemp("files")
    names = ("a b%20+ü [1]{x}.parquet", "c:d.parquet")
    files = []
    for number, name in enumerate(names, start=1):
        spark.range(number).coalesce(1).write.parquet(f"{folder}/{number}")
        (part,) = (folder / str(number)).glob("part-*.parquet")
        files.append(planned(part.rename(folder / name)))
    return files


def test_relation_has_the_files_of_the_plan_in_their_order(private: SparkSession, written: list[Planned]) -> None:
    for files in (written, written[::-1]):
        rows = relation(private, files, NUMBERS).select("id", file_number(), of_file(private, [7, 8]))
        numbers = [number for number, file in enumerate(files) for _ in range(1 + written.index(file))]
        assert sorted(tuple(row)[1:] for row in rows.collect()) == [(number, 7 + number) for number in numbers]


def test_names_of_files_in_rows_are_those_of_spark(private: SparkSession, written: list[Planned]) -> None:
    paths = [file.path for file in written]
    selected = ["input_file_name()", "_metadata.file_path", "_metadata.file_name", "_metadata.file_size"]
    ours = relation(private, written, NUMBERS).selectExpr(*selected).distinct().collect()
    escaped = [path.replace("[", r"\[").replace("{", r"\{").replace("]", r"\]").replace("}", r"\}") for path in paths]
    checked = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}
    assert sorted(ours) == sorted(
        private.read.options(**checked).parquet(*escaped).selectExpr(*selected).distinct().collect()
    )


def test_files_that_spark_would_not_read_as_planned_are_refused(
    private: SparkSession, written: list[Planned], tmp_path: Path
) -> None:
    """Spark would skip an empty file, and read the files in a folder."""
    first, size = written[0].path, written[0].file_size_bytes
    folder, empty = tmp_path / "a.parquet", tmp_path / "empty.parquet"
    empty.touch()
    folder.mkdir()
    (folder / "b.parquet").write_bytes(Path(first).read_bytes())
    for other, error, message in (
        (planned(empty), StorageError, "no Parquet file is so small"),
        (Planned(first.replace("/a b", "//./a b"), size), UnsupportedError, "lists a file of the table twice"),
        (Planned(str(folder), size), StorageError, "truncated or replaced"),
    ):
        with pytest.raises(error, match=message):
            relation(private, [*written, other], NUMBERS)
    with pytest.raises(Exception, match="FILE_NOT_EXIST"):
        relation(private, [written[1], planned(folder)], NUMBERS).collect()


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


def test_another_parquet_file_in_place_of_the_planned_one_fails_the_job(
    spark: SparkSession, files: list[tuple[str, int]]
) -> None:
    planned = over(spark, files)
    spark.range(100).coalesce(1).write.parquet(files[0][0] + ".other")
    (other,) = Path(files[0][0].removeprefix("file://") + ".other").glob("part-*.parquet")
    other.replace(files[1][0].removeprefix("file://"))
    with pytest.raises(Exception, match=r"bytes, but the catalog says \d+: it was truncated or replaced"):
        planned.count()


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
