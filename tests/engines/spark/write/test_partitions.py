"""Footers prove the folder of a file; the files of a job are those that its tasks report."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import TaskContext

from lakeconf.catalog.data_file import FolderKey
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.internals import written_files
from lakeconf.engines.spark.write.files import folders, writing_session
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake, Store


DAY = FolderKey("day", Column(1, "day", "date", nullable=True, initial_default=None), "identity")
KIND = FolderKey("kind", Column(2, "kind", "varchar", nullable=True, initial_default=None), "identity")


@pytest.mark.parametrize(
    ("others", "folder"),
    [("false", "day=2024-01-01/"), ("i >= 4096", None), ("i = 3000", None), ("nullif(i = 3000, true)", None)],
)
def test_footer_proves_the_folder_of_several_row_groups(tmp_path: Path, others: str, folder: str | None) -> None:
    path = f"{tmp_path}/file.parquet"
    query = f"SELECT DATE '2024-01-01' + ({others})::INTEGER AS day FROM range(5000) AS r(i)"
    with connect() as writer:
        writer.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
        assert writer.rows(f"SELECT count(DISTINCT row_group_id) > 1 FROM parquet_metadata('{path}')") == [(True,)]
        assert folders(writer, [path], [DAY]).get(path) == folder


@pytest.mark.parametrize(("length", "found"), [(250, 1), (251, 0)])
def test_folder_has_a_name_that_file_systems_allow(tmp_path: Path, length: int, found: int) -> None:
    path = f"{tmp_path}/file.parquet"
    with connect() as writer:
        writer.execute(f"COPY (SELECT '{'x' * length}' AS kind) TO '{path}' (FORMAT parquet)")
        assert len(folders(writer, [path], [KIND])) == found


def test_collation_of_the_connection_does_not_merge_values(tmp_path: Path) -> None:
    path = f"{tmp_path}/file.parquet"
    with connect() as writer:
        writer.execute("SET default_collation = 'NOCASE'")
        writer.execute(f"COPY (SELECT unnest(['A', 'a']) AS kind) TO '{path}' (FORMAT parquet)")
        assert folders(writer, [path], [KIND]) == {}


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    with store.open(spark) as lake:
        yield lake


def test_number_of_files_follows_the_partitions(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("t", {"id": "BIGINT", "day": "DATE"}, partitioned_by=["day"])
    table.append(spark.range(0, 2400, 1, 8).selectExpr("id", "date_add(DATE'2024-01-01', int(id % 30)) AS day"))
    assert [file.rows for file in table.files()] == [80] * 30


def test_large_partition_is_split(lake: Lake, spark: SparkSession) -> None:
    """With any session settings for adaptive execution."""
    table = lake.create_table("t", {"id": "BIGINT", "day": "DATE", "text": "VARCHAR"}, partitioned_by=["day"])
    large = spark.range(0, 20_000, 1, 8).selectExpr("id", "DATE'2024-01-01' AS day", "sha2(string(id), 512) AS text")
    settings = {"spark.sql.adaptive.enabled": "false", "spark.sql.adaptive.advisoryPartitionSizeInBytes": "200KB"}
    before = {key: spark.conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        table.append(large)
    finally:
        for key, text in before.items():
            spark.conf.set(key, str(text))
            spark.conf.unset(key)
    files = table.files()
    assert 4 <= len(files) <= 16
    assert sum(file.rows for file in files) == 20_000
    assert {file.path.rpartition("/")[0].rpartition("/")[2] for file in files} == {"day=2024-01-01"}


@pytest.mark.parametrize("content", ["61FF62", "EDA080"])
def test_text_that_is_not_utf8_is_refused(lake: Lake, spark: SparkSession, content: str) -> None:
    """DuckDB shows it as `\\xFF` in the statistics of a file."""
    table = lake.create_table("ours", {"id": "BIGINT", "kind": "VARCHAR"}, partitioned_by=["kind"])
    with pytest.raises(LakeconfError):
        table.append(spark.sql(f"SELECT 1L AS id, CAST(X'{content}' AS STRING) AS kind"))
    assert table.files() == []
    assert not list(Path(lake._session.reader.data_path).rglob("*.parquet"))


OPTIONS = {"compression": "zstd"}


def write(frame: DataFrame, folder: Path, *by: str) -> list[Path]:
    files = written_files(frame, f"file://{folder}/", OPTIONS, by)
    assert all(file.startswith("file:/") for file in files)
    return [Path(file.removeprefix("file:")) for file in files]


def left_in(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


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


def test_job_runs_with_the_settings_of_the_frames_session(spark: SparkSession, tmp_path: Path) -> None:
    private = writing_session(spark)
    for name, value in {"shuffle.partitions": "5", "adaptive.enabled": "false"}.items():
        private.conf.set(f"spark.sql.{name}", value)
    assert len(write(private.range(100).repartition("id"), tmp_path / "new")) == 5
    assert spark.conf.get("spark.sql.shuffle.partitions") != "5"
