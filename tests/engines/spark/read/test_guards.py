"""A frame whose files change gives the same rows or an error; a relation has exactly the files of its plan."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from jvm_calls import execution_of
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import LongType, StructField, StructType
from spark_rows import scan

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.internals import with_file_index
from lakeconf.engines.spark.read import scan_source
from lakeconf.engines.spark.read.file_index import in_texts, relation
from lakeconf.engines.spark.read.scan_source import check_types, file_number, of_file
from lakeconf.errors import StorageError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_lake import AttachedLake
    from pyspark.sql import DataFrame, SparkSession


def with_deletes(lake: AttachedLake) -> list[str]:
    """Creates two files of the same size with different deleted rows, and returns their paths."""
    lake.run("CREATE TABLE lake.t (a INTEGER)")
    lake.run(*(f"INSERT INTO lake.t SELECT i FROM range({start}, {start + 100}) r(i)" for start in (1000, 2000)))
    lake.run("DELETE FROM lake.t WHERE a < 1010", "DELETE FROM lake.t WHERE a >= 2050")
    return [path for (path,) in lake.rows("SELECT data_file FROM ducklake_list_files('lake', 't') ORDER BY ALL")]


def expected(lake: AttachedLake) -> list[tuple[int, ...]]:
    return sorted(lake.rows("SELECT a FROM lake.t"))


def refresh(spark: SparkSession, frame: DataFrame, lake: AttachedLake) -> None:
    frame.createOrReplaceTempView("refreshed")
    spark.sql("REFRESH TABLE refreshed")
    spark.catalog.refreshTable("refreshed")
    spark.catalog.refreshByPath(str(lake.folder / "data"))


@pytest.mark.slow
@pytest.mark.prove("a join", "a join with many delete files")
@pytest.mark.usefixtures("way")
def test_changed_modification_times_do_not_change_the_rows(spark: SparkSession, file_lake: AttachedLake) -> None:
    paths = with_deletes(file_lake)
    frame, with_ids = scan(spark, file_lake, "t"), scan(spark, file_lake, "t", row_ids=True)
    assert len({Path(path).stat().st_size for path in paths}) == 1
    # The first file gets the former time of the second one, as after restoring a backup.
    second = Path(paths[1]).stat().st_mtime
    os.utime(paths[1], (second + 1000, second + 1000))
    os.utime(paths[0], (second, second))
    refresh(spark, frame, file_lake)
    assert sorted(map(tuple, frame.collect())) == expected(file_lake)
    assert sorted(map(tuple, spark.table("refreshed").collect())) == expected(file_lake)
    refresh(spark, with_ids, file_lake)
    assert sorted(map(tuple, with_ids.select("a").collect())) == expected(file_lake)
    assert sorted(map(tuple, scan(spark, file_lake, "t").collect())) == expected(file_lake)


@pytest.mark.slow
def test_file_missing_after_a_refresh_raises_an_error(spark: SparkSession, file_lake: AttachedLake) -> None:
    """When Spark refreshes, it drops missing files from its list, and would then read fewer rows."""
    paths = with_deletes(file_lake)
    frame = scan(spark, file_lake, "t")
    os.unlink(paths[0])
    refresh(spark, frame, file_lake)
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|FileNotFound"):
        frame.collect()


@pytest.mark.slow
@pytest.mark.usefixtures("way")
def test_row_of_an_unknown_file_raises_an_error(
    spark: SparkSession, file_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates that Spark reads a file that is not in its list: its number is its modification time."""
    with_deletes(file_lake)
    monkeypatch.setattr(scan_source, "_NUMBER", f"({scan_source._NUMBER} + 1700000000000)")
    frame = scan(spark, file_lake, "t")
    actions: list[Callable[[], object]] = [frame.collect, frame.count]
    for action in (*actions, frame.where("a > 1500").select(F.max("a")).collect):
        with pytest.raises(Exception, match="not in the plan of this scan"):
            action()


