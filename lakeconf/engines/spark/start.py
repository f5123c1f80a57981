"""Starts a Spark session on this machine that reaches the files of a store."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from lakeconf.engines.spark.java import ensure_java
from lakeconf.engines.spark.unlogged import unlogged
from lakeconf.errors import MissingDependencyError, SparkError
from lakeconf.secret import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class HasSparkSettings(Protocol):
    """A store, as far as this needs it."""

    def spark_conf(self) -> Settings:
        """The settings with which Spark reaches its files."""
        ...


def spark_session(*stores: HasSparkSettings, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Starts a Spark session that reaches the files of `stores`, or gives the running one.

    It finds a Java, and lets Spark's workers run the same Python. Where a cluster gives you a session, do without this
    and call `store.configure(SparkSession.builder)`.

    Args:
        stores: The stores that the session is for.
        settings: Further settings, such as `{"spark.master": "local[4]"}`; they win.

    Returns:
        The session; the caller stops it.

    Raises:
        MissingDependencyError: pyspark is not installed.
        SparkError: There is no Java, or Spark does not start.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError("pyspark", extra="spark", needed_for="a Spark session") from error
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    confs = [store.spark_conf() for store in stores]
    public = {key: value for conf in confs for key, value in conf.items() if key not in conf.secret_keys}
    for key, value in (public | dict(settings or {})).items():
        builder = builder.config(key, value)
    try:
        session = builder.getOrCreate()
    except PySparkException as error:
        raise SparkError(f"Spark does not start: {error}") from error
    # The builder's stand in the command line of the Java process that it starts, so that secrets are not among them;
    # and a session that runs already takes none of them.
    hadoop = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    with unlogged():
        for conf in confs:
            for key in conf:
                if key.startswith("spark.hadoop."):
                    hadoop.set(key.removeprefix("spark.hadoop."), conf[key])
    return session
