"""Text that DuckLake would replace fails the job, at any depth of a value; other values stay as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.engines.schema_check import placeholder_message
from lakeconf.engines.spark.write.storage import without_placeholders

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Spark SQL of values; the text is in the place of {}.
VALUES = [
    "'{}'",
    "CAST('{}' AS BINARY)",
    "array(NULL, '{}')",
    "array(array('{}'), NULL)",
    "named_struct('n', 1, 'b', '{}')",
    "named_struct('b', '{}', 'c', CAST(NULL AS STRING))",
    "named_struct('a', CAST(NULL AS STRING), 'c', array('{}'))",
    "map('{}', 1)",
    "map(1, '{}')",
    "map('k', named_struct('b', array('{}')))",
]
HARMLESS = ["{b}", "{SNAPSHOT_ID", "SNAPSHOT_ID}", "{snapshot_id}", ""]


def checked(frame: DataFrame) -> DataFrame:
    (field,) = frame.schema.fields
    return frame.select(without_placeholders(F.col("x"), field.dataType, "it's").alias("x"))


@pytest.mark.parametrize("value", VALUES)
def test_text_that_ducklake_would_replace_fails_the_job(spark: SparkSession, value: str) -> None:
    with pytest.raises(Exception, match="LAKECONF_REFUSED") as failed:
        checked(spark.range(1).selectExpr(f"{value.format('a{SNAPSHOT_ID}')} AS x")).collect()
    assert placeholder_message("it's") in str(failed.value)


@pytest.mark.parametrize("value", VALUES)
def test_other_texts_and_nulls_are_kept(spark: SparkSession, value: str) -> None:
    kept = " UNION ALL ".join(f"SELECT {value.format(text)} AS x" for text in HARMLESS)
    given = spark.sql(f"SELECT {value.format('')} AS x WHERE false UNION ALL {kept} UNION ALL SELECT NULL")
    found = checked(given)
    assert found.schema["x"].dataType == given.schema["x"].dataType
    assert found.collect() == given.collect()


@pytest.mark.parametrize(
    "value", ["1", "array(1)", "map(1, DATE '2024-01-01')", "named_struct('a', array(1.5))", "parse_json('1')"]
)
def test_types_without_text_are_not_checked(spark: SparkSession, value: str) -> None:
    frame = spark.range(1).selectExpr(f"{value} AS x")
    (field,) = frame.schema.fields
    column = F.col("x")
    assert without_placeholders(column, field.dataType, "x") is column
