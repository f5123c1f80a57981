"""Single fields of structs: Spark reads only these, and still resolves them by field id."""

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
