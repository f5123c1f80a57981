"""The schemas of Parquet files, from footers that DuckDB reads: a client of Spark Connect cannot let Spark do it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lakeconf.catalog.changes import ChangesPlan
from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import Column
from lakeconf.engines.spark.hadoop import spark_paths, spark_uri
from lakeconf.engines.spark.read.change_feed import changed
from lakeconf.engines.spark.read.executor_code import Tasks
from lakeconf.engines.spark.read.file_index import (
    OPTIONS,
    WITHOUT_CHECKSUMS,
    File,
    Stored,
    check_size,
    group_type_name,
    leaf_type_name,
    remembered,
)
from lakeconf.engines.spark.read.scan import scanned
from lakeconf.engines.spark.read.scan_source import FAILURE
from lakeconf.errors import LakeconfError, SparkError, StorageError, UnsupportedError
from lakeconf.sql import files_sql

_COLUMNS = "name, type, repetition_type, num_children, converted_type, scale, precision, field_id, logical_type"


_PHYSICAL = {"BYTE_ARRAY": "BINARY"}


# Logical types without parameters, by DuckDB's name and by the older `converted_type`.
_PLAIN = {
    **{f"{name.title()}Type()": name for name in ("STRING", "ENUM", "JSON", "DATE", "LIST", "MAP")},
    "UUIDType()": "UUID",
    "UTF8": "STRING",
    "MAP_KEY_VALUE": "MAP",
    **{name: name for name in ("ENUM", "JSON", "DATE", "INTERVAL", "LIST", "MAP")},
    **{f"INT_{bits}": f"INTEGER({bits},true)" for bits in (8, 16, 32, 64)},
    **{f"UINT_{bits}": f"INTEGER({bits},false)" for bits in (8, 16, 32, 64)},
    # Without a logical type, times and timestamps are those of UTC.
    **{f"{kind}_{unit}": f"{kind}({unit},true)" for kind in ("TIME", "TIMESTAMP") for unit in ("MILLIS", "MICROS")},
}


_NUMBER = re.compile(r"IntType\(bitWidth=(\d+), isSigned=([01])\)")


_MOMENT = re.compile(r"(Time|Timestamp)Type\(isAdjustedToUTC=([01]), unit=.*?(MILLIS|MICROS|NANOS)=(?!<null>)")


def stored_schemas(reader: CatalogReader, files: Sequence[tuple[str, int]]) -> list[Stored]:
    """The schema of each file: a struct of its columns.

    Args:
        reader: The lake; its connection can read the files.
    """
    return remembered(files, lambda unknown: _read(reader, [path for path, _ in unknown]))


def _read(reader: CatalogReader, paths: Sequence[str]) -> list[Stored]:
    found: dict[str, list[tuple[Any, ...]]] = {path: [] for path in paths}
    try:
        with reader.lake_cursor() as cursor:
            rows = cursor.rows(f"SELECT file_name, {_COLUMNS} FROM {files_sql('parquet_schema', paths)}")
    except LakeconfError as error:
        raise StorageError(f"a file of the table cannot be read: {error.message}") from error
    for path, *row in rows:
        if path not in found:
            raise StorageError(f"DuckDB read the footer of another file than those of the table: {path}")
        found[path].append(tuple(row))
    if not all(found.values()):
        raise StorageError(f"the footer of {next(path for path in paths if not found[path])} was not found")
    # Equal schemas are one object.
    schemas: dict[Stored, Stored] = {}
    return [schemas.setdefault(schema, schema) for schema in map(_file, found.values())]


def _file(schema: Sequence[tuple[Any, ...]]) -> Stored:
    rows = iter(schema)
    return Stored("", None, "struct", _fields(rows, next(rows)[3]))


def _fields(rows: Iterator[tuple[Any, ...]], count: int) -> tuple[Stored, ...]:
    return tuple(_field(rows) for _ in range(count))


def _field(rows: Iterator[tuple[Any, ...]]) -> Stored:
    """The next field of a schema in depth-first order."""
    name, physical, repetition, count, converted, scale, precision, field_id, logical = next(rows)
    annotation = _annotation(converted, scale, precision, logical)
    children = _fields(rows, count or 0)
    if count:
        type_, children = group_type_name(children, annotation)
    else:
        type_ = leaf_type_name(_PHYSICAL.get(physical, physical), annotation)
    if repetition == "REPEATED":
        type_ = f"REPEATED {type_}"
    return Stored(name, field_id, type_, children)


def _annotation(converted: str | None, scale: int | None, precision: int | None, logical: str | None) -> str:
    """The logical type as Spark's Parquet library writes it."""
    text = logical or ""
    if text.startswith("DecimalType") or converted == "DECIMAL":
        return f"DECIMAL({precision},{scale or 0})"
    moment, number = _MOMENT.match(text), _NUMBER.match(text)
    if moment:
        return f"{moment[1].upper()}({moment[3]},{'true' if moment[2] == '1' else 'false'})"
    if number:
        return f"INTEGER({number[1]},{'true' if number[2] == '1' else 'false'})"
    return _PLAIN.get(text) or _PLAIN.get(converted or "") or text.partition("Type(")[0].upper()


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
    """The settings of a session that are not defaults."""
    try:
        return dict(spark.conf.getAll)
    except Exception as error:  # an error of gRPC, or of the session
        raise SparkError(f"the Spark Connect server does not answer: {first_line(error)}") from error


