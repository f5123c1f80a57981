"""Random expressions have the same values on Spark as on DuckDB, or are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest
from pyspark.errors import PySparkException
from random_sql import Expressions
from sql_twins import Twins, assert_alike, twins
from strength import PROVE

from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COUNT, SEEDS, TOGETHER = (600, range(10), 30) if PROVE else (120, range(1), 30)


def computed(found: Twins, expressions: list[str]) -> list[str]:
    """The expressions that DuckDB computes without an error and Spark does not refuse."""
    kept = []
    for text in expressions:
        sql = f"SELECT {text} FROM x"
        try:
            found.connection.sql(sql).fetchall()
            found.on_spark(sql)
        except (duckdb.Error, UnsupportedError):
            continue
        kept.append(text)
    return kept


@pytest.mark.parametrize("seed", SEEDS)
def test_expressions_have_the_values_of_duckdb(seed: int, spark: SparkSession) -> None:
    found, expressions = twins(spark, seed), Expressions(seed)
    made = [expressions.any(3) for _ in range(COUNT)]
    kept = computed(found, made)
    assert len(kept) > COUNT / 2
    failed = []
    for start in range(0, len(kept), TOGETHER):
        try:
            assert_alike(found, kept[start : start + TOGETHER])
        except PySparkException:  # also fails in no row of DuckDB, so find which
            failed += [text for text in kept[start : start + TOGETHER] if fails(found, text)]
    # Spark may compute a part that DuckDB does not need, or reach a limit of digits earlier.
    assert len(failed) <= len(kept) / 50, failed


def fails(found: Twins, text: str) -> bool:
    try:
        assert_alike(found, [text])
    except PySparkException:
        return True
    return False
