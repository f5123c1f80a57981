"""A frame whose files change, or that Spark would read differently than planned, gives the same rows or an error."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from spark_rows import scan

from lakeconf.catalog.pruning.scan_plan import plan_scan
from lakeconf.engines.spark.read import scan_source
from lakeconf.engines.spark.read.scan_source import check_types
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from catalog_lake import Lake
    from pyspark.sql import DataFrame, SparkSession


def with_deletes(lake: Lake) -> list[str]:
    """Creates two files of the same size with different deleted rows, and returns their paths."""
    lake.run("CREATE TABLE lake.t (a INTEGER)")
    lake.run(*(f"INSERT INTO lake.t SELECT i FROM range({start}, {start + 100}) r(i)" for start in (1000, 2000)))
    lake.run("DELETE FROM lake.t WHERE a < 1010", "DELETE FROM lake.t WHERE a >= 2050")
    return [path for (path,) in lake.rows("SELECT data_file FROM ducklake_list_files('lake', 't') ORDER BY ALL")]


def expected(lake: Lake) -> list[tuple[int, ...]]:
    return sorted(lake.rows("SELECT a FROM lake.t"))


def refresh(spark: SparkSession, frame: DataFrame, lake: Lake) -> None:
    frame.createOrReplaceTempView("refreshed")
    spark.sql("REFRESH TABLE refreshed")
    spark.catalog.refreshTable("refreshed")
    spark.catalog.refreshByPath(str(lake.folder / "data"))


@pytest.mark.usefixtures("way")
def test_changed_modification_times_do_not_change_the_rows(spark: SparkSession, files: Lake) -> None:
    paths = with_deletes(files)
    frame, with_ids = scan(spark, files, "t"), scan(spark, files, "t", row_ids=True)
    assert len({Path(path).stat().st_size for path in paths}) == 1
    # The first file gets the former time of the second one, as after restoring a backup.
    second = Path(paths[1]).stat().st_mtime
    os.utime(paths[1], (second + 1000, second + 1000))
    os.utime(paths[0], (second, second))
    refresh(spark, frame, files)
    assert sorted(map(tuple, frame.collect())) == expected(files)
    assert sorted(map(tuple, spark.table("refreshed").collect())) == expected(files)
    refresh(spark, with_ids, files)
    assert sorted(map(tuple, with_ids.select("a").collect())) == expected(files)
    assert sorted(map(tuple, scan(spark, files, "t").collect())) == expected(files)


def test_file_missing_after_a_refresh_raises_an_error(spark: SparkSession, files: Lake) -> None:
    """When Spark refreshes, it drops missing files from its list, and would then read fewer rows."""
    paths = with_deletes(files)
    frame = scan(spark, files, "t")
    os.unlink(paths[0])
    refresh(spark, frame, files)
    with pytest.raises(Exception, match=r"FILE_NOT_EXIST|does not exist|FileNotFound"):
        frame.collect()


@pytest.mark.usefixtures("way")
def test_row_of_an_unknown_file_raises_an_error(
    spark: SparkSession, files: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Simulates that Spark reads a file that is not in its list: its number is its modification time."""
    with_deletes(files)
    monkeypatch.setattr(scan_source, "_NUMBER", f"({scan_source._NUMBER} + 1700000000000)")
    frame = scan(spark, files, "t")
    actions: list[Callable[[], object]] = [frame.collect, frame.count]
    for action in (*actions, frame.where("a > 1500").select(F.max("a")).collect):
        with pytest.raises(Exception, match="not in the plan of this scan"):
            action()


def test_unknown_delete_file_raises_an_error(spark: SparkSession, files: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    with_deletes(files)
    planned = plan_scan(files.reader, "t", files.newest).files
    bases = {file.delete_file: 0 for file in planned if file.delete_file is not None}
    assert len(scan_source._in_files(spark, bases, files.newest).collect()) == 60
    monkeypatch.setattr(scan_source, "_NUMBER", f"({scan_source._NUMBER} + 1)")
    with pytest.raises(Exception, match="not in the plan of this scan"):
        scan_source._in_files(spark, bases, files.newest).collect()


def test_part_with_a_different_type_is_rejected(spark: SparkSession) -> None:
    planned = spark.range(1).selectExpr("id", "current_timestamp() AS moment")
    same = spark.range(1).selectExpr("CAST(NULL AS BIGINT) AS id", "current_timestamp() AS moment")
    check_types(spark, [planned, same], planned.schema)
    for other in ("id", "timestamp_ntz '2026-01-01 00:00:00' AS moment"), ("id", "current_timestamp() AS Moment"):
        with pytest.raises(UnsupportedError, match="but the table is"):
            check_types(spark, [planned, spark.range(1).selectExpr(*other)], planned.schema)
