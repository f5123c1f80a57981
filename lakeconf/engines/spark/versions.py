"""The versions of Spark that lakeconf supports, what differs between them, and engines that it rejects."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from lakeconf.errors import SparkError, SparkVersionError, UnsupportedError

# The tests run the newest of each: `make test-spark SPARK=4.0.5`.
TESTED = ("4.0", "4.1", "4.2", "4.3")
# Patterns for the class names of each engine in `spark.plugins` and `spark.sql.extensions`.
_CLASSES = {
    "RAPIDS": r"com\.nvidia\.spark\.",
    "Gluten": r"\bgluten(project)?\.",
    "Comet": r"\bcomet\.|CometPlugin|CometSparkSessionExtensions",
    "Blaze": r"\bblaze\.|BlazeSparkSessionExtension",
    "Auron": r"\bauron\.|AuronSparkSessionExtension",
}
_CLASS_KEYS = ("spark.plugins", "spark.sql.extensions")
# Settings that enable an engine without naming a class, and the values that enable it.
_SWITCHES = {
    "spark.databricks.photon.enabled": ("Photon", "true"),
    "spark.databricks.clusterUsageTags.runtimeEngine": ("Photon", "photon"),
}


def check_version(spark: SparkSession) -> None:
    """Checks that the tests of lakeconf run the Spark version of a session."""
    version = getattr(spark, "version", None)
    if not isinstance(version, str):
        raise SparkError(
            f"{spark!r} is not a Spark session",
            hint="omit it to read with DuckDB: store.open(); or make a session: lakeconf.spark_session(store)",
        )
    if not version.startswith(tuple(f"{tested}." for tested in TESTED)):
        raise SparkVersionError(
            f"the Spark session has the version {version!r}, but lakeconf supports Spark {TESTED[0]} to {TESTED[-1]}: "
            "other versions may read or write different rows",
            hint="start the session with one of these (pip install 'lakeconf[spark]' installs the newest), or use "
            "DuckDB: store.open()",
        )
    if (release := _release(version)) < min(_release(pyspark.__version__), (4, 2)):
        raise SparkVersionError(
            f"pyspark {pyspark.__version__} cannot send rows to a server that runs Spark {version}",
            hint=f"install the pyspark of the server: pip install 'pyspark[connect]=={release[0]}.{release[1]}.*'",
        )


def keeps_structs(spark: SparkSession) -> bool:
    """False if Spark's reader returns NULL for a struct of which a file lacks all requested fields, as before 4.1."""
    return _release(spark.version) >= (4, 1)


def reads_file_with(types: Iterable[str]) -> bool:
    """False if Spark cannot read any column of a file with these types of DuckLake: GEOMETRY and VARIANT before 4.1."""
    return _release(pyspark.__version__) >= (4, 1) or {"geometry", "variant"}.isdisjoint(types)


def aliases_inherit(spark: SparkSession) -> bool:
    """True if an alias without metadata has those of its column, as before 4.1."""
    return _release(spark.version) < (4, 1)


def check_streams() -> None:
    """Checks that Spark passes limits and the start of a batch to a data source in Python, as since 4.2."""
    if _release(pyspark.__version__) < (4, 2):
        raise UnsupportedError(
            f"streams of the data source need Spark 4.2 or newer, and this is {pyspark.__version__}",
            hint="read the changes with lake.table(…).changes(first, last)",
        )


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema with which Spark exchanges rows with Python, in drivers and executors."""
    from pyspark.sql.pandas.types import to_arrow_schema  # an unsupported version may lack it

    zone: dict[str, Any] = {"timezone": "UTC"} if _release(pyspark.__version__) >= (4, 2) else {"timestamp_utc": True}
    return to_arrow_schema(schema, **zone)


def _release(version: str) -> tuple[int, ...]:
    """The two numbers of a version: platforms add to it, as in `4.0.2-amzn-0`."""
    return tuple(map(int, version.split(".")[:2]))


def refuse_accelerators(spark: SparkSession) -> None:
    """Checks that the session uses Spark's own Parquet reader."""
    context: Any = spark.sparkContext
    configuration = context.getConf()
    keys = (*_CLASS_KEYS, *_SWITCHES)
    refuse_settings({key: str(spark.conf.get(key, "") or configuration.get(key, "")) for key in keys})


def refuse_settings(settings: Mapping[str, str]) -> None:
    """Like `refuse_accelerators`, for the settings of a session and its application."""
    for key in _CLASS_KEYS:
        classes = settings.get(key, "")
        for engine, pattern in _CLASSES.items():
            if re.search(pattern, classes):
                raise _refusal(engine, f"{key}={classes}")
    for key, (engine, value) in _SWITCHES.items():
        setting = settings.get(key, "")
        if setting.lower() == value:
            raise _refusal(engine, f"{key}={setting}")


def _refusal(engine: str, setting: str) -> UnsupportedError:
    return UnsupportedError(
        f"the Spark session uses {engine} ({setting}), which replaces Spark's Parquet reader; lakeconf is not tested "
        "with it and cannot guarantee correct rows",
        hint="start the session without it, or read and write with DuckDB: store.open()",
    )
