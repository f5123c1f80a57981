"""The engine of Spark Connect: its scans, and appends whose files Spark writes and this process registers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any

import narwhals as nw
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StringType, StructType
from pyspark.sql.utils import is_remote

from lakeconf.catalog.changes_plan import changes_on_spark
from lakeconf.catalog.column_types import all_types
from lakeconf.catalog.file_footers import read_footers
from lakeconf.catalog.pruning.predicates import columns_of
from lakeconf.catalog.pruning.scan_plan import plan_with_inlined_rows, with_bytes_per_row
from lakeconf.catalog.pruning.where import Where, predicate_of
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import Column, TableInfo, load_table
from lakeconf.connection.connection import Connection, remove_files
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.engines.engine import Staged, StagingRequest
from lakeconf.engines.file_names import announce, manifest_path, staging_folder
from lakeconf.engines.frames import arrow_table, native_frame
from lakeconf.engines.schema_check import selected
from lakeconf.engines.spark.connect.source import read, read_changes, refuse_other, settings_of
from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.read.file_index import WITHOUT_CHECKSUMS
from lakeconf.engines.spark.read.parts import FileAccess
from lakeconf.engines.spark.read.spark_filters import to_spark
from lakeconf.engines.spark.spark_types import collected, duckdb_schema, first_line
from lakeconf.engines.spark.versions import refuse_settings
from lakeconf.engines.spark.write.files import in_folder, no_rows
from lakeconf.engines.spark.write.parquet_options import bounds_options, parquet_options
from lakeconf.engines.spark.write.storage import expired_credentials_named, translated
from lakeconf.engines.spark.write.written_values import written_value
from lakeconf.errors import SparkError
from lakeconf.sql import folded, listing_sql

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
_OPTIONS = {"mapreduce.fileoutputcommitter.marksuccessfuljobs": "false"}

# Spark's default sizes of values in bytes; all other types have 8.
_WIDTH, _TEXT_WIDTH, _LONG_DECIMAL = 8, 20, 18


def is_writable(spark: SparkSession, table: TableInfo) -> bool:
    """True if Spark can write files of a table: with Spark's default settings, not those with a TIMESTAMPTZ."""
    if not any("timestamptz" in all_types(column) for column in table.columns):
        return True
    return settings_of(spark).get(_TIMESTAMPS, "").upper() == _MICROS


def stage_frame(spark: SparkSession, writer: Connection, frame: DataFrame, request: StagingRequest) -> Staged:
    """Writes a frame to the staging folder of this write, below the table's folder."""
    settings = settings_of(spark)
    refuse_other(settings, _WRITING, "write")
    table, folder = request.table, staging_folder(request.table, request.token)
    by_name = {folded(name): name for name in frame.columns}
    counted = Observation()
    rows = frame.select(*(written_value(frame, by_name[folded(each.name)], each, table) for each in table.columns))
    options = parquet_options(writer, table, _width(rows.schema)) | bounds_options(settings) | _OPTIONS
    if "://" not in folder:  # S3A needs the usual class for its buffers
        options |= WITHOUT_CHECKSUMS
    rows = rows.observe(counted, F.count(F.lit(1)).alias("rows"))
    spark.addTag(f"lakeconf-{request.token}")
    try:
        rows.write.format("parquet").options(**options).mode("error").save(spark_uri(folder))
        footers = read_footers(writer, _files_in(writer, folder, "*.parquet"))
        written, count = counted.get["rows"], sum(footer.row_count for footer in footers)
        if count != written:
            raise SparkError(
                f"Spark wrote {written} rows to {folder}, but this process finds {count} there",
                hint="use storage that the server and this process both reach; nothing was committed",
            )
        filled = [footer.path for footer in footers if footer.row_count]
        return in_folder(writer, filled, request, count) if filled else no_rows(request)
    except BaseException as error:
        if not isinstance(error, Exception):
            spark.interruptTag(f"lakeconf-{request.token}")
        remove_staged(writer, folder)
        raise translated(error) from error
    finally:
        spark.removeTag(f"lakeconf-{request.token}")


def remove_staged(writer: Connection, folder: str) -> None:
    """Removes a staging folder with its files, if it exists."""
    if "://" not in folder:
        shutil.rmtree(folder, ignore_errors=True)
        return
    files = _files_in(writer, folder, "**")
    if files:
        remove_files(writer, files)


def _files_in(writer: Connection, folder: str, pattern: str) -> Sequence[str]:
    """The files in a folder that match a pattern, sorted."""
    return [path for (path,) in writer.rows(f"{listing_sql(folder, pattern)} ORDER BY file")]


