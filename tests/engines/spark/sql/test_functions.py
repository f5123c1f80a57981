"""Functions of numbers and conditions have DuckDB's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import COLUMNS, Twins, assert_alike, twins

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=7, count=120)


def test_all_values_are_in_the_table(pair: Twins) -> None:
    (found,) = pair.connection.execute("SELECT count(DISTINCT v) FROM x").fetchone() or (0,)
    assert found >= len(COLUMNS["v"][1]) - 1


def test_conditions_are_those_of_duckdb(pair: Twins) -> None:
    assert_alike(
        pair,
        [
            "coalesce(t, d, 0)",
            "coalesce(v, 'none')",
            "greatest(t, s, 3)",
            "least(g, f)",
            "nullif(i, 42)",
            "nullif(g, 1.5)",
            "CASE WHEN t > 0 THEN 'a' WHEN o THEN v END",
            "CASE t WHEN 0 THEN 1.5 WHEN NULL THEN 2 ELSE t END",
            "if(o, t, 300)",
            "abs(d)",
            "floor(g)",
            "ceil(g)",
            "floor(d)",
            "ceil(e)",
        ],
    )


@pytest.mark.parametrize(
    "expression",
    [
        "typeof(t)",
        "hash(v)",
        "floor(f)",
    ],
)
def test_other_functions_are_refused(expression: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(f"SELECT {expression} FROM x")
