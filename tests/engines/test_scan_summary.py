"""The summary of a scan counts what the plan reads and skips."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from spark_rows import access_to

from lakeconf.engines.scan_summary import ScanSummary, summary
from lakeconf.engines.spark.classic_engine import SparkEngine

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


def test_scan_that_the_engine_refuses_has_the_reason(usual: Lake, spark: SparkSession) -> None:
    usual.run("CREATE TABLE lake.t (z TIMETZ, a INTEGER)", "INSERT INTO lake.t VALUES ('12:00:00+01', 1)")
    engine = SparkEngine(spark, usual.reader, usual.connection, {}, access_to(usual))
    refused = summary(engine, usual.reader, "t", usual.newest, None, None)
    assert (refused.engine, refused.inlined_rows) == ("spark", 1)
    assert str(refused.refusal).startswith("the column 'z' holds TIMETZ in the catalog")
    assert str(refused).endswith(f"  refused       {refused.refusal}")
    assert summary(engine, usual.reader, "t", usual.newest, ["a"], None).refusal is None
    assert summary(engine, usual.reader, "t", usual.newest, ["a"], "z IS NULL").refusal is not None


def test_text_of_a_summary() -> None:
    found = ScanSummary("main.t", 7, "duckdb", 1, 2, 1024, 512, 3, 4, 5)
    explained = replace(found, writes={"merge": "spark: why", "delete": "duckdb: why"})
    assert str(explained).endswith("deletes\n  merge         spark: why\n  delete        duckdb: why")
    assert str(found) == (
        "scan of main.t at snapshot 7 by duckdb\n"
        "  data files    1 of 3 read, 1 KiB of 1.5 KiB\n"
        "  delete files  3\n"
        "  in catalog    5 rows, 4 deletes"
    )
