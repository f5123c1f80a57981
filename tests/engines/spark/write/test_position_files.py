"""Executors sort positions, and stage the rows of a merge in files that are never registered."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import narwhals as nw
import pytest
from spark_rows import access_to

from lakeconf.catalog.tables import load_table
from lakeconf.engines.engine import FILE_ID, FILE_ROW_NUMBER, StagingRequest
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.errors import StorageError

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


TYPES = {"action": "INTEGER", "a.b": "VARCHAR", "n": "VARCHAR"}


def request_of(lake: Lake, token: str = "0a1b") -> StagingRequest:
    return StagingRequest(load_table(lake.reader, "t", lake.newest), TYPES, token)


@pytest.mark.parametrize("is_late", [False, True])
def test_a_lost_staged_file_fails_the_write(spark: SparkSession, files: Lake, *, is_late: bool) -> None:
    """Spark would list the files itself, and leave out those that are missing."""
    files.run("CREATE TABLE lake.t (action INTEGER)")
    session = spark.newSession()
    session.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    frame = session.range(0, 8, 1, 4).selectExpr("CAST(id AS INT) AS action", "'x' AS `a.b`", "'y' AS n")
    request = StagingRequest(load_table(files.reader, "t", files.newest), {"action": "INTEGER"}, "0c")
    with files.connection.cursor() as writer:
        writer.execute("USE lake")
        engine = SparkEngine(session, files.reader, writer, {}, access_to(files))
        staged = engine.stage_rows(frame, request_of(files))
        rows = engine.staged_rows(staged, ["action"])
        if is_late:
            assert rows.count() == 8
        Path(staged.files[1]).unlink()
        with pytest.raises(StorageError, match=r"a file that the write needs: .*(is missing|does not exist)\n") as lost:
            engine.stage_rows(rows, request)
        assert lost.value.hint == "write again; if this fails again, find out what removed the file"
        with pytest.raises(StorageError, match="a file that the write needs"):
            engine.stage_part(staged, "action > 1", replace(request, token="0d"))
    assert [path.name for path in files.folder.rglob("lakeconf-0[cd]*")] == []
