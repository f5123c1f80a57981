"""Starts a Spark session on this machine that reaches the files of a store."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from lakeconf.engines.spark.java import ensure_java
from lakeconf.errors import MissingDependencyError, SparkError
from lakeconf.secret import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOPBACK = "127.0.0.1"
_HADOOP = "spark.hadoop."
# Variables with which a user chooses the address, or a configuration that may name a cluster.
_CONFIGURES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "MASTER")
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


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

        from lakeconf.engines.spark.hadoop import configure_session
    except ImportError as error:
        raise MissingDependencyError("pyspark", extra="spark", needed_for="a Spark session") from error
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    confs = [store.spark_conf() for store in stores]
    public = {key: value for conf in confs for key, value in conf.items() if key not in conf.secret_keys}
    chosen = public | dict(settings or {})
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        with loopback_address(chosen):
            session = builder.getOrCreate()
    except PySparkException as error:
        raise SparkError(f"Spark does not start: {error}") from error
    # The builder's stand in the command line of the Java process that it starts, so that secrets are not among them;
    # and a session that runs already takes none of them.
    for conf in confs:
        hadoop = {key.removeprefix(_HADOOP): conf[key] for key in conf if key.startswith(_HADOOP)}
        configure_session(session, hadoop)
    return session


@contextlib.contextmanager
def loopback_address(settings: Mapping[str, str]) -> Iterator[None]:
    """Makes a session on this machine alone listen on the loopback address: its web page shows plans and data.

    Spark has no setting for the address of its web page, only the variable SPARK_LOCAL_IP. It stays as it is if the
    user sets it or an address of the driver, or if the session may use other machines.

    Args:
        settings: The settings of the session, by their names in Spark.
    """
    addresses = {settings.get(name, _LOOPBACK) for name in ("spark.driver.host", "spark.driver.bindAddress")}
    is_local = settings.get("spark.master", "local").startswith("local") and "spark.remote" not in settings
    is_configured = any(name in os.environ for name in _CONFIGURES) or "--" in os.environ.get(_SUBMIT_ARGUMENTS, "")
    if is_configured or not is_local or not addresses <= {_LOOPBACK, "localhost"}:
        yield
        return
    os.environ["SPARK_LOCAL_IP"] = _LOOPBACK
    try:
        yield
    finally:
        del os.environ["SPARK_LOCAL_IP"]
