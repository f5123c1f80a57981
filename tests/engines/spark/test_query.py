"""A query in DuckDB's SQL runs on Spark with DuckDB's rules for names and timestamps."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from lakeconf.engines.spark.query import query
from lakeconf.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture
def frame(spark: SparkSession) -> DataFrame:
    return spark.range(3).selectExpr("id", "CAST(id AS STRING) AS Text")


@pytest.fixture
def strict(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with settings that differ from DuckDB's rules."""
    settings = {"spark.sql.caseSensitive": "true", "spark.sql.timestampType": "TIMESTAMP_LTZ"}
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    yield spark
    for key, old in before.items():
        spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def test_names_are_compared_without_their_case(strict: SparkSession, frame: DataFrame) -> None:
    found = query(
        strict, 'SELECT ID, "TEXT" FROM One JOIN two USING (id) WHERE id > 0', {"one": frame, "two": frame.select("id")}
    )
    assert found.sparkSession is strict
    assert sorted(map(tuple, found.select("id").collect())) == [(1,), (2,)]
    assert strict.conf.get("spark.sql.caseSensitive") == "true"


def test_timestamps_have_the_time_zone_of_their_type(strict: SparkSession) -> None:
    found = query(
        strict,
        "SELECT CAST('2024-07-01 00:00:00' AS TIMESTAMP) AS naive, CAST('2024-07-01 00:00:00+02' AS TIMESTAMPTZ) AS z",
        {},
    )
    assert found.dtypes == [("naive", "timestamp_ntz"), ("z", "timestamp")]
    rows = found.selectExpr("naive", "unix_seconds(z)").collect()
    assert rows == [(dt.datetime(2024, 7, 1), 1_719_784_800)]


def test_dialect_of_duckdb_is_translated(spark: SparkSession, frame: DataFrame) -> None:
    found = query(spark, "FROM t SELECT id // 2 AS x, id::VARCHAR || 'a' AS y ORDER BY id", {"t": frame})
    assert [tuple(row) for row in found.collect()] == [(0, "0a"), (0, "1a"), (1, "2a")]


def test_views_of_a_query_are_not_in_the_session(spark: SparkSession, frame: DataFrame) -> None:
    before = type(spark).getActiveSession()
    query(spark, "SELECT * FROM hidden_view", {"hidden_view": frame})
    assert not spark.catalog.tableExists("hidden_view")
    after = type(spark).getActiveSession()
    assert before is not None
    assert after is not None
    assert after._jsparkSession.equals(before._jsparkSession)
    with pytest.raises(QueryError, match="hidden_view"):
        query(spark, "SELECT * FROM hidden_view", {})


def test_query_that_duckdb_rejects_is_an_error(spark: SparkSession, frame: DataFrame) -> None:
    with pytest.raises(QueryError, match=r"DuckDB rejects the query: .*nothing") as refused:
        query(spark, "SELECT nothing::TEXT FROM t", {"t": frame})
    assert "\n" not in refused.value.message


def test_query_that_spark_refuses_is_shown_translated(spark: SparkSession, frame: DataFrame) -> None:
    sql = "SELECT count(DISTINCT id) OVER (PARTITION BY text) FROM t"
    with pytest.raises(QueryError) as refused:
        query(spark, sql, {"t": frame})
    assert refused.value.message.startswith("Spark refuses the query: [DISTINCT_WINDOW")
    assert "\n" not in refused.value.message
    assert str(refused.value.hint).startswith(
        "change the query, which lakeconf translates as: SELECT CAST(COUNT(DISTINCT `t`.`id`) OVER"
    )


@pytest.mark.parametrize("sql", ["SELECT try(1)", "SELECT MAP {1: 2}[1]", "SELECT random()"])
def test_query_that_spark_may_compute_otherwise_is_refused(spark: SparkSession, sql: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        query(spark, sql, {})
    assert "Spark" in refused.value.message
    assert refused.value.hint == "write it with narwhals, or run it on DuckDB"
