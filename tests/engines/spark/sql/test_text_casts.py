"""Text is read as DuckDB reads it; text in forms that the engines may read differently is an error."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from sql_twins import assert_alike
from text_twins import TEXTS, text_twins

from lakeconf.engines.spark.sql.text_casts import text_forms
from lakeconf.engines.spark.sql.value_types import value_type
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NUMBERS = ["0", "-0", "7", "-128", "127", "007", "123456789012345678", "-123456789012345678"]
FRACTIONS = ["0.5", "-0.5", "1.005", "2.675", "123456789012345.123456789012345", "-0.0", "0.000000000000001", "9.995"]
DATES = ["2024-02-29", "0001-01-01", "9999-12-31", "1582-10-10"]
TIMES = ["2024-02-29 23:59:59.999999", "2024-03-31 02:30:00", "0001-01-01 00:00:00.5", "9999-12-31 23:59:59.1"]
# DuckDB reads some of these: Spark must not return another value.
ODD = [
    *(" 5", "5 ", "+5", "1e3", "1_000", "0x1F", "5.", ".5", "5.6", "\t5", "1,000", "٣", "5\n", "1e400", "NaN", "inf"),
    *(
        "99999999999999999999",
        "300",
        "--5",
        "-",
        "",
        " ",
        "2024-02-30",
        "2024-2-3",
        "24-01-01",
        "2024/01/31",
        "0000-01-01",
    ),
    *(
        "2024-01-31T10:00:00",
        "2024-01-31 10:00",
        "2024-01-31 24:00:00",
        "2024-01-31 10:00:60",
        "2024-01-31 10:00:00+02",
    ),
    *("10000-01-01", "-0001-01-01", "epoch", "infinity", "today", "44 BC", "TRUE", "True", "t", "yes", "1", "on", "é"),
    *("2024-01-31 10:00:00.1234567", "2024-01-31 (BC)", "2024-01-31 "),
]
TYPES = {
    "BIGINT": NUMBERS,
    "DOUBLE": [*NUMBERS[:6], *FRACTIONS],
    "DECIMAL(20,2)": [*NUMBERS[:6], *FRACTIONS],
    "DATE": DATES,
    "TIMESTAMP": [*DATES, *TIMES],
    "BOOLEAN": ["true", "false"],
    "TINYINT": ["0", "-128", "127", "-0"],
}


@pytest.mark.parametrize("wanted", TYPES)
def test_plain_text_is_read_as_in_duckdb(wanted: str, spark: SparkSession) -> None:
    constants = [f"CAST('{text}' AS {wanted})" for text in TYPES[wanted]]
    columns = [f"CAST(v AS {wanted})", f"TRY_CAST(v AS {wanted})", f"v::{wanted}"]
    assert_alike(text_twins(spark, TYPES[wanted]), constants + columns)


@pytest.mark.parametrize("wanted", TYPES)
def test_other_text_has_the_value_of_duckdb_or_is_an_error(wanted: str, spark: SparkSession) -> None:
    form, other = text_forms(value_type(wanted)) or ("", "")
    texts = list(dict.fromkeys([*ODD, *TEXTS, *(text for texts in TYPES.values() for text in texts)]))
    unclear = [
        text for text in texts if not re.fullmatch(form, text) and not re.match(other.replace(r"\z", r"\Z"), text)
    ]
    clear = text_twins(spark, [text for text in texts if text not in unclear])
    assert clear.difference(f"SELECT id, TRY_CAST(v AS {wanted}) AS c FROM x") is None
    assert 0 < len(unclear) < len(texts) / 2
    for text in unclear[::8]:
        with pytest.raises(PySparkException, match="may read differently"):
            text_twins(spark, [text]).on_spark(f"SELECT TRY_CAST(v AS {wanted}) AS c FROM x").collect()


def test_text_without_the_form_is_an_error(spark: SparkSession) -> None:
    pair = text_twins(spark, ["abc"])
    for expression in ("v::INTEGER", "v::DATE", "CAST(v AS TIMESTAMP)", "v::DOUBLE", "v::DECIMAL(9,2)", "v::BOOLEAN"):
        with pytest.raises(PySparkException, match="may read differently"):
            pair.on_spark(f"SELECT {expression} FROM x").collect()


@pytest.mark.parametrize(
    "expression", ["v::FLOAT", "v::UUID", "v::TIMESTAMPTZ", "' 5'::INTEGER", "'1e3'::DOUBLE", "TRY_CAST(id AS DATE)"]
)
def test_other_casts_are_refused(expression: str, spark: SparkSession) -> None:
    with pytest.raises(UnsupportedError):
        text_twins(spark, ["5"]).on_spark(f"SELECT {expression} FROM x")
