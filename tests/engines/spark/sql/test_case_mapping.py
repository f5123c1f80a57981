"""Each letter has DuckDB's upper and lower case, or is refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import duckdb
import pytest
from pyspark.errors import PySparkException

from lakeconf.engines.spark.query import query
from lakeconf.engines.spark.sql.case_mapping import OTHER_LOWER, OTHER_UPPER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.parametrize(("name", "other"), [("upper", OTHER_UPPER), ("lower", OTHER_LOWER)])
def test_every_character_is_mapped_as_in_duckdb(name: str, other: str, spark: SparkSession) -> None:
    refused = re.compile("[" + re.sub(r"\\x\{(\w+)\}", lambda found: chr(int(found[1], 16)), other) + "]")
    characters = [chr(code) for code in range(1, 0x20000) if not 0xD800 <= code < 0xE000]
    # Each between others, because Java's result can depend on the letters around it.
    texts = ["a" + one for one in characters if not refused.match(one)]
    frame = spark.createDataFrame([(text,) for text in texts], "v string")
    found = query(spark, f"SELECT v, {name}(v) FROM x", {"x": frame}).collect()
    with duckdb.connect() as connection:
        sql = f"SELECT v, {name}(v) FROM (SELECT unnest($1) AS v)"
        expected = dict(connection.execute(sql, [texts]).fetchall())
    assert [(text, made) for text, made in found if expected[text] != made] == []


@pytest.mark.parametrize("expression", ["upper('ŉ')", "lower(chr(42955))"])
def test_other_letters_are_an_error(expression: str, spark: SparkSession) -> None:
    letter = "ŉ" if "upper" in expression else chr(42955)
    frame = spark.createDataFrame([(letter,)], "v string")
    name = expression.split("(")[0]
    with pytest.raises(PySparkException, match="DuckDB and Java map differently"):
        query(spark, f"SELECT {name}(v) FROM x", {"x": frame}).collect()
