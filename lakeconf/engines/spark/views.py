"""Tables of a lake as temporary views of a Spark session."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from lakeconf.engines.spark.internals import rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.errors import SparkError


def register(spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
    """Creates a temporary view of each frame; replaces views with the same name.

    Args:
        spark: The session that gets the views.
        frames: The frame of each view, by name of the view.

    Raises:
        SparkError: The session belongs to another application than the frames.
    """
    for name, frame in frames.items():
        if frame.sparkSession.sparkContext is not getattr(spark, "sparkContext", None):
            raise SparkError(
                "the session for the views belongs to another Spark application than the session of the lake",
                hint="omit the session, or open the lake with it: store.open(spark)",
            )
        rebind(frame, spark).createOrReplaceTempView(quoted(name))
