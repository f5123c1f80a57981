"""A table of texts at the edges of casts, patterns and functions, on DuckDB and on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
from sql_twins import COLUMNS, Twins

from lakeconf.engines.spark.session import from_arrow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

TEXTS = [
    *COLUMNS["v"][1],
    *("a\nb", "a\n", "\n", "a\r", "a\u2028b", "a\u0085", "a\u000bb", "ab12", "12ab", "a.b", "aXb", "a-b_c", "aaa"),
    *(
        "abcabc",
        "x=1;y=22",
        "2024-05-17",
        "AB",
        "0",
        "😀a😀",
        "a😀b",
        "[a]",
        "a|b",
        "(a)",
        "$",
        "^",
        "\\d",
        "a/b/c/",
        "//",
    ),
]


def text_twins(spark: SparkSession, texts: Sequence[str] = TEXTS) -> Twins:
    """A table `x` with the columns `id`, `v`, and `w`, which has the texts in the opposite order."""
    connection = duckdb.connect()
    connection.execute("SET timezone = 'UTC'")
    connection.execute("CREATE TABLE x (id INTEGER, v VARCHAR, w VARCHAR)")
    values = [*texts, None]
    rows = [[number, *pair] for number, pair in enumerate(zip(values, values[::-1], strict=True))]
    connection.executemany("INSERT INTO x VALUES (?, ?, ?)", rows)
    return Twins(connection, spark, from_arrow(spark, connection.sql("FROM x").to_arrow_table()).cache())
