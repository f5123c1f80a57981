"""Checks the settings of a session that can change the rows of a scan, but are not options of a reader."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakeconf.errors import SparkError, UnsupportedError

# Settings with the only value with which scans are tested: Spark's default. Other settings of Spark's Parquet reader
# are passed as options, or do not matter to a reader with an explicit schema.
_READING = {
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.recordLevelFilter.enabled": "false",
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.variant.allowReadingShredded": "true",
}
# The list of formats that Spark reads with its older readers, which provide the positions of rows.
_FORMATS = "spark.sql.sources.useV1SourceList"


def settings_of(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that are not defaults.

    Raises:
        SparkError: The server cannot be reached.
    """
    try:
        return dict(spark.conf.getAll)
    except Exception as error:  # an error of gRPC, or of the session
        raise SparkError(f"the Spark Connect server does not answer: {first_line(error)}") from error


def check_reading(settings: Mapping[str, str]) -> None:
    """Checks the settings before a scan.

    Raises:
        UnsupportedError: A setting could change the rows.
    """
    refuse_other(settings, _READING, "read")
    formats = settings.get(_FORMATS)
    if formats is not None and "parquet" not in formats.lower().split(","):
        raise _refusal(_FORMATS, formats, "read")


def refuse_other(settings: Mapping[str, str], needed: Mapping[str, str], verb: str) -> None:
    """Refuses settings with other values than the needed ones.

    Raises:
        UnsupportedError: A setting has another value.
    """
    for key, value in needed.items():
        found = settings.get(key, value)
        if found.strip().lower() != value.lower():
            raise _refusal(key, found, verb)


def first_line(error: BaseException) -> str:
    """The first line of an error of Spark; the others are a Java stack trace."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _refusal(key: str, found: str, verb: str) -> UnsupportedError:
    return UnsupportedError(
        f"the Spark session has {key} = {found}, with which Spark may {verb} other rows; lakeconf cannot override it "
        "on Spark Connect",
        hint=f"reset it: spark.conf.unset({key!r}); or use another session: store.open(spark.newSession())",
    )
