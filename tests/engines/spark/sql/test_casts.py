"""Casts round as in DuckDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import assert_alike, twins
from sqlglot import exp

from lakeconf.engines.spark.sql.casts import translated_cast
from lakeconf.engines.spark.sql.typed_tree import set_type
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def cast(found: str, wanted: str) -> exp.Expr:
    value = set_type(exp.column("a"), found)
    return set_type(exp.Cast(this=value, to=exp.DataType.build(wanted, dialect="duckdb")), wanted)


def test_values_are_those_of_duckdb(spark: SparkSession) -> None:
    assert_alike(
        twins(spark),
        [
            "CAST(CASE WHEN abs(g) < 1000 THEN g END AS INTEGER)",
            "CAST(CASE WHEN abs(f) < 100 THEN f END AS TINYINT)",
            "CAST(d AS INTEGER)",
            "CAST(d AS DECIMAL(9,1))",
            "CAST(e AS BIGINT)",
            "CAST(e AS VARCHAR)",
            "CAST(b AS VARCHAR)",
            "CAST(o AS VARCHAR)",
            "CAST(o AS BIGINT)",
            "CAST(i AS BOOLEAN)",
            "CAST(m AS DATE)",
            "CAST(a AS TIMESTAMP)",
            "CAST(i AS DOUBLE)",
            "CAST(f AS DOUBLE)",
            "CAST(d AS DOUBLE)",
            "CAST(NULL AS DATE)",
            "CAST('2024-02-29' AS DATE)",
            "CAST(v AS TEXT)",
        ],
    )


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ("VARCHAR", "FLOAT"),
        ("VARCHAR", "TIMESTAMP WITH TIME ZONE"),
        ("DOUBLE", "VARCHAR"),
        ("DOUBLE", "FLOAT"),
        ("DOUBLE", "DECIMAL(9,2)"),
        ("DECIMAL(9,7)", "VARCHAR"),
        ("TIMESTAMP WITH TIME ZONE", "VARCHAR"),
        ("INTEGER", "DATE"),
        ("INTEGER", "UUID"),
        ("UUID", "VARCHAR"),
        ("DECIMAL(9,2)", "FLOAT"),
        ("TIMESTAMP", "TIMESTAMP WITH TIME ZONE"),
    ],
)
def test_other_casts_are_refused(found: str, wanted: str) -> None:
    with pytest.raises(UnsupportedError):
        translated_cast(cast(found, wanted))