def check_reading(settings: Mapping[str, str]) -> None:
    """Checks the settings before a scan."""
    refuse_other(settings, _READING, "read")
    formats = settings.get(_FORMATS)
    if formats is not None and "parquet" not in formats.lower().split(","):
        raise _refusal(_FORMATS, formats, "read")


def refuse_other(settings: Mapping[str, str], needed: Mapping[str, str], verb: str) -> None:
    """Refuses settings with other values than the needed ones."""
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


# Reading the columns `length` and `modificationTime` asks the storage for the state of the file.
_STATE = "xxhash64(path, length, modificationTime) AS state"


_LISTED = ("_metadata.file_path AS path", "length AS size", _STATE)


_CHANGED = "lakeconf: a file of this scan is missing or was replaced; call scan() again for a new frame"


# The maximum number of files whose state one task asks for.
_BY_ONE_TASK = 100


_DUCKDB = "read the table with DuckDB: store.open()"


class ConnectSource:
    """Finds columns by the names in the files.

    Args:
        spark: The user's session; its settings have been checked.
        reader: The lake; its connection reads footers.
    """

    by_name = True
    # A setting of the session decides; it may change before the scan runs.
    keeps_structs = False
    most_files: int | None = 100

    def __init__(self, spark: SparkSession, reader: CatalogReader) -> None:
        self.session = spark
        self._reader = reader
        self._names: dict[str, str] = {}
        self._files: dict[str, File] = {}
        self._state = 0

    def prepare(self, files: Sequence[File]) -> None:
        """Lists files and compares their sizes with the catalog, in one job for all of them.

        Args:
            files: The files that the scan may read.
        """
        unknown = {file.path: file for file in files if file.path not in self._names}
        if unknown:
            found = self._listing(list(unknown.values()))
            for path, file in unknown.items():
                listed = found.get(_key(spark_uri(path)))
                if listed is None:
                    raise UnsupportedError(f"Spark does not read files of this name: {path}", hint=_DUCKDB)
                check_size(file, listed.size)
                self._names[path] = listed.path
                self._files[path] = file
                self._state ^= listed.state

    def guarded(self, frame: DataFrame) -> DataFrame:
        """The same rows; its jobs fail if a file has changed or is missing since `prepare`.

        Spark computes an uncorrelated subquery before the other tasks of a job, also if no row needs it.
        """
        if not self._files:
            return frame
        tasks = -(-len(self._files) // _BY_ONE_TASK)
        unchanged = f"count(*) = {len(self._files)} AND bit_xor(state) = {self._state}L"
        check = self._states(list(self._files.values())).selectExpr(_STATE).coalesce(tasks)
        check = check.selectExpr(f"IF({unchanged}, true, CAST(raise_error('{_CHANGED}') AS BOOLEAN))")
        return frame.where(check.scalar())

    def relation(
        self,
        files: Sequence[File],
        schema: StructType | None = None,
        *,
        format_name: str = "parquet",
        can_filter: bool = True,
    ) -> DataFrame:
        if not can_filter:
            raise UnsupportedError(
                f"{files[0].path} has timestamps in milliseconds, and Spark would filter them incorrectly",
                hint=_DUCKDB,
            )
        self.prepare(files)
        reader = self.session.read.format(format_name).options(**OPTIONS)
        if schema is not None:
            reader = reader.schema(schema)
        if any(":" in file.path.rpartition("/")[2] for file in files):
            reader = reader.options(**WITHOUT_CHECKSUMS)
        return reader.load(spark_paths(file.path for file in files))

    def file_number(self, files: Sequence[File]) -> SparkColumn:
        return self.of_file(files, range(len(files)))

    def of_file(self, files: Sequence[File], values: Sequence[int]) -> SparkColumn:
        # Comparing paths is slow.
        by_size = len({file.file_size_bytes for file in files}) == len(files)
        key = F.col(f"_metadata.{'file_size' if by_size else 'file_path'}")
        known = [file.file_size_bytes if by_size else self._names[file.path] for file in files]
        found = F.when(key == F.lit(known[0]), F.lit(values[0]).cast("long"))
        for each, value in zip(known[1:], values[1:], strict=True):
            found = found.when(key == F.lit(each), F.lit(value).cast("long"))
        return found.otherwise(F.expr(FAILURE))

    def contents(self, files: Sequence[DataFile]) -> dict[str, Stored]:
        self.prepare(files)
        schemas = stored_schemas(self._reader, [(file.path, file.file_size_bytes) for file in files])
        return {file.path: stored for file, stored in zip(files, schemas, strict=True)}

    def kept_rows(self, files: Sequence[DataFile], snapshot_id: int) -> None:
        """Always None: a client cannot make an array of many numbers in a plan."""

    def shared(self, tasks: Sequence[Any]) -> Tasks:
        if any(task.key is not None or task.delete_key is not None for task in tasks):
            raise UnsupportedError(
                f"{tasks[0].path} is encrypted, and the key would be visible in a plan of Spark Connect",
                hint="read the table with DuckDB: store.open(), or with a classic Spark session",
            )
        return Tasks(tuple(tasks))

    def named(self, name: str) -> SparkColumn:
        return F.col(name)

    def renamed(self, column: SparkColumn, name: str) -> SparkColumn:
        return column.alias(name)

    def check_types(self, parts: Sequence[DataFrame], schema: StructType) -> None:
        planned = _plain(schema)
        for part in parts:
            try:
                found = part.schema
            except PySparkException as error:
                raise UnsupportedError(
                    f"Spark cannot read files of the table: {first_line(error)}", hint=_DUCKDB
                ) from error
            if _plain(found) != planned:
                raise UnsupportedError(
                    f"Spark would read files of the table as {found.simpleString()}, but the table is "
                    f"{schema.simpleString()}",
                    hint="read the table with DuckDB, and report this as a bug of lakeconf",
                )

    def _listing(self, files: Sequence[File]) -> dict[str, Row]:
        try:
            rows = self._states(files).selectExpr(*_LISTED).collect()
        except PySparkException as error:
            text = first_line(error)
            missing = next((file for file in files if spark_uri(file.path).rpartition("//")[2] in text), None)
            if "PATH_NOT_FOUND" in text and missing is not None:
                raise StorageError(f"{missing.path} is missing, but the catalog lists it") from error
            raise StorageError(f"Spark cannot open the files of the table: {text}") from error
        if len(rows) > len(files):
            raise StorageError(f"Spark would read {len(rows)} files in place of {len(files)}")
        return {_key(unquote(row.path)): row for row in rows}

    def _states(self, files: Sequence[File]) -> DataFrame:
        """A frame with a row for each file, in the format that reads any file; its content is not read."""
        reader = self.session.read.format("binaryFile").options(**OPTIONS, **WITHOUT_CHECKSUMS)
        return reader.load(spark_paths(file.path for file in files))


def _key(uri: str) -> str:
    """A URI in the form in which Spark and the catalog can be compared."""
    return re.sub("^file:/+", "/", uri)


def _plain(found: DataType) -> DataType:
    """A type without nullability and metadata."""
    if isinstance(found, StructType):
        return StructType([StructField(field.name, _plain(field.dataType)) for field in found.fields])
    if isinstance(found, ArrayType):
        return ArrayType(_plain(found.elementType))
    if isinstance(found, MapType):
        return MapType(_plain(found.keyType), _plain(found.valueType))
    return found


def read(
    spark: SparkSession, reader: CatalogReader, plan: ScanPlan, inlined: pa.Table | None, *, row_ids: bool = False
) -> DataFrame:
    """The rows of a plan as a frame of the user's session. Reads no rows yet.

    Args:
        spark: The user's session; its settings do not change.
        inlined: The rows in the catalog, as `catalog.scan.inlined_rows` returns them; None if there are none.
    """
    source = _source(spark, reader, [plan])
    return source.guarded(scanned(source, plan, inlined, row_ids=row_ids))


def read_changes(spark: SparkSession, reader: CatalogReader, plan: ChangesPlan, inlined: pa.Table) -> DataFrame:
    """The changes of a plan as a frame of the user's session; see `lakeconf.engines.spark.read.change_feed`.

    Args:
        spark: The user's session; its settings do not change.
        inlined: The rows in the catalog, as `catalog.inlined_changes.changed_inlined_rows` returns them.
    """
    source = _source(spark, reader, [plan.inserted, plan.deleted])
    return source.guarded(changed(source, plan, inlined))


def _source(spark: SparkSession, reader: CatalogReader, plans: Sequence[ScanPlan]) -> ConnectSource:
    """The source of a scan; the files of all plans have been checked in one job."""
    check_reading(settings_of(spark))
    source = ConnectSource(spark, reader)
    for plan in plans:
        _refuse_alike(plan.columns)
        paths = Counter(file.path for file in plan.files)
        if len(paths) < len(plan.files):
            twice, _ = paths.most_common(1)[0]
            raise StorageError(f"the catalog lists {twice} twice, and Spark would read it once")
    files = [file for plan in plans for file in plan.files]
    source.prepare([*files, *(file.delete_file for file in files if file.delete_file is not None)])
    return source


def _refuse_alike(columns: Sequence[Column]) -> None:
    """Refuses names that a session may not tell apart: unlike DuckDB, it ignores the case of all letters."""
    names = [column.name for column in columns]
    if len({name.lower() for name in names}) < len(names):
        raise UnsupportedError(
            f"two columns have names that differ only by case: {', '.join(names)}",
            hint="select one of them with scan(columns=…), or read the table with DuckDB",
        )
