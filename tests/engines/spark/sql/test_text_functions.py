"""Functions of text have DuckDB's values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from sql_twins import Twins, assert_alike, twins
from text_twins import text_twins

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def pair(spark: SparkSession) -> Twins:
    return twins(spark, seed=7, count=120)


def test_text_is_that_of_duckdb(pair: Twins) -> None:
    assert_alike(
        pair,
        [
            "substring(v, 2)",
            "substring(v, 1, 0)",
            "substr(v, 2, 1)",
            "length(v)",
            "char_length(v)",
            "upper(v)",
            "lcase(v)",
            "trim(v)",
            "ltrim(v)",
            "rtrim(v)",
            "v || 'x' || i",
            "v || a",
            "concat(v, NULL, t, o)",
            "replace(v, 'a', '\\')",
            "replace(v, '', 'x')",
        ],
    )


def test_texts_at_the_edges_are_those_of_duckdb(spark: SparkSession) -> None:
    assert_alike(
        text_twins(spark),
        [
            *(f"{name}(v, {count})" for name in ("left", "right", "repeat") for count in (0, 1, 2, 100)),
            *(f"{name}(v, {count}, 'xé')" for name in ("lpad", "rpad") for count in (0, 1, 2, 5, 8)),
            *(f"split_part(v, '{mark}', {part})" for mark in ("a", "/", "ab", "😀", ".") for part in (1, 2, 3)),
            *(
                f"{name}(v, {other})"
                for name in ("strpos", "instr")
                for other in ("'a'", "''", "w", "'😀'", "NULL::VARCHAR")
            ),
            "position('b' IN v)",
            *(
                f"{name}(v, {other})"
                for name in ("ends_with", "starts_with", "contains")
                for other in ("'a'", "''", "w")
            ),
            *(f"{name}(v, '{chars}')" for name in ("trim", "ltrim", "rtrim") for chars in ("a", "ab", "😀a", "]\\-[")),
            "concat_ws('-', v, w)",
            "concat_ws(v, 'a', NULL, w, id)",
            "concat_ws('', v)",
        ],
    )


@pytest.mark.parametrize(
    "expression",
    [
        "substring(v, 0)",
        "substring(v, -1)",
        "substring(v, t)",
        "left(v, -1)",
        "right(v, t)",
        "repeat(v, 100000)",
        "lpad(v, 5, '')",
        "lpad(v, 5, v)",
        "split_part(v, '', 1)",
        "split_part(v, 'a', 0)",
        "split_part(v, 'a', -1)",
        "trim(v, v)",
        "reverse(v)",
        "v || d",
        "concat_ws('-', d)",
    ],
)
def test_other_functions_are_refused(expression: str, pair: Twins) -> None:
    with pytest.raises(UnsupportedError):
        pair.on_spark(f"SELECT {expression} FROM x")
