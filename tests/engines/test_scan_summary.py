"""The summary of a scan counts what the plan reads and skips."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from spark_rows import access_to

from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.scan_summary import ScanSummary, summary
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.errors import SchemaError

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession


@pytest.fixture
def lake(usual: Lake) -> Lake:
    """Two files: one with a delete file, both with deletes in the catalog; and two inlined rows."""
    usual.run(
        "CREATE TABLE lake.t (a INTEGER, b VARCHAR)",
        "INSERT INTO lake.t SELECT i, 'x' FROM range(50) r(i)",
        "INSERT INTO lake.t SELECT i, 'x' || i FROM range(100, 150) r(i)",
        "CALL lake.set_option('data_inlining_row_limit', 0)",
        "DELETE FROM lake.t WHERE a = 110",
        "CALL lake.set_option('data_inlining_row_limit', 10)",
        "INSERT INTO lake.t VALUES (1000, 'a'), (1001, 'b')",
        "DELETE FROM lake.t WHERE a IN (3, 4, 120)",
    )
    return usual


def explained(lake: Lake, columns: list[str] | None = None, where: str | None = None) -> ScanSummary:
    engine = DuckDBEngine(lake.reader, lake.connection)
    return summary(engine, lake.reader, "T", lake.newest, columns, where)


def sizes(lake: Lake) -> list[int]:
    query = "SELECT file_size_bytes FROM ducklake_data_file ORDER BY data_file_id"
    return [size for (size,) in lake.metadata(query)]


def test_scan_of_all_files(lake: Lake) -> None:
    first, second = sizes(lake)
    assert explained(lake) == ScanSummary(
        table="main.t",
        snapshot_id=lake.newest,
        engine="duckdb",
        files=2,
        files_skipped=0,
        bytes=first + second,
        bytes_skipped=0,
        delete_files=1,
        inlined_deletes=3,
        inlined_rows=2,
    )


def test_skipped_files_are_counted_separately(lake: Lake) -> None:
    first, second = sizes(lake)
    few = explained(lake, ["b"], "a < 50")
    assert (few.files, few.files_skipped, few.bytes, few.bytes_skipped) == (1, 1, first, second)
    assert (few.delete_files, few.inlined_deletes, few.inlined_rows) == (0, 2, 2)
    none = explained(lake, None, "a > 5000")
    assert (none.files, none.files_skipped, none.bytes, none.bytes_skipped) == (0, 2, 0, first + second)
    assert (none.delete_files, none.inlined_deletes, none.refusal) == (0, 0, None)


def test_invalid_scan_raises_its_error(lake: Lake) -> None:
    with pytest.raises(SchemaError, match="nothing"):
        explained(lake, ["nothing"])


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
