"""Files of partitioned tables: Spark writes files with one partition each, and they are moved to DuckLake's folders.

Spark only separates the rows of different partitions. DuckDB computes the partition values from the statistics in the
files' footers, so a registered file has the values that DuckDB itself would record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StringType, StructField, StructType

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.data_file import NULL_VALUE, FolderKey, folder_keys
from lakeconf.catalog.file_footers import are_text_sql, chunks_sql, is_path_sql, read_footers
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import ROW_ID, Staged, StagingRequest, placed_path, staging_folder
from lakeconf.engines.schema_check import RESERVED, exact_casts, not_null_violation, rounded_columns
from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.internals import cloned_session, move_file, rebind
from lakeconf.engines.spark.read.column_reader import FIELD_ID, quoted
from lakeconf.engines.spark.spark_types import is_shared, spark_type
from lakeconf.engines.spark.write.parquet_options import uses_partition_folders
from lakeconf.engines.spark.write.storage import NULL_FOUND, LakeStorage, in_order, remove_folder, without_placeholders
from lakeconf.errors import StorageError
from lakeconf.sql import files_sql, folded, identifier, literal

# With these settings, Spark splits a large partition among several tasks.
_SPLITS = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.optimizeSkewsInRebalancePartitions.enabled")
GROUP = f"{RESERVED}group_"
# The longest name of a folder in common file systems.
_LONGEST_NAME = 255
# Moves that run at the same time: in a bucket, each waits for the server.
_THREADS = 16


def grouped(frame: DataFrame, keys: Sequence[FolderKey]) -> DataFrame:
    """Adds a column for each key that separates its values, and distributes the rows by these columns."""
    for setting in _SPLITS:
        frame.sparkSession.conf.set(setting, "true")
    groups = {f"{GROUP}{index}": _group(key) for index, key in enumerate(keys)}
    return frame.withColumns(groups).hint("rebalance", *groups)


def _group(key: FolderKey) -> SparkColumn:
    value = F.col(quoted(key.column.name))
    if key.transform == "identity":
        # If two values have the same hash, the footers of their file show it.
        return F.xxhash64(value)
    parts = {"year": F.year, "month": F.month, "day": F.dayofmonth, "hour": F.hour}
    return parts[key.transform](value)


def folders(writer: Connection, paths: Sequence[str], keys: Sequence[FolderKey]) -> dict[str, str]:
    """The folder of each file below the folder of its table, as DuckLake names it, with a trailing slash.

    Leaves out files that must not be registered: those whose statistics do not prove their partition, and those whose
    value would be read as NULL or is too long for a folder.
    """
    if not paths:
        return {}
    parts = " UNION ALL ".join(_values_sql(index, key) for index, key in enumerate(keys))
    return dict(
        writer.rows(f"""
            WITH chunk AS MATERIALIZED ({chunks_sql(paths)}), part AS (
                SELECT file_name, number, any_value(part) AS part FROM ({parts}) GROUP BY file_name, number
                HAVING count(part) = count(*) AND count(DISTINCT encode(part)) = 1
            )
            SELECT file_name, string_agg(part, '' ORDER BY number) FROM part
            GROUP BY file_name HAVING count(*) = {len(keys)}""")
    )


def _values_sql(number: int, key: FolderKey) -> str:
    """The query for the part of the path of each row group, such as `day=2024-01-01/`; NULL if it is not certain."""
    type_name = duckdb_name(key.column.type)
    low, high = (f"TRY_CAST({bound} AS {type_name})" for bound in ("low", "high"))
    if key.transform != "identity":
        low, high = f"{key.transform}({low})", f"{key.transform}({high})"
    low, high = f"CAST({low} AS VARCHAR)", f"CAST({high} AS VARCHAR)"
    if key.column.type == "timestamptz":
        # DuckDB writes these bounds and DuckLake its folders in UTC; a cast uses the time zone of the session, without
        # the seconds of its offset.
        low, high = "low", "high"
    is_certain = f"nulls = 0 AND encode({low}) = encode({high})"
    if key.column.type == "varchar":
        is_certain += f" AND encode(upper({low})) <> encode('NULL') AND encode({low}) <> encode({literal(NULL_VALUE)})"
        is_certain += f" AND {are_text_sql(low)}"
    name = f"url_encode({literal(key.name)})"
    value = f"CASE WHEN nulls = row_count THEN {literal(NULL_VALUE)} WHEN {is_certain} THEN url_encode({low}) END"
    return f"""
        SELECT file_name, {number} AS number,
            CASE WHEN length(folder) <= {_LONGEST_NAME} THEN folder || '/' END AS part
        FROM (
            SELECT file_name, {name} || '=' || {value} AS folder FROM chunk WHERE {is_path_sql(key.column.name)}
        )"""


@contextmanager
def placed(storage: LakeStorage, folder_of: Mapping[str, str], request: StagingRequest) -> Iterator[dict[str, str]]:
    """Moves staged files to their folders, and removes them if the block raises."""
    moved = {
        path: placed_path(request.table, folder_of[path], request.token, number)
        for number, path in enumerate(sorted(folder_of))
    }
    try:
        with ThreadPoolExecutor(_THREADS) as pool:
            list(pool.map(lambda pair: _move(storage, *pair), moved.items()))
        yield moved
    except BaseException:
        with suppress(Exception):
            for target in moved.values():
                remove_folder(storage.spark, target)
        raise


def _move(storage: LakeStorage, source: str, target: str) -> None:
    if not move_file(storage.spark, spark_uri(source), spark_uri(target)):
        raise StorageError(f"Spark cannot move a staged file to {target}")


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


def written_value(frame: DataFrame, name: str, column: Column, table: TableInfo) -> SparkColumn:
    """A column as it is written, with the table's type, name and field ids."""
    value, data_type = F.col(quoted(name)), frame.schema[name].dataType
    # The type of each value is known here: Spark would analyse the frame again for each column.
    if is_shared(column):
        target = _stored(column)
        if data_type != target:  # the types of nested fields have their field ids
            value, data_type = in_order(value, data_type, target).cast(target), target
    elif isinstance(data_type, NullType):
        # Parquet has no null type; DuckDB casts text to every type.
        value, data_type = value.cast("string"), StringType()
    value = without_placeholders(value, data_type, column.name)
    if not column.nullable:
        message = f"{NULL_FOUND} {not_null_violation(column.name, table.full_name).message}"
        value = F.coalesce(value, F.raise_error(F.lit(message)).cast(data_type))
    return value.alias(column.name, metadata={FIELD_ID: column.field_id})


def _stored(column: Column) -> DataType:
    """The type of a column with the field ids of its fields."""
    if column.type == "struct":
        fields = [
            StructField(child.name, _stored(child), metadata={FIELD_ID: child.field_id}) for child in column.children
        ]
        return StructType(fields)
    if column.type == "list":
        return ArrayType(_stored(column.children[0]))
    if column.type == "map":
        return MapType(_stored(column.children[0]), _stored(column.children[1]))
    return spark_type(column)


def writing_session(spark: SparkSession) -> SparkSession:
    """A session with the user's settings, except for those of the writer."""
    private = cloned_session(spark)
    for key, value in _WRITER_SETTINGS.items():
        private.conf.set(key, value)
    return private
