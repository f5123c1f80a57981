"""Spark's own SQL over frames, and frames as temporary views of a session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.engines.spark.internals import active_session_kept, cloned_session, rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.errors import QueryError, SparkError


def run_sql(
    spark: SparkSession, text: str, frames: Mapping[str, DataFrame], parameters: Mapping[str, str] | None = None
) -> DataFrame:
    """Runs a query in Spark's SQL; see `SparkOperations.run_sql`."""
    # The views exist only in a copy of the session, which has its settings and its own views.
    copied = cloned_session(spark)
    with active_session_kept(spark):
        try:
            for name, frame in frames.items():
                rebind(frame, copied).createOrReplaceTempView(quoted(name))
            values = {name: F.expr(value) for name, value in (parameters or {}).items()}
            return rebind(copied.sql(text, values or None), spark)
        except PySparkException as error:
            reason = str(error).strip().splitlines()[0]
            raise QueryError(f"Spark rejects the query: {reason}", hint="fix the query in Spark's SQL") from error


def register(spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
    """Creates a temporary view of each frame; replaces views with the same name."""
    for name, frame in frames.items():
        if frame.sparkSession.sparkContext is not getattr(spark, "sparkContext", None):
            raise SparkError(
                "the session for the views belongs to another Spark application than the session of the lake",
                hint="omit the session, or open the lake with it: store.open(spark)",
            )
        rebind(frame, spark).createOrReplaceTempView(quoted(name))


def collected(frame: DataFrame) -> Any:
    """The rows of a frame as an Arrow table in this process."""
    try:
        return frame.toArrow()
    except Exception as error:  # also of py4j and gRPC, if the session was stopped
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SparkError(f"the Spark job that computes the frame failed: {reason}") from error
