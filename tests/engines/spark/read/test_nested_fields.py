"""Single fields of structs, and lakes that other readers of Spark read incorrectly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake
from spark_rows import assert_alike, scan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import Lake
    from pyspark.sql import SparkSession


STRUCT = "STRUCT(x INTEGER, y VARCHAR)"
VALUE = "{'x': i, 'y': 'y' || i}"
ROWS = f"SELECT i, {VALUE}, {VALUE}, {VALUE}, {{'below': {VALUE}}}"
# Selected fields; the syntax is the same in DuckDB and Spark.
SELECTED = [
    ("plain.x",),
    ("renamed.x",),
    ("grown.yy", "renamed.y"),
    ("grown.x", "plain.y"),
    ("grown.z", "plain.x"),
    ("a", "grown.yy", "deep.below.w"),
]


@pytest.fixture(scope="module")
def structs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Tables with unchanged structs, renamed structs and structs with an added field; `deleted` has deleted rows."""
    folder: Path = tmp_path_factory.mktemp("structs")
    with lake("duckdb", folder, options=", DATA_INLINING_ROW_LIMIT 0") as source:
        for table in ("whole", "deleted"):
            columns = f"a INTEGER, plain {STRUCT}, s {STRUCT}, grown {STRUCT}, deep STRUCT(below {STRUCT})"
            source.run(
                f"CREATE TABLE lake.{table} ({columns})",
                f"INSERT INTO lake.{table} {ROWS} FROM range(50) r(i)",
                f"ALTER TABLE lake.{table} RENAME s TO renamed",
                f"ALTER TABLE lake.{table} ADD COLUMN grown.z INTEGER DEFAULT 4",
                f"ALTER TABLE lake.{table} RENAME grown.y TO yy",
                f"ALTER TABLE lake.{table} RENAME deep.below.x TO w",
            )
        source.run("DELETE FROM lake.deleted WHERE a % 7 = 1")
        yield source


@pytest.mark.parametrize("selected", SELECTED, ids=" ".join)
@pytest.mark.parametrize("table", ["whole", "deleted"])
def test_single_struct_fields_are_read(
    spark: SparkSession, structs: Lake, table: str, selected: tuple[str, ...]
) -> None:
    found = scan(spark, structs, table).selectExpr(*selected).collect()
    expected = structs.rows(f"SELECT {', '.join(selected)} FROM lake.{table}")
    assert sorted(map(tuple, found)) == sorted(expected)


def test_whole_struct_and_a_single_field_are_read_together(spark: SparkSession, structs: Lake) -> None:
    found = scan(spark, structs, "whole").where("a = 3").selectExpr("to_json(grown)", "plain.x").collect()
    assert [tuple(row) for row in found] == [('{"x":3,"yy":"y3","z":4}', 3)]


INSERT = "INSERT INTO lake.t SELECT i, i FROM range({}, {}) r(i)"
CASES = {
    "inlined rows beside a file": (["INSERT INTO lake.t VALUES (1, 1), (2, 2)"], "count(*)", 102),
    "a renamed column": (
        ["ALTER TABLE lake.t RENAME COLUMN b TO bb", INSERT.format(100, 200)],
        "count(bb)",
        200,
    ),
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