@pytest.mark.slow
def test_unknown_delete_file_raises_an_error(
    spark: SparkSession, file_lake: AttachedLake, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_deletes(file_lake)
    planned = plan_scan(file_lake.reader, "t", file_lake.newest).files
    bases = {file.delete_file: 0 for file in planned if file.delete_file is not None}
    assert len(scan_source._in_files(spark, bases, file_lake.newest).collect()) == 60
    monkeypatch.setattr(scan_source, "_NUMBER", f"({scan_source._NUMBER} + 1)")
    with pytest.raises(Exception, match="not in the plan of this scan"):
        scan_source._in_files(spark, bases, file_lake.newest).collect()


def test_part_with_a_different_type_is_rejected(spark: SparkSession) -> None:
    planned = spark.range(1).selectExpr("id", "current_timestamp() AS moment")
    same = spark.range(1).selectExpr("CAST(NULL AS BIGINT) AS id", "current_timestamp() AS moment")
    check_types(spark, [planned, same], planned.schema)
    for other in ("id", "timestamp_ntz '2026-01-01 00:00:00' AS moment"), ("id", "current_timestamp() AS Moment"):
        with pytest.raises(UnsupportedError, match="but the table is"):
            check_types(spark, [planned, spark.range(1).selectExpr(*other)], planned.schema)


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


@pytest.mark.slow
def test_relation_has_the_files_of_the_plan_in_their_order(private: SparkSession, written: list[Planned]) -> None:
    for files in (written, written[::-1]):
        rows = relation(private, files, NUMBERS).select("id", file_number(), of_file(private, [7, 8]))
        numbers = [number for number, file in enumerate(files) for _ in range(1 + written.index(file))]
        assert sorted(tuple(row)[1:] for row in rows.collect()) == [(number, 7 + number) for number in numbers]


@pytest.mark.slow
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
def uris(spark: SparkSession, tmp_path: Path) -> list[tuple[str, int]]:
    """Three files of three rows: their URIs and sizes."""
    found = []
    for number in range(3):
        spark.range(3 * number, 3 * number + 3, 1, 1).write.parquet(f"{tmp_path}/t/{number}")
        (part,) = (tmp_path / "t" / str(number)).glob("part-*.parquet")
        found.append((f"file://{part}", part.stat().st_size))
    return found


def over(spark: SparkSession, uris: list[tuple[str, int]]) -> DataFrame:
    return with_file_index(spark.read.schema("id BIGINT").parquet(), in_texts(uris, 10_000))


@pytest.mark.slow
@pytest.mark.parametrize("refreshed", [False, True])
def test_missing_file_fails_the_job(spark: SparkSession, uris: list[tuple[str, int]], *, refreshed: bool) -> None:
    planned = over(spark, uris)
    planned.createOrReplaceTempView("planned")
    Path(uris[1][0].removeprefix("file://")).unlink()
    if refreshed:
        spark.catalog.refreshByPath(uris[1][0])
        spark.sql("REFRESH TABLE planned")
    with pytest.raises(Exception, match="is missing, but the catalog lists it"):
        spark.table("planned").count()


@pytest.mark.slow
def test_another_parquet_file_in_place_of_the_planned_one_fails_the_job(
    spark: SparkSession, uris: list[tuple[str, int]]
) -> None:
    planned = over(spark, uris)
    spark.range(100).coalesce(1).write.parquet(uris[0][0] + ".other")
    (other,) = Path(uris[0][0].removeprefix("file://") + ".other").glob("part-*.parquet")
    other.replace(uris[1][0].removeprefix("file://"))
    with pytest.raises(Exception, match=r"bytes, but the catalog says \d+: it was truncated or replaced"):
        planned.count()


@pytest.mark.slow
def test_scan_of_the_same_files_is_exchanged_once(spark: SparkSession, uris: list[tuple[str, int]]) -> None:
    planned = over(spark, uris)
    sums = planned.groupBy((planned.id % 2).alias("k")).sum("id")
    joined = sums.join(over(spark, uris).groupBy("id").count().limit(1), sums.k == 0).unionAll(
        sums.join(over(spark, uris).groupBy("id").count().limit(1), sums.k == 0)
    )
    joined.collect()
    assert "ReusedExchange" in execution_of(joined).executedPlan().toString()


@pytest.mark.slow
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
