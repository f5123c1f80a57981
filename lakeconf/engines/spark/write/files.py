"""Stages the rows of a write: executors write Parquet files that DuckLake can register, and nobody sees them yet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from lakeconf.catalog.table import Column, TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.connection.errors import refused_value
from lakeconf.engines.base import Staged
from lakeconf.engines.exact_casts import exact_casts, rounded_columns
from lakeconf.engines.schema_check import full_name, not_null_violation
from lakeconf.engines.spark.hadoop import catalog_uri, spark_uri
from lakeconf.engines.spark.jobs import run_job
from lakeconf.engines.spark.read.codecs import missing_codec
from lakeconf.engines.spark.read.column_reader import FIELD_ID, quoted
from lakeconf.engines.spark.session import rebind
from lakeconf.engines.spark.types import spark_type
from lakeconf.engines.spark.write.parquet_options import parquet_options
from lakeconf.engines.spark.write.placeholders import without_placeholders
from lakeconf.engines.staging import staging_folder
from lakeconf.errors import SchemaError, SparkError, StorageError
from lakeconf.sql import folded, identifier, literal

# What the public registration of files takes from Spark as it is; see ducklake_add_data_files.
_REGISTERED = {
    *("boolean", "int8", "int16", "int32", "int64", "float32", "float64"),
    *("varchar", "blob", "date", "timestamp", "timestamptz", "struct", "list", "map"),
}
# What decides how Spark's Parquet writer writes; everything else is as the user has it.
_WRITER_SETTINGS = {
    # A cast that would lose something ends the job.
    "spark.sql.ansi.enabled": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.parquet.writeLegacyFormat": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.fieldId.write.enabled": "true",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.sources.partitionOverwriteMode": "static",
    "spark.sql.sources.useV1SourceList": "parquet",
    "spark.sql.sources.commitProtocolClass": (
        "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol"
    ),
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
    # With version 2 each task moves its files to the folder itself: those of a task that ends while it moves them stay.
    "mapreduce.fileoutputcommitter.algorithm.version": "1",
    # Files besides those of the tasks: they would be removed again.
    "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    "parquet.summary.metadata.level": "NONE",
}
_NULL_FOUND = "LAKECONF_NOT_NULL"


def stage_files(
    spark: SparkSession,
    frame: DataFrame,
    table: TableInfo,
    types: Mapping[str, str],
    writer: Connection,
    location: str,
    token: str,
) -> Staged:
    """Writes a frame into a folder of this write's own below the table's folder.

    Args:
        spark: The user's session.
        frame: A frame whose columns have been checked against the table.
        table: The table.
        types: The table's columns and their types, in DuckDB's names.
        writer: The connection that will commit; it reads the footers.
        location: The lake's data path, as the catalog has it.
        token: The name of this write, which names the folder.

    Returns:
        The files, or, where the registration would not take them, the query that reads them.

    Raises:
        SchemaError: A column that is NOT NULL has a NULL.
        SparkError: The job failed.
    """
    folder = staging_folder(table, token)
    # The frame is analysed already, as its session has it; what is added here is analysed with the private settings.
    rebound = rebind(frame, writing_session(frame.sparkSession))
    by_name = {folded(name): name for name in frame.columns}
    columns = [_value(rebound, by_name[folded(column.name)], column, full_name(table)) for column in table.columns]
    written = rebound.select(*columns)
    # What Spark takes for a row where it knows nothing of the values.
    row_width = int(written._jdf.schema().defaultSize())  # noqa: SLF001
    options = parquet_options(writer, table, row_width)
    try:
        job = written.write.options(**options).mode("error")
        run_job(spark, lambda: job.parquet(spark_uri(folder)), token)
        files = _row_counts(writer, [catalog_uri(path, location) for path in parquet_files(spark, folder)])
    except BaseException as error:
        remove_folder(spark, folder)
        raise translated(error) from error
    count = sum(files.values())
    filled = [path for path, found in files.items() if found]
    if not filled:
        remove_folder(spark, folder)
        empty = ", ".join(f"CAST(NULL AS {type_name}) AS {identifier(name)}" for name, type_name in types.items())
        return Staged(f"SELECT {empty} LIMIT 0", folder=folder, row_count=0, keeps_files=False)
    source = staged_source(writer, filled, types)
    # DuckLake's compaction ends in an internal error where the files of a partition lie in several folders.
    if table.partition_fields or not all(map(is_registered, table.columns)):
        return Staged(source, folder=folder, row_count=count, keeps_files=False)
    return Staged(source, files=tuple(filled), folder=folder, row_count=count)


def staged_source(writer: Connection, paths: Sequence[str], types: Mapping[str, str]) -> str:
    """The query that reads staged files in a table's types.

    Args:
        writer: The connection that will commit.
        paths: The files, at least one.
        types: The columns, and the types that they get, in DuckDB's names.

    Raises:
        SchemaError: A type would round a value.
    """
    listed = ", ".join(map(literal, paths))
    files = f"read_parquet([{listed}], hive_partitioning = false)"
    found = {name: text for name, text, *_ in writer.rows(f"DESCRIBE SELECT * FROM {files}")}
    source = f"SELECT {exact_casts(found, types)} FROM {files}"
    rounded = rounded_columns(found, types)
    if rounded:
        writer.rows(f"SELECT {', '.join(f'count({identifier(name)})' for name in rounded)} FROM ({source})")
    return source


def remove_folder(spark: SparkSession, folder: str) -> None:
    """Removes a folder of staged files; it need not exist."""
    path = _path(spark, folder)
    path.getFileSystem(_hadoop(spark)).delete(path, True)  # noqa: FBT003 - recursive, of Java's interface


def duckdb_schema(frame: DataFrame) -> dict[str, str]:
    """The columns of a frame and their types, in DuckDB's names.

    Raises:
        SchemaError: DuckDB has no such type.
    """
    names = [folded(name) for name in frame.columns]
    for name in names:
        if names.count(name) > 1:
            raise SchemaError(f"the frame has two columns {name!r}", hint="rename one of them")
    return {field.name: _duckdb_type(field.name, field.dataType) for field in frame.schema.fields}


_DUCKDB = {
    "boolean": "BOOLEAN",
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp_ntz": "TIMESTAMP",
    "timestamp": "TIMESTAMP WITH TIME ZONE",
    "void": '"NULL"',
}


def _duckdb_type(name: str, found: DataType) -> str:
    if isinstance(found, StructType):
        fields = (f"{identifier(field.name)} {_duckdb_type(name, field.dataType)}" for field in found.fields)
        return f"STRUCT({', '.join(fields)})"
    if isinstance(found, ArrayType):
        return f"{_duckdb_type(name, found.elementType)}[]"
    if isinstance(found, MapType):
        return f"MAP({_duckdb_type(name, found.keyType)}, {_duckdb_type(name, found.valueType)})"
    text = found.simpleString()
    if text.startswith("decimal("):
        return text.upper()
    if text.startswith(("varchar(", "char(")):
        return "VARCHAR"
    if text not in _DUCKDB:
        raise SchemaError(f"the frame's column {name!r} is of Spark's type {text}, which DuckLake has not")
    return _DUCKDB[text]


def _value(frame: DataFrame, name: str, column: Column, table: str) -> SparkColumn:
    """The column of the frame as it is written: its type, its name and its field ids are the table's."""
    found = F.col(quoted(name))
    if is_registered(column):
        found = found.cast(_stored(column))
    elif isinstance(frame.schema[name].dataType, NullType):
        # Parquet has no type for it; DuckDB casts from text to every type.
        found = found.cast("string")
    found = without_placeholders(found, frame.select(found).schema[0].dataType, column.name)
    if not column.nullable:
        message = f"{_NULL_FOUND} {not_null_violation(column.name, table).message}"
        found = F.coalesce(found, F.raise_error(F.lit(message)).cast(frame.select(found).schema[0].dataType))
    return found.alias(column.name, metadata={FIELD_ID: column.field_id})


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


