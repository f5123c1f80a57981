"""Tables of a lake as temporary views of a Spark session."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession

from lakeconf.engines.spark.internals import rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.errors import SparkError


def register(spark: SparkSession, frames: Mapping[str, DataFrame]) -> None:
    """Makes a temporary view of each frame; one of the same name is replaced.

    Args:
        spark: The session that gets them.
        frames: By the name of the view.

    Raises:
        SparkError: The session belongs to another application than the frames.
    """
    for name, frame in frames.items():
        if frame.sparkSession.sparkContext is not getattr(spark, "sparkContext", None):
            raise SparkError(
                "the views are wanted in a session of another Spark application than the one that the lake was "
                "opened with",
                hint="leave the session out, or open the lake with it: store.open(spark)",
            )
        rebind(frame, spark).createOrReplaceTempView(quoted(name))
