"""Single fields of structs, which Spark reads without the others: they are found by field id all the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from catalog_lake import lake
from spark_rows import scan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from catalog_lake import Lake
    from pyspark.sql import SparkSession

STRUCT = "STRUCT(x INTEGER, y VARCHAR)"
VALUE = "{'x': i, 'y': 'y' || i}"
ROWS = f"SELECT i, {VALUE}, {VALUE}, {VALUE}, {{'below': {VALUE}}}"
# What is selected; DuckDB and Spark write it alike.
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
    """Tables whose structs are as they were, were renamed, or got another field; rows are deleted from `deleted`."""
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
def test_single_fields(spark: SparkSession, structs: Lake, table: str, selected: tuple[str, ...]) -> None:
    found = scan(spark, structs, table).selectExpr(*selected).collect()
    expected = structs.rows(f"SELECT {', '.join(selected)} FROM lake.{table}")
    assert sorted(map(tuple, found)) == sorted(expected)


def test_a_whole_struct_beside_a_single_field(spark: SparkSession, structs: Lake) -> None:
    found = scan(spark, structs, "whole").where("a = 3").selectExpr("to_json(grown)", "plain.x").collect()
    assert [tuple(row) for row in found] == [('{"x":3,"yy":"y3","z":4}', 3)]
