"""Runs a query in DuckDB's SQL on Spark."""

from __future__ import annotations

from collections.abc import Mapping

import sqlglot
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.session import private_session
from lakeconf.errors import QueryError, UnsupportedError

# As in DuckDB: names are case-insensitive, and TIMESTAMP has no time zone.
_SETTINGS = {"spark.sql.caseSensitive": "false", "spark.sql.timestampType": "TIMESTAMP_NTZ"}


def query(spark: SparkSession, sql: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of a query.

    Args:
        spark: The user's session; its settings do not change.
        sql: The query, in DuckDB's SQL.
        frames: The frame of each table in the query, by name.

    Raises:
        UnsupportedError: The query uses a feature that Spark SQL lacks.
        QueryError: Spark refuses the query.
    """
    translated = _translated(sql)
    private = private_session(spark)
    for key, value in _SETTINGS.items():
        private.conf.set(key, value)
    with active_session_kept(spark):
        for name, frame in frames.items():
            rebind(frame, private).createOrReplaceTempView(name)
        try:
            return rebind(private.sql(translated), spark)
        except PySparkException as error:
            reason = str(error).splitlines()[0]
            raise QueryError(
                f"Spark refuses the query: {reason}", hint=f"the translated query is: {translated}"
            ) from error


def _translated(sql: str) -> str:
    """Translates the query to Spark SQL.

    Raises:
        UnsupportedError: The query cannot be translated.
    """
    try:
        parsed = sqlglot.parse_one(sql, dialect="duckdb")
        # sqlglot renders TIMESTAMPTZ as TIMESTAMP, which has no time zone with these settings.
        for kind in parsed.find_all(exp.DataType):
            if kind.this == exp.DType.TIMESTAMPTZ:
                kind.replace(exp.DataType.build("TIMESTAMP_LTZ", dialect="spark"))
        return parsed.sql(dialect="spark", unsupported_level=sqlglot.ErrorLevel.RAISE)
    # sqlglot also raises ValueError, for some of DuckDB's syntax that it does not know.
    except (sqlglot.errors.SqlglotError, ValueError) as error:
        raise UnsupportedError(
            f"the query cannot be translated for Spark: {error}", hint="write it with narwhals, or run it on DuckDB"
        ) from error
