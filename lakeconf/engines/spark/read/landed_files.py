"""Reads Parquet files that are not part of a lake on the executors, if Spark returns the same rows as DuckDB."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakeconf.engines.spark.hadoop import spark_paths
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.session import private_session
from lakeconf.engines.spark.types import duckdb_schema
from lakeconf.errors import LakeconfError

# DuckDB types that Spark's reader refuses in a failing job, or reads as other types.
_FOREIGN = re.compile(r"\b(UUID|TIME|TIMESTAMP_\w+|U\w*INT\w*|HUGEINT|INTERVAL|JSON|VARIANT|GEOMETRY|ENUM|UNION|BIT)\b")


def read_files(spark: SparkSession, paths: Sequence[str], types: Mapping[str, str]) -> DataFrame | None:
    """The rows of Parquet files.

    Args:
        spark: The user's session; its settings do not change.
        paths: Absolute paths or URIs.
        types: The columns and their types, as DuckDB detects them.

    Returns:
        A frame with these columns; None if Spark finds other columns or types, or if its executors cannot read local
        files.
    """
    is_local_cluster = str(spark.sparkContext.master).startswith("local")
    if not is_local_cluster and any("://" not in path for path in paths):
        return None
    if any(_FOREIGN.search(kind.replace("WITH TIME ZONE", "")) for kind in types.values()):
        return None
    private = private_session(spark)
    with active_session_kept(spark):
        try:
            frame = private.read.option("mergeSchema", "true").parquet(*spark_paths(paths))
            found = duckdb_schema(frame)
        except (LakeconfError, PySparkException, Py4JJavaError):
            return None
        return rebind(frame.select(*map(quoted, types)), spark) if _plain(found) == _plain(types) else None


def _plain(types: Mapping[str, str]) -> dict[str, str]:
    """The types without the quotes that DuckDB writes around some field names."""
    return {name: kind.replace('"', "") for name, kind in types.items()}