def _width(data_type: DataType) -> int:
    """Spark's default size of a value in bytes."""
    if isinstance(data_type, StructType):
        return sum(_width(field.dataType) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return _width(data_type.elementType)
    if isinstance(data_type, MapType):
        return _width(data_type.keyType) + _width(data_type.valueType)
    if isinstance(data_type, DecimalType):
        return _WIDTH if data_type.precision <= _LONG_DECIMAL else 2 * _WIDTH
    return _TEXT_WIDTH if isinstance(data_type, StringType) else _WIDTH


class ConnectEngine(DuckDBEngine):
    """Spark Connect scans tables and writes the files of appends; DuckDB does everything else."""

    name = "spark-connect"

    def __init__(self, spark: SparkSession, reader: CatalogReader, writer: Connection, access: FileAccess) -> None:
        if not is_remote():
            raise SparkError(
                "the session is one of Spark Connect, but pyspark is in the mode for classic sessions",
                hint="create the session in a process without a classic session: SparkSession.builder.remote(…)",
            )
        refuse_settings(settings_of(spark))
        super().__init__(reader, writer)
        self._spark = spark
        self._access = access

    def details(self) -> Mapping[str, str]:
        return {"spark": self._spark.version}

    def reading(self) -> AbstractContextManager[None]:
        return expired_credentials_named()

    def scan(
        self, table: str, snapshot_id: int, columns: Sequence[str] | None = None, where: Where | None = None
    ) -> nw.LazyFrame[Any]:
        info = load_table(self._reader, table, snapshot_id)
        returned = selected(info, columns)
        predicate = None if where is None else predicate_of(where, info.columns)
        # The scan also reads the columns of the condition, and drops them after the filter.
        needed = [*returned, *(columns_of(predicate) if predicate is not None else ())]
        names = list(dict.fromkeys(column.name for column in needed))
        planned = plan_with_inlined_rows(self._reader, table, snapshot_id, names, predicate)
        frame = read(self._spark, self._access, *planned)
        if predicate is None:
            return nw.from_native(frame)
        return nw.from_native(frame.where(to_spark(predicate)).select(*(quoted(column.name) for column in returned)))

    def changes(self, table: str, since: int, until: int) -> nw.LazyFrame[Any]:
        read = partial(read_changes, self._spark, self._access)
        return nw.from_native(changes_on_spark(self._reader, table, since, until, read))

    def query(self, sql: str, frames: Mapping[str, Any]) -> nw.LazyFrame[Any]:
        return super().query(sql, {name: self._local(frame) for name, frame in frames.items()})

    def adopt(self, frame: object) -> Any:
        native = native_frame(frame)
        if not isinstance(native, DataFrame):
            return super().adopt(native)
        if native.sparkSession is not self._spark:
            raise SparkError(
                "the frame belongs to another session of Spark Connect than the lake",
                hint="open the lake with the frame's own session: store.open(frame.sparkSession)",
            )
        return native

    def joinable(self, frame: object) -> Any:
        adopted = self.adopt(frame)
        if isinstance(adopted, DataFrame):
            return adopted
        return self._spark.createDataFrame(arrow_table(adopted))

    def schema(self, adopted: Any) -> dict[str, str]:
        if not isinstance(adopted, DataFrame):
            return super().schema(adopted)
        try:
            # The server finds errors of the frame only now.
            _ = adopted.schema
        except Exception as error:  # also of gRPC, if the session was stopped
            raise SparkError(f"the server cannot describe the frame: {first_line(error)}") from error
        return duckdb_schema(adopted)

    def conform(self, adopted: Any, columns: Mapping[Column, str]) -> Any:
        return super().conform(self._local(adopted), columns)

    def stage(self, adopted: Any, request: StagingRequest) -> Staged:
        if not isinstance(adopted, DataFrame) or not is_writable(self._spark, request.table):
            return super().stage(self._local(adopted), request)
        folder = staging_folder(request.table, request.token)
        announce(self._writer, folder, self._reader.lake_id)
        try:
            sized = replace(request, table=with_bytes_per_row(self._reader, request.table))
            return stage_frame(self._spark, self._writer, adopted, sized)
        except Exception:
            # After an interruption, tasks may still write: the manifest lets a cleanup find their files.
            remove_files(self._writer, [manifest_path(folder)])
            raise

    def stage_rows(self, adopted: Any, request: StagingRequest) -> Staged:
        return super().stage_rows(self._local(adopted), request)

    def release(self, staged: Staged) -> None:
        if staged.folder is not None and not staged.keeps_files:
            remove_staged(self._writer, staged.folder)
        super().release(staged)

    def _local(self, frame: Any) -> Any:
        """A frame as rows of DuckDB; those of Spark are sent to this process."""
        return super().adopt(collected(frame) if isinstance(frame, DataFrame) else frame)
