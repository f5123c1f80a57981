"""Functions of text, dates and conditions have DuckDB's values."""

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


def test_text_is_that_of_duckdb(pair: Twins) -> None:
    patterns = ["a%", "%c", "a_c", "%", "_", "a\\b", "%\\%", "a%\\_", "", "😀_", "%\\"]
    assert_alike(
        pair,
        [
            "substring(v, 2)",
            "substring(v, 1, 0)",
            "substring(v, 2, 1)",
            "length(v)",
            "upper(v)",
            "lower(v)",
            "trim(v)",
            "ltrim(v)",
            "rtrim(v)",
            "v || 'x' || i",
            "concat(v, NULL, t, o)",
            "replace(v, 'a', '\\')",
            "replace(v, '', 'x')",
            "starts_with(v, 'a')",
            "contains(v, '\\')",
            *(f"v LIKE '{pattern}'" for pattern in patterns),
            *(f"v NOT LIKE '{pattern}'" for pattern in patterns),
        ],
    )


def test_parts_of_dates_are_those_of_duckdb(pair: Twins) -> None:
    units = ("year", "quarter", "month", "day", "hour", "minute")
    assert_alike(
        pair,
        [
            *(f"{unit}(m)" for unit in units),
            *(f"extract({unit} FROM m)" for unit in units),
            *(f"extract({unit} FROM a)" for unit in units[:4]),
            *(f"date_trunc('{unit}', m)" for unit in (*units, "week", "second")),
            *(f"date_trunc('{unit}', a)" for unit in ("month", "WEEK")),
        ],
    )


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
        "substring(v, 0)",
        "substring(v, -1)",
        "substring(v, t)",
        "v LIKE v",
        "v ILIKE 'a%'",
        "v LIKE 'a!%' ESCAPE '!'",
        "trim(v, 'a')",
        "extract(dow FROM a)",
        "extract(second FROM m)",
        "extract(epoch FROM m)",
        "date_trunc('decade', m)",
        "year(z)",
        "date_trunc('day', z)",
        "v || d",
        "strftime(a, '%Y')",
        "floor(f)",
    ],
)
def test_other_functions_are_refused(expression: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(f"SELECT {expression} FROM x")
