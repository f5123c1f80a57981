"""Stages the rows of a frame of Spark Connect: Spark writes the files, this process finds and registers them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructType

from lakeconf.catalog.table import TableInfo
from lakeconf.catalog.types import all_types
from lakeconf.connection.connection import Connection
from lakeconf.connection.removal import remove_files
from lakeconf.engines.base import Staged, StagingRequest
from lakeconf.engines.spark.connect.settings import refuse_other, settings_of
from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.read.relation import WITHOUT_CHECKSUMS
from lakeconf.engines.spark.write.files import in_folder, no_rows, row_counts, written_value
from lakeconf.engines.spark.write.parquet_options import parquet_options
from lakeconf.engines.spark.write.storage import translated
from lakeconf.engines.staging import staging_folder
from lakeconf.errors import SparkError
from lakeconf.sql import folded

# Settings of the writer with the only value with which files can be registered: Spark's default.
_WRITING = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
# Spark's default is INT96, a type that DuckLake registers only as a timestamp without zone.
_TIMESTAMPS, _MICROS = "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS"
# The folder contains nothing but the files.
_OPTIONS = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false", **WITHOUT_CHECKSUMS}
_PATTERN = re.compile(r"[*?\[]")
# Spark's default sizes of values in bytes; all other types have 8.
_WIDTH, _TEXT_WIDTH, _LONG_DECIMAL = 8, 20, 18


def is_writable(spark: SparkSession, table: TableInfo) -> bool:
    """True if Spark can write files of a table: with Spark's default settings, not those with a TIMESTAMPTZ."""
    if not any("timestamptz" in all_types(column) for column in table.columns):
        return True
    return settings_of(spark).get(_TIMESTAMPS, "").upper() == _MICROS


def stage_frame(spark: SparkSession, writer: Connection, frame: DataFrame, request: StagingRequest) -> Staged:
    """Writes a frame to the staging folder of this write, below the table's folder.

    Args:
        spark: The session of the frame.
        writer: The connection that will commit; it can read the files.
        frame: A frame whose columns have been checked against the table.
        request: The table, with its columns and their types.

    Returns:
        The files, or the query that reads them if they cannot be registered.

    Raises:
        SchemaError: A NOT NULL column has a NULL, or a type would change a value.
        SparkError: The job failed, or this process does not find the files.
        UnsupportedError: A setting of the session would change the files, or the lake's files are encrypted.
    """
    refuse_other(settings_of(spark), _WRITING, "write")
    table, folder = request.table, staging_folder(request.table, request.token)
    by_name = {folded(name): name for name in frame.columns}
    counted = Observation()
    rows = frame.select(*(written_value(frame, by_name[folded(each.name)], each, table) for each in table.columns))
    options = parquet_options(writer, table, _width(rows.schema)) | _OPTIONS
    rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    spark.addTag(f"lakeconf-{request.token}")
    try:
        rows.write.format("parquet").options(**options).mode("error").save(spark_uri(folder))
        files = row_counts(writer, _found(writer, f"{folder}*.parquet"))
        written, count = counted.get["rows"], sum(files.values())
        if count != written:
            raise SparkError(
                f"Spark wrote {written} rows to {folder}, but this process finds {count} there",
                hint="use storage that the server and this process both reach; nothing was committed",
            )
        filled = [path for path, found in files.items() if found]
        return in_folder(writer, filled, request, count) if filled else no_rows(request)
    except BaseException as error:
        if not isinstance(error, Exception):
            spark.interruptTag(f"lakeconf-{request.token}")
        remove_staged(writer, folder)
        raise translated(error) from error
    finally:
        spark.removeTag(f"lakeconf-{request.token}")


def remove_staged(writer: Connection, folder: str) -> None:
    """Removes a staging folder with its files, if it exists.

    Args:
        writer: A connection that can access the files.
        folder: The folder, with a trailing slash.
    """
    if "://" not in folder:
        shutil.rmtree(folder, ignore_errors=True)
        return
    files = _found(writer, f"{folder}**")
    if files:
        remove_files(writer, files)


def _found(writer: Connection, pattern: str) -> Sequence[str]:
    """The files that match a pattern, in which only the stars after the last slash are special."""
    folder, slash, name = pattern.rpartition("/")
    escaped = _PATTERN.sub(r"[\g<0>]", folder)
    return [path for (path,) in writer.rows("SELECT file FROM glob(?) ORDER BY file", [escaped + slash + name])]


def _width(found: DataType) -> int:
    """Spark's default size of a value in bytes."""
    if isinstance(found, StructType):
        return sum(_width(field.dataType) for field in found.fields)
    if isinstance(found, ArrayType):
        return _width(found.elementType)
    if isinstance(found, MapType):
        return _width(found.keyType) + _width(found.valueType)
    if isinstance(found, DecimalType):
        return _WIDTH if found.precision <= _LONG_DECIMAL else 2 * _WIDTH
    return _TEXT_WIDTH if isinstance(found, StringType) else _WIDTH
