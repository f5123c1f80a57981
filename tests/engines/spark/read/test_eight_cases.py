"""Eight ordinary lakes, each of which another Spark or native reader silently reads incorrectly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from spark_rows import assert_alike, scan

if TYPE_CHECKING:
    from catalog_lake import Lake
    from pyspark.sql import SparkSession

INSERT = "INSERT INTO lake.t SELECT i, i FROM range({}, {}) r(i)"
CASES = {
    "inlined rows beside a file": (["INSERT INTO lake.t VALUES (1, 1), (2, 2)"], "count(*)", 102),
    "a renamed column": (["ALTER TABLE lake.t RENAME COLUMN b TO bb", INSERT.format(100, 200)], "count(bb)", 200),
    "an added column with a default": (
        ["ALTER TABLE lake.t ADD COLUMN c INTEGER DEFAULT 7", "INSERT INTO lake.t SELECT i, i, i FROM range(100) r(i)"],
        "sum(c)",
        5650,
    ),
    "a promoted column": (
        [
            "ALTER TABLE lake.t ALTER COLUMN b TYPE BIGINT",
            "INSERT INTO lake.t SELECT i, 3000000000 FROM range(100) r(i)",
        ],
        "max(b)",
        3000000000,
    ),
    "deletes in a delete file": (["DELETE FROM lake.t WHERE a < 50"], "count(*)", 50),
    "deletes in the catalog": (["DELETE FROM lake.t WHERE a IN (3, 5)"], "count(*)", 98),
    "a name dropped and added again": (
        ["ALTER TABLE lake.t DROP COLUMN b", "ALTER TABLE lake.t ADD COLUMN b INTEGER"],
        "count(b)",
        0,
    ),
    "time travel before a merge of files": (
        [INSERT.format(100, 200), INSERT.format(200, 300), "CALL ducklake_merge_adjacent_files('lake')"],
        "count(*)",
        300,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_spark_reads_the_case_like_duckdb(spark: SparkSession, source: Lake, case: str) -> None:
    statements, aggregate, expected = CASES[case]
    source.run("CREATE TABLE lake.t (a INTEGER, b INTEGER)", INSERT.format(0, 100), *statements)
    assert scan(spark, source, "t").selectExpr(aggregate).collect()[0][0] == expected
    assert_alike(spark, source, "t")
