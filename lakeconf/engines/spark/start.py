"""Starts a Spark session with access to the files of stores."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from lakeconf.engines.spark.java_home import ensure_java
from lakeconf.errors import MissingDependencyError, SparkError
from lakeconf.secret import Secret, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOOPBACK = "127.0.0.1"
_HADOOP = "spark.hadoop."
_LISTS = ("spark.jars.packages", "spark.jars.excludes")
# Variables that set the address, or a configuration that may specify a cluster.
_CONFIGURES = ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "SPARK_HOME", "SPARK_CONF_DIR", "SPARK_REMOTE", "MASTER")
_SUBMIT_ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


class HasSparkSettings(Protocol):
    """The part of a store that this module uses."""

    def spark_conf(self) -> Settings:
        """The settings that give Spark access to the store's files."""
        ...

    @property
    def alias(self) -> str:
        """The name of the lake in SQL."""
        ...

    def attach(self, connection: SparkSession, *, use: bool = True) -> None:
        """Makes the lake a catalog of a session."""
        ...


def _settings_of(store: HasSparkSettings) -> Settings:
    if not hasattr(store, "spark_conf"):
        raise SparkError(f"{store!r} is not a store", hint='pass a store: spark_session(config.get_store("dev"))')
    return store.spark_conf()


def spark_session(*stores: HasSparkSettings, settings: Mapping[str, str] | None = None) -> SparkSession:
    """Starts a Spark session with access to the files of `stores`, or returns the running session.

    Its SQL names their tables, as after `store.attach(spark, use=False)`.

    Finds Java, and makes Spark's workers use the same Python. If a cluster provides the session, call
    `SparkSession.builder.config(map=store.spark_conf())` instead.

    Args:
        stores: The stores that the session is for.
        settings: Additional settings, such as `{"spark.master": "local[4]"}`; they have priority.

    Returns:
        The session; the caller stops it.

    Raises:
        MissingDependencyError: pyspark is not installed.
        SparkError: Java is missing, or Spark does not start.
    """
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from lakeconf.engines.spark.named_tables import can_attach
    except ImportError as error:
        raise MissingDependencyError("pyspark", extra="spark", needed_for="a Spark session") from error
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    confs = [_settings_of(store) for store in stores]
    public = merged_settings(
        {key: value for key, value in conf.items() if key not in conf.secret_keys} for conf in confs
    )
    chosen = public | dict(settings or {})
    for key, value in chosen.items():
        builder = builder.config(key, value)
    try:
        with loopback_address(chosen):
            session = builder.getOrCreate()
    except PySparkException as error:
        raise SparkError(f"Spark does not start: {error}") from error
    for conf in confs:
        configure_files(session, conf)
    for store in stores:
        if can_attach(session, store.alias):
            store.attach(session, use=False)
    return session


def merged_settings(confs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """The settings of several stores; lists of packages are joined, and else the last store decides."""
    merged: dict[str, str] = {}
    for conf in confs:
        lists = {key: f"{merged[key]},{conf[key]}" for key in _LISTS if key in merged and key in conf}
        merged |= {**conf, **{key: ",".join(dict.fromkeys(value.split(","))) for key, value in lists.items()}}
    return merged


def configure_files(session: SparkSession, conf: Settings) -> None:
    """Gives a running session access to the files of a store."""
    from lakeconf.engines.spark.hadoop import configure_session

    # The builder puts its settings on the command line of the Java process, so they must not contain secrets. A running
    # session also ignores the builder's Hadoop settings.
    keys = [key for key in conf if key.startswith(_HADOOP)]
    # Tracebacks can show variables.
    hadoop = {key.removeprefix(_HADOOP): Secret(conf[key]) if key in conf.secret_keys else conf[key] for key in keys}
    configure_session(session, hadoop)


@contextlib.contextmanager
def loopback_address(settings: Mapping[str, str]) -> Iterator[None]:
    """Makes a local session listen on the loopback address, because its web UI shows plans and data.

    Spark has no setting for the address of its web UI, only the variable SPARK_LOCAL_IP. The variable is not changed if
    the user sets it or an address of the driver, or if the session may use other machines.
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
