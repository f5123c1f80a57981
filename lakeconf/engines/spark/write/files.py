"""Stages the rows of an append: Spark writes files, which the commit registers, or whose rows it inserts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.catalog.data_file import FolderKey, folder_keys
from lakeconf.catalog.file_footers import read_footers
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import ROW_ID, Staged, StagingRequest
from lakeconf.engines.file_names import staging_folder
from lakeconf.engines.lossless import exact_casts, rounded_columns
from lakeconf.engines.schema_check import RESERVED
from lakeconf.engines.spark.internals import cloned_session, rebind
from lakeconf.engines.spark.read.column_reader import FIELD_ID
from lakeconf.engines.spark.spark_types import is_shared
from lakeconf.engines.spark.write.parquet_options import uses_partition_folders
from lakeconf.engines.spark.write.partition_folders import folders, grouped, placed
from lakeconf.engines.spark.write.storage import LakeStorage, remove_folder
from lakeconf.engines.spark.write.written_values import written_value
from lakeconf.sql import files_sql, folded, identifier

# Settings that affect the output of Spark's Parquet writer; all others have the user's values.
_WRITER_SETTINGS = {
    # A cast that would lose data fails the job.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}


def stage_files(storage: LakeStorage, frame: DataFrame, request: StagingRequest) -> Staged:
    """Writes a frame to the staging folder of this write, below the table's folder."""
    table = request.table
    # The frame is already analysed by its own session. The columns added here are analysed with the private settings.
    rebound = rebind(frame, writing_session(frame.sparkSession))
    by_name = {folded(name): name for name in frame.columns}
    columns = [written_value(rebound, by_name[folded(column.name)], column, table) for column in table.columns]
    if request.row_ids:
        columns.append(F.col(ROW_ID).alias(INTERNAL_ROW_ID.name, metadata={FIELD_ID: INTERNAL_ROW_ID.field_id}))
    rows, keys = rebound.select(*columns), _keys(storage.writer, request)
    with storage.removed_after_errors(request):
        if keys:
            rows = grouped(rows, keys)
        written = storage.write(rows, request, by=rows.columns[len(columns) :])
        counts = {footer.path: footer.row_count for footer in read_footers(storage.writer, list(written))}
        return _staged(storage, counts, request, keys)


def _keys(writer: Connection, request: StagingRequest) -> tuple[FolderKey, ...]:
    """The partition keys, if files of the partitions can be committed."""
    table = request.table
    # A reserved name could be that of a column that separates the partitions.
    if not all(is_shared(column) and not folded(column.name).startswith(RESERVED) for column in table.columns):
        return ()
    keys = folder_keys(table, registered=request.registered)
    return keys if keys and uses_partition_folders(writer, table) else ()


def _staged(
    storage: LakeStorage, files: Mapping[str, int], request: StagingRequest, keys: Sequence[FolderKey]
) -> Staged:
    """Decides how the commit uses files: it registers them, or inserts their rows."""
    types, folder = request.types, staging_folder(request.table, request.token)
    count = sum(files.values())
    filled = [path for path, rows in files.items() if rows]
    if not filled:
        remove_folder(storage.spark, folder)
        return no_rows(request)
    # A task without rows writes a file too, if it is the first one.
    for path in files.keys() - set(filled):
        remove_folder(storage.spark, path)
    writer = storage.writer
    folder_of = folders(writer, filled, keys) if keys else {}
    if folder_of:
        left = [path for path in filled if path not in folder_of]
        with placed(storage, folder_of, request) as moved:
            source = staged_source(writer, [*moved.values(), *left], types)
            rest = staged_source(writer, left, types) if left else None
            return Staged(source, tuple(moved.values()), rest, folder=folder, row_count=count)
    return in_folder(writer, filled, request, count)


def no_rows(request: StagingRequest) -> Staged:
    """The result of a write without rows."""
    types = request.types.items()
    empty = ", ".join(f"CAST(NULL AS {type_name}) AS {identifier(name)}" for name, type_name in types)
    folder = staging_folder(request.table, request.token)
    return Staged(f"SELECT {empty} LIMIT 0", folder=folder, row_count=0, keeps_files=False)


def in_folder(writer: Connection, files: Sequence[str], request: StagingRequest, count: int) -> Staged:
    """The result of a write whose files are in its staging folder."""
    table, folder = request.table, staging_folder(request.table, request.token)
    source = staged_source(writer, files, request.types)
    # DuckLake's compaction fails with an internal error if the files of a partition are in several folders.
    if table.partition_fields or not all(map(is_shared, table.columns)):
        return Staged(source, folder=folder, row_count=count, keeps_files=False)
    return Staged(source, files=tuple(files), folder=folder, row_count=count)


def staged_source(writer: Connection, paths: Sequence[str], types: Mapping[str, str]) -> str:
    """The query that reads staged files and casts them to a table's types."""
    files = files_sql("read_parquet", paths)
    file_types = {name: text for name, text, *_ in writer.rows(f"DESCRIBE SELECT * FROM {files}")}
    source = f"SELECT {exact_casts(file_types, types)} FROM {files}"
    rounded = rounded_columns(file_types, types)
    if rounded:
        writer.rows(f"SELECT {', '.join(f'count({identifier(name)})' for name in rounded)} FROM ({source})")
    return source


def writing_session(spark: SparkSession) -> SparkSession:
    """A session with the user's settings, except for those of the writer."""
    private = cloned_session(spark)
    for key, value in _WRITER_SETTINGS.items():
        private.conf.set(key, value)
    return private
