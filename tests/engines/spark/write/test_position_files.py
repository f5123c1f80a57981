"""Executors sort positions: one file for each data file, whatever the settings of the user's session are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import narwhals as nw
import pytest
from spark_rows import access_to

from lakeconf.catalog.tables import load_table
from lakeconf.engines.engine import FILE_ID, FILE_ROW_NUMBER, StagingRequest
from lakeconf.engines.spark.classic_engine import SparkEngine

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.files.maxRecordsPerFile": "2",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.sql.shuffle.partitions": "3",
    "spark.sql.caseSensitive": "false",
}


@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["default", "other settings"])
def test_positions_are_sorted_in_one_file_for_each_data_file(
    spark: SparkSession, usual: Lake, settings: dict[str, str]
) -> None:
    usual.run("CREATE TABLE lake.t (a BIGINT)")
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    with usual.connection.cursor() as writer:
        writer.execute("USE lake")
        engine = SparkEngine(session, usual.reader, writer, {}, access_to(usual))
        info = load_table(usual.reader, "t", usual.newest)
        rows = session.range(0, 3000, 1, 4).selectExpr(
            f"CASE WHEN id % 10 < 9 THEN id % 10 END AS {FILE_ID}",
            f"(id * 7919) % 3000 AS {FILE_ROW_NUMBER}",
            "id % 10 = 8 AS kept",
        )
        rows = rows.where(f"{FILE_ID} IS NOT NULL AND NOT kept").drop("kept")
        found = engine.sort_positions(nw.from_native(rows), StagingRequest(info, {}, "a2"))
        assert sorted(found.paths) == list(range(8))
        for number, path in found.paths.items():
            expected = sorted((id_ * 7919) % 3000 for id_ in range(number, 3000, 10))
            assert usual.rows(f"FROM read_parquet('{path}', hive_partitioning = false)") == [(one,) for one in expected]
        assert set(found.paths.values()) == set(found.staged.files)
        engine.release(found.staged)
    assert [path.name for path in (usual.folder / "data").rglob("*.parquet")] == []


def test_without_rows_there_are_no_files(spark: SparkSession, usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (a BIGINT)")
    with usual.connection.cursor() as writer:
        writer.execute("USE lake")
        engine = SparkEngine(spark, usual.reader, writer, {}, access_to(usual))
        info = load_table(usual.reader, "t", usual.newest)
        rows = spark.range(5).selectExpr(f"id AS {FILE_ID}", f"id AS {FILE_ROW_NUMBER}")
        found = engine.sort_positions(nw.from_native(rows.where(f"{FILE_ID} > 9")), StagingRequest(info, {}, "a2"))
        assert found.paths == {}
        engine.release(found.staged)
