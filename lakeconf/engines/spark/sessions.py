"""The session in which a scan is built: its settings, and frames as views or SQL of a session."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import PySparkException, PySparkTypeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.engines.frames import with_leaves
from lakeconf.engines.spark.internals import active_session_kept, cloned_session, new_session, rebind, setting_names
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.spark_types import first_line
from lakeconf.errors import QueryError, SchemaError

# All settings that can affect the result of a scan. https://spark.apache.org/docs/latest/configuration.html#spark-sql
_SETTINGS = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.columnNameOfCorruptRecord": "__lakeconf_corrupt_record",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.files.ignoreInvalidPartitionPaths": "false",
    # Spark skips files and folders whose names match; this pattern matches none. The setting is new in Spark 4.3.
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

# Settings that only affect the speed of a scan: the user's values are kept.
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
    """Creates a session with fixed settings in the user's application; its time zone is UTC."""
    return new_session(spark, {**_kept(spark), **_SETTINGS}, _SPEED)


def without_pushdown(private: SparkSession) -> SparkSession:
    """A copy of the private session that does not push filters down to the statistics in Parquet files."""
    twin = cloned_session(private)
    twin.conf.set("spark.sql.parquet.filterPushdown", "false")
    return twin


def _kept(spark: SparkSession) -> dict[str, str]:
    """The user's settings that also apply to the private session."""
    keys = setting_names(spark)
    # Spark passes settings without the prefix `spark.` to Hadoop, for example credentials of a file system.
    if any(not key.startswith("spark.") for key in keys):
        return {key: text for key, text in spark.conf.getAll.items() if key in _SPEED or not key.startswith("spark.")}
    return {key: str(spark.conf.get(key)) for key in keys & _SPEED}


def from_arrow(spark: SparkSession, table: pa.Table) -> DataFrame:
    """Converts an Arrow table to a frame of the user's session; naive timestamps stay naive in every session."""
    private = private_session(spark)
    private.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
    schema = pa.schema([field.with_type(with_leaves(field.type, _compatible)) for field in table.schema])
    try:
        # Spark cannot convert a column without chunks.
        signed = table.cast(schema) if table.num_rows else schema.empty_table()
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        hint = "round them to microseconds, or write with DuckDB: store.open()"
        raise SchemaError(f"Spark cannot convert the frame: {str(error).strip()}", hint=hint) from error
    with active_session_kept(spark):
        try:
            return rebind(private.createDataFrame(signed), spark)
        except (PySparkTypeError, ValueError) as error:
            raise SchemaError(
                f"Spark cannot convert the frame: {error}", hint="cast that column, or write with DuckDB: store.open()"
            ) from error


def _compatible(arrow_type: pa.DataType) -> pa.DataType:
    """The type for a type that Spark lacks: a wider one for unsigned integers, microseconds for nanoseconds."""
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns":
        return pa.timestamp("us", arrow_type.tz)
    wider = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
    return wider.get(arrow_type, arrow_type)


def run_sql(
    spark: SparkSession, text: str, frames: Mapping[str, DataFrame], parameters: Mapping[str, str] | None = None
) -> DataFrame:
    """Runs a query in Spark's SQL; see `SparkOperations.run_sql`."""
    # The views exist only in a copy of the session, which has its settings and its own views.
    copied = cloned_session(spark)
    with active_session_kept(spark):
        try:
            for name, frame in frames.items():
                rebind(frame, copied).createOrReplaceTempView(quoted(name))
            values = {name: F.expr(value) for name, value in (parameters or {}).items()}
            return rebind(copied.sql(text, values or None), spark)
        except PySparkException as error:
            raise QueryError(
                f"Spark rejects the query: {first_line(error)}", hint="fix the query in Spark's SQL"
            ) from error
