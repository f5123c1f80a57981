"""Files of a job are those that its tasks report, in their final place from the beginning."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark import TaskContext

from lakeconf.engines.spark.internals import written_files
from lakeconf.engines.spark.write.files import writing_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

OPTIONS = {"compression": "zstd"}


def write(frame: DataFrame, folder: Path, *by: str) -> list[Path]:
    files = written_files(frame, f"file://{folder}/", OPTIONS, by)
    assert all(file.startswith("file:/") for file in files)
    return [Path(file.removeprefix("file:")) for file in files]


def left_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_each_task_writes_a_file_with_all_its_rows(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "%20 é =%41" / "new"
    files = write(spark.range(0, 10, 1, 2), folder)
    assert [pq.read_table(file)["id"].to_pylist() for file in files] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert left_in(folder) == files


def test_files_without_a_report_are_removed(spark: SparkSession, tmp_path: Path) -> None:
    """An attempt whose executor is killed leaves its files: complete, incomplete, and temporary ones."""
    folder, foreign = tmp_path / "new", tmp_path / "foreign.parquet"
    pq.write_table(pa.table({"id": [100]}), foreign)

    def left_by_another_attempt(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        number = TaskContext.get().partitionId()  # type: ignore[union-attr]
        for name in (f"part-0000{number}-0a1b-c000.zstd.parquet", "_temporary/0/part.parquet", "_SUCCESS"):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(foreign, folder / name)
        yield from batches

    files = write(spark.range(0, 10, 1, 2).mapInArrow(left_by_another_attempt, "id BIGINT"), folder)
    assert sorted(id_ for file in files for id_ in pq.read_table(file)["id"].to_pylist()) == list(range(10))
    assert left_in(folder) == files


def test_each_file_has_rows_with_the_same_values_of_the_separating_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 30, 1, 2).selectExpr("id", "id % 3 AS part", "id % 2 AS side")
    files = write(frame, tmp_path / "new", "part", "side")
    found = [pq.read_table(file, partitioning=None) for file in files]
    assert [table.column_names for table in found] == [["id"]] * 12
    assert [len({(id_ % 3, id_ % 2) for id_ in table["id"].to_pylist()}) for table in found] == [1] * 12
    assert sorted(id_ for table in found for id_ in table["id"].to_pylist()) == list(range(30))


def test_a_frame_without_rows_has_no_file_for_a_partition(spark: SparkSession, tmp_path: Path) -> None:
    assert write(spark.range(0).selectExpr("id", "id AS part"), tmp_path / "new", "part") == []


def test_existing_folder_is_refused_and_keeps_its_files(spark: SparkSession, tmp_path: Path) -> None:
    before = write(spark.range(1), tmp_path / "new")
    with pytest.raises(Py4JJavaError, match="the staging folder exists"):
        write(spark.range(2), tmp_path / "new")
    assert left_in(tmp_path / "new") == before


def test_failed_job_reports_nothing(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(0, 10, 1, 2).selectExpr("if(id = 9, raise_error('planted'), id) AS id")
    with pytest.raises(Exception, match="planted"):
        write(frame, tmp_path / "new")


def test_job_runs_with_the_settings_of_the_frames_session(spark: SparkSession, tmp_path: Path) -> None:
    private = writing_session(spark)
    for name, value in {"shuffle.partitions": "5", "adaptive.enabled": "false"}.items():
        private.conf.set(f"spark.sql.{name}", value)
    assert len(write(private.range(100).repartition("id"), tmp_path / "new")) == 5
    assert spark.conf.get("spark.sql.shuffle.partitions") != "5"
