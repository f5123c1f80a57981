"""Runs a query in DuckDB's SQL on Spark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from lakeconf.catalog.predicate.nodes import Predicate, split
from lakeconf.catalog.table import Column
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.read.predicate import to_spark
from lakeconf.engines.spark.session import private_session
from lakeconf.engines.spark.sql.bound_query import base_tables, bind
from lakeconf.engines.spark.sql.translation import translated
from lakeconf.engines.spark.types import duckdb_schema, query_type
from lakeconf.errors import QueryError

# The translation relies on these: names ignore case, TIMESTAMP has no time zone, an overflow is an error.
_SETTINGS = {
    "spark.sql.caseSensitive": "false",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.variable.substitute": "false",
}


def filtered(frame: DataFrame, predicate: Predicate, columns: Sequence[Column]) -> DataFrame:
    """The rows of a frame that satisfy a predicate.

    Args:
        frame: Rows of a table, in a private session; it can have other columns too.
        predicate: A predicate on the table.
        columns: The table's columns in the frame.

    Raises:
        UnsupportedError: Spark may not compute the predicate as DuckDB does.
    """
    understood, expression = split(predicate)
    if understood is not None:
        frame = frame.where(to_spark(understood))
    if expression is None:
        return frame
    known = {column.name: query_type(column) for column in columns}
    others = [name for name in frame.columns if name not in known]
    types = {**known, **duckdb_schema(frame.select(*map(quoted, others)))}
    kept = f"SELECT * FROM lakeconf_rows WHERE {expression.sql}"
    return query(frame.sparkSession, kept, {"lakeconf_rows": frame}, {"lakeconf_rows": types})


def run_sql(spark: SparkSession, text: str, frames: Mapping[str, DataFrame]) -> DataFrame:
    """Runs a query in Spark's SQL; see `SparkOperations.run_sql`."""
    try:
        return spark.sql(text, args=None, **frames)
    except PySparkException as error:
        reason = str(error).strip().splitlines()[0]
        raise QueryError(
            f"Spark refuses the query: {reason}", hint="change the query: lakeconf replaced only its tables"
        ) from error


def query(
    spark: SparkSession,
    sql: str,
    frames: Mapping[str, DataFrame],
    types: Mapping[str, Mapping[str, str]] | None = None,
) -> DataFrame:
    """The rows of a query.

    Args:
        spark: The user's session; its settings do not change.
        sql: The query, in DuckDB's SQL.
        frames: The frame of each table in the query, by name.
        types: The columns of each frame with their types in DuckDB; by default, those of the frames.

    Raises:
        UnsupportedError: Spark may not return DuckDB's rows for a part of the query.
        QueryError: DuckDB or Spark refuses the query.
    """
    bound = bind(sql, types or {name: duckdb_schema(frame) for name, frame in frames.items()})
    views = {name.lower(): f"lakeconf_{uuid.uuid4().hex}" for name in frames}
    for table in base_tables(bound):
        table.set("this", exp.to_identifier(views[table.name], quoted=True))
    text = translated(bound)
    private = private_session(spark)
    for key, value in _SETTINGS.items():
        private.conf.set(key, value)
    with active_session_kept(spark):
        for name, frame in frames.items():
            rebind(frame, private).createOrReplaceTempView(views[name.lower()])
        try:
            return rebind(private.sql(text).toDF(*(name for name, _ in bound.columns)), spark)
        except PySparkException as error:
            reason = str(error).strip().splitlines()[0]
            raise QueryError(
                f"Spark refuses the query: {reason}", hint=f"change the query, which lakeconf translates as: {text}"
            ) from error
