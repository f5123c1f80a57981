"""The private session in which a scan is built, and how its frame comes back to the user's session.

Spark's readers look at settings when an action runs, and take them from the session that made the relation. So the
relation is made and analysed in a session that nobody else can reach, and its analysed plan is handed to the user's.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import DataFrame, SparkSession

from lakeconf.engines.spark.internals import active_session_kept, cloned_session, new_session, rebind, setting_names
from lakeconf.errors import SchemaError

# Everything that could change what a scan returns. https://spark.apache.org/docs/latest/configuration.html#spark-sql
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.columnNameOfCorruptRecord": "__lakeconf_corrupt_record",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    # Spark skips files and folders whose names begin so; this matches none. Before Spark 4.3 it is not a setting.
    "spark.sql.files.ignoredPathSegmentRegex": "(?!)",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": "false",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
    "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.fieldId.read.ignoreMissing": "false",
    "spark.sql.parquet.filterPushdown": "true",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parquet.mergeSchema": "false",
    "spark.sql.parquet.recordLevelFilter.enabled": "false",
    "spark.sql.retainGroupColumns": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.sources.useV1SourceList": "parquet",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variant.allowReadingShredded": "true",
}
# What changes how fast a scan is, and nothing else: as the user has it.
_SPEED = frozenset(
    (
        "spark.sql.files.maxPartitionBytes",
        "spark.sql.files.maxPartitionNum",
        "spark.sql.files.minPartitionNum",
        "spark.sql.files.openCostInBytes",
        "spark.sql.parquet.columnarReaderBatchSize",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism",
        "spark.sql.sources.parallelPartitionDiscovery.threshold",
    )
)


def private_session(spark: SparkSession) -> SparkSession:
    """A session beside the user's whose settings are fixed; its time zone is UTC.

    Args:
        spark: The user's session; it stays as it is.

    Returns:
        A session of the same application.

    Raises:
        SparkError: The session is one of Spark Connect.
    """
    return new_session(spark, {**_kept(spark), **_SETTINGS}, _SPEED)


def without_pushdown(private: SparkSession) -> SparkSession:
    """As the private session, but no filter reaches the statistics in Parquet files."""
    twin = cloned_session(private)
    twin.conf.set("spark.sql.parquet.filterPushdown", "false")
    return twin


def _kept(spark: SparkSession) -> dict[str, str]:
    """The user's settings that hold for the private session too."""
    keys = setting_names(spark)
    # What does not begin with `spark.` Spark hands to Hadoop: credentials of a file system, for example.
    if any(not key.startswith("spark.") for key in keys):
        return {key: text for key, text in spark.conf.getAll.items() if key in _SPEED or not key.startswith("spark.")}
    return {key: str(spark.conf.get(key)) for key in keys & _SPEED}


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """An Arrow table as a frame of the user's session; naive timestamps stay naive, whatever the session says.

    Args:
        spark: The user's session.
        table: The table.

    Raises:
        SchemaError: It holds what Spark has no type for, such as nanoseconds that are none of microseconds.
    """
    private = private_session(spark)
    private.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    try:
        signed = table.cast(pa.schema([field.with_type(_known(field.type)) for field in table.schema]))
    except pa.ArrowInvalid as error:
        hint = "round them to microseconds, or write with DuckDB: store.open()"
        raise SchemaError(f"Spark does not take the frame: {error}", hint=hint) from error
    with active_session_kept(spark):
        try:
            return rebind(private.createDataFrame(signed), spark)
        except PySparkTypeError as error:
            raise SchemaError(
                f"Spark does not take the frame: {error}", hint="cast that column, or write with DuckDB: store.open()"
            ) from error


def _known(found: pa.DataType) -> pa.DataType:
    """The type that holds every value of an unsigned one; Spark has no unsigned integers, and no nanoseconds."""
    if pa.types.is_timestamp(found) and found.unit == "ns":
        return pa.timestamp("us", found.tz)
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
    return wider.get(found, found)
