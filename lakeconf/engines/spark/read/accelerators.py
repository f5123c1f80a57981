"""Refuses engines that replace Spark's Parquet reader, because they are not tested to read the same rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyspark.sql import SparkSession

from lakeconf.errors import UnsupportedError

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
        found = settings.get(key, "")
        if found.lower() == value:
            raise _refusal(engine, f"{key}={found}")


def _refusal(engine: str, setting: str) -> UnsupportedError:
    return UnsupportedError(
        f"the Spark session uses {engine} ({setting}), which replaces Spark's Parquet reader; lakeconf is not tested "
        "with it and cannot guarantee correct rows",
        hint="start the session without it, or read and write with DuckDB: store.open()",
    )
