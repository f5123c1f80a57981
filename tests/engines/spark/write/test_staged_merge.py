"""The rows of a merge are cast to the table's types, staged in files that are never registered, and read in parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.tables import load_table
from lakeconf.engines.engine import StagingRequest
from lakeconf.engines.spark.write.staged_files import conformed, stage_rows, staged_frame
from lakeconf.engines.spark.write.storage import LakeStorage
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession

TYPES = {"action": "INTEGER", "a.b": "VARCHAR", "n": "VARCHAR"}


def request_of(lake: Lake, token: str = "0a1b") -> StagingRequest:
    return StagingRequest(load_table(lake.reader, "t", lake.newest), TYPES, token)


def test_columns_are_selected_and_cast_to_the_types_of_the_table(spark: SparkSession, files: Lake) -> None:
    files.run('CREATE TABLE lake.t (a BIGINT, "B.c" VARCHAR, u UUID)')
    frame = spark.range(1).selectExpr("'x' AS `b.C`", "1 AS more", "CAST(7 AS SMALLINT) AS A", "'u' AS u")
    found = conformed(frame, load_table(files.reader, "t", files.newest).columns)
    assert found.sparkSession is spark
    assert found.dtypes == [("a", "bigint"), ("B.c", "string"), ("u", "string")]
    assert found.collect() == [(7, "x", "u")]


def test_staged_rows_are_read_in_parts(spark: SparkSession, files: Lake) -> None:
    files.run("CREATE TABLE lake.t (a BIGINT)")
    frame = spark.range(3).selectExpr("CAST(id AS INT) AS action", "'x' || id AS `a.b`", "NULL AS n")
    with files.connection.cursor() as writer:
        writer.execute("USE lake")
        storage = LakeStorage(spark, writer, files.reader.data_path)
        staged = stage_rows(storage, frame, request_of(files))
        rows = writer.rows(f"FROM ({staged.source}) ORDER BY ALL")
        assert rows == [(0, "x0", None), (1, "x1", None), (2, "x2", None)]
        assert (staged.keeps_files, staged.row_count) == (False, None)
        assert staged.folder is not None
        assert all(file.startswith(staged.folder) for file in staged.files)
        part = staged_frame(spark, staged, "action = 1", ["a.b", "action"])
        assert (part.sparkSession is spark, part.columns, part.collect()) == (True, ["a.b", "action"], [("x1", 1)])
        bad = frame.selectExpr("action", "'{SNAPSHOT_ID}' AS `a.b`", "n")
        with pytest.raises(SchemaError, match=r"'a\.b' has a value with a placeholder"):
            stage_rows(storage, bad, request_of(files, "0c"))
    assert [path.name for path in files.folder.rglob("lakeconf-*")] == ["lakeconf-0a1b"]