def is_registered(column: Column) -> bool:
    """True where files that Spark writes can be registered for the column's type as they are."""
    known = column.type in _REGISTERED or column.type.startswith("decimal(")
    return known and all(map(is_registered, column.children))


def writing_session(spark: SparkSession) -> SparkSession:
    """A session with the user's settings, but for those of the writer."""
    private = spark.newSession()
    for key, value in {**spark.conf.getAll, **_WRITER_SETTINGS}.items():
        if private.conf.isModifiable(key) or not key.startswith("spark."):
            private.conf.set(key, value)
    return private


def parquet_files(spark: SparkSession, folder: str) -> list[str]:
    """The Parquet files of a folder; what else Spark leaves there, markers and checksums, is removed."""
    path = _path(spark, folder)
    system = path.getFileSystem(_hadoop(spark))
    if system.getScheme() == "file":
        # The usual one hides the checksums.
        jvm: Any = spark._jvm  # noqa: SLF001
        system = jvm.org.apache.hadoop.fs.FileSystem.getLocal(_hadoop(spark)).getRaw()
    found = system.listFiles(path, True)  # noqa: FBT003 - recursive, of Java's interface
    parquet = []
    while found.hasNext():
        file = found.next().getPath()
        if file.getName().endswith(".parquet"):
            parquet.append(str(file.toString()))
        else:
            system.delete(file, False)  # noqa: FBT003 - not recursive, of Java's interface
    return sorted(parquet)


def _row_counts(writer: Connection, paths: list[str]) -> dict[str, int]:
    if not paths:
        return {}
    listed = ", ".join(map(literal, paths))
    counts = dict(writer.rows(f"SELECT file_name, num_rows FROM parquet_file_metadata([{listed}])"))
    return {path: counts[path] for path in paths}


def translated(error: BaseException) -> BaseException:
    """The error of a job that writes, as one of ours where Spark raised it."""
    if not isinstance(error, (PySparkException, Py4JJavaError)):
        return error
    unread = missing_codec(error)
    if unread is not None:
        return unread
    text = str(error)
    if _NULL_FOUND in text:
        found = text.partition(_NULL_FOUND)[2].splitlines()[0].strip()
        return SchemaError(found, hint=not_null_violation("", "").hint)
    refused = refused_value(text)
    if refused is not None:
        return refused
    if "No space left" in text or "AccessDenied" in text or "Permission denied" in text or "Mkdirs failed" in text:
        return StorageError(f"Spark cannot write the files: {text.splitlines()[0]}")
    return SparkError(f"the Spark job that writes the rows failed: {_reason(text)}")


def _reason(text: str) -> str:
    """The line of Spark's message that says what is wrong: for Python code of the user, the end of its traceback."""
    first, _, traceback = text.partition("Traceback (most recent call last):\n")
    ends = [line for line in traceback.splitlines() if line.strip() and not line.startswith(" ")]
    return (ends or first.splitlines())[0]


def _path(spark: SparkSession, folder: str) -> Any:
    jvm: Any = spark._jvm  # noqa: SLF001
    return jvm.org.apache.hadoop.fs.Path(spark_uri(folder))


def _hadoop(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
