"""Scans and change feeds over Spark Connect: Spark reads clean files, and DuckDB reads the others inside executors."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, LongType, MapType, StringType, StructField, StructType

from lakeconf.catalog.changes_plan import KEY, ChangesPlan
from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.partial_lake import refuse_encrypted
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column
from lakeconf.engines.spark.hadoop import spark_paths, spark_uri
from lakeconf.engines.spark.read.column_places import ColumnPlace, assumed_by_name, needs_footer
from lakeconf.engines.spark.read.column_reader import quoted, reading, requested
from lakeconf.engines.spark.read.file_index import OPTIONS, WITHOUT_CHECKSUMS, File, check_size
from lakeconf.engines.spark.read.groups import is_readable, known_contents, mapped_places
from lakeconf.engines.spark.read.native_scan import inlined_frame, refuse_columns, refuse_timetz
from lakeconf.engines.spark.read.parts import (
    ChangePart,
    FileAccess,
    FilePart,
    Sent,
    in_executors,
    pickled,
    stream_of,
    with_deletes,
)
from lakeconf.engines.spark.spark_types import first_line, spark_schema
from lakeconf.errors import SparkError, StorageError, UnsupportedError

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
# Reading the columns `length` and `modificationTime` asks the storage for the state of the file.
_STATE = "xxhash64(path, length, modificationTime) AS state"
_LISTED = ("_metadata.file_path AS path", "length AS size", _STATE)
_CHANGED = "lakeconf: a file of this scan is missing or was replaced; call scan() again for a new frame"
# The maximum number of files whose state one task asks for.
_BY_ONE_TASK = 100
_DUCKDB = "read the table with DuckDB: store.open()"


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
    """Rejects settings with other values than the needed ones."""
    for key, value in needed.items():
        actual = settings.get(key, value)
        if actual.strip().lower() != value.lower():
            raise _refusal(key, actual, verb)


def _refusal(key: str, actual: str, verb: str) -> UnsupportedError:
    return UnsupportedError(
        f"the Spark session has {key} = {actual}, with which Spark may {verb} other rows; lakeconf cannot override it "
        "on Spark Connect",
        hint=f"reset it: spark.conf.unset({key!r}); or use another session: store.open(spark.newSession())",
    )


class ConnectSource:
    """The files of one scan."""

    def __init__(self, spark: SparkSession) -> None:
        self.session = spark
        self._names: dict[str, str] = {}
        self._files: dict[str, File] = {}
        self._state = 0

    def prepare(self, files: Sequence[File]) -> None:
        """Lists files and compares their sizes with the catalog, in one job for all of them."""
        self._files = {file.path: file for file in files}
        if len(self._files) < len(files):
            twice, _ = Counter(file.path for file in files).most_common(1)[0]
            raise StorageError(f"the catalog lists {twice} twice, and Spark would read it once")
        listing = self._listing(files) if files else {}
        for file in files:
            listed = listing.get(_key(spark_uri(file.path)))
            if listed is None:
                raise UnsupportedError(f"Spark does not read files of this name: {file.path}", hint=_DUCKDB)
            check_size(file, listed.size)
            self._names[file.path] = listed.path
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

    def parquet(self, files: Sequence[DataFile], schema: StructType) -> DataFrame:
        """The rows of some files as Spark's Parquet reader returns them, with columns found by name."""
        reader = self.session.read.format("parquet").options(**OPTIONS).schema(schema)
        if any(":" in file.path.rpartition("/")[2] for file in files):
            reader = reader.options(**WITHOUT_CHECKSUMS)
        return reader.load(spark_paths(file.path for file in files))

    def by_duckdb(self, part: FilePart | ChangePart, files: Sequence[DataFile], schema: StructType) -> DataFrame:
        """The rows of a part, which DuckDB reads inside executors."""
        rows = self._states(files).select("_metadata.file_path") if files else self.session.range(1)
        # One task computes all changes.
        rows = rows.coalesce(1) if isinstance(part, ChangePart) else rows
        keys = {self._names[file.path]: file for file in files}
        return in_executors(rows, Sent(pickled(part, keys, schema)), schema)

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


def _plain(data_type: DataType) -> DataType:
    """A type without nullability and metadata."""
    if isinstance(data_type, StructType):
        return StructType([StructField(field.name, _plain(field.dataType)) for field in data_type.fields])
    if isinstance(data_type, ArrayType):
        return ArrayType(_plain(data_type.elementType))
    if isinstance(data_type, MapType):
        return MapType(_plain(data_type.keyType), _plain(data_type.valueType))
    return data_type


def read(spark: SparkSession, access: FileAccess, plan: ScanPlan, inlined: pa.Table | None) -> DataFrame:
    """The rows of a plan as a frame of the user's session. Reads no rows yet."""
    _refuse_alike(plan.columns)
    schema = spark_schema(plan.columns)
    clean, others = _divided(plan)
    source, parts = ConnectSource(spark), []
    source.prepare(with_deletes(plan.files))
    if clean:
        check_reading(settings_of(spark))
        parts.append(_clean_frame(source, plan, clean))
    if others:
        refuse_columns(plan.columns)
        refuse_encrypted(plan)
        parts.append(source.by_duckdb(FilePart(access, replace(plan, files=())), others, schema))
    if inlined is not None and inlined.num_rows:
        parts.append(inlined_frame(spark, plan.columns, inlined, []))
    if not parts:
        parts.append(spark.createDataFrame([], schema))
    _check_types(parts, schema)
    return source.guarded(reduce(DataFrame.unionAll, parts))


def read_changes(spark: SparkSession, access: FileAccess, plan: ChangesPlan, inlined: pa.Table) -> DataFrame:
    """The changes of a plan as a frame of the user's session. One task of DuckDB reads them."""
    columns = plan.inserted.columns
    refuse_columns(columns)
    refuse_encrypted(plan.inserted)
    refuse_encrypted(plan.deleted)
    if inlined.num_rows:
        refuse_timetz(columns)
    files = list({file.path: file for file in (*plan.inserted.files, *plan.deleted.files)}.values())
    deletes = [file for each in plan.deletes for file, _ in each.files]
    source = ConnectSource(spark)
    source.prepare([*with_deletes(files), *deletes])
    key = [StructField(name, StringType() if name == "change_type" else LongType()) for name in KEY]
    part = ChangePart(access, plan, stream_of(inlined), columns, kinds=True)
    return source.guarded(source.by_duckdb(part, files, StructType([*key, *spark_schema(columns).fields])))


def _divided(plan: ScanPlan) -> tuple[list[DataFile], list[DataFile]]:
    """The clean files of a plan, in which Spark finds the columns of the table by name, and the others."""
    assumed = tuple(map(assumed_by_name, plan.columns))
    if _are_alike(plan.table.columns) or not all(map(_is_clean, plan.columns)) or not is_readable(plan, assumed):
        return [], list(plan.files)
    contents = known_contents(plan)
    clean: list[DataFile] = []
    others: list[DataFile] = []
    for file in plan.files:
        is_plain = file.encryption_key is None and file.snapshot_filter is None
        is_whole = file.delete_file is None and not file.inlined_deletes
        places: Sequence[ColumnPlace | None] = assumed
        if file.mapping_id is not None:
            places = mapped_places(plan, file, contents[file.path].children) if file.path in contents else (None,)
        same = all(place in (None, at) for place, at in zip(places, assumed, strict=False)) and any(places)
        (clean if is_plain and is_whole and same else others).append(file)
    return clean, others


def _is_clean(column: Column) -> bool:
    """True if a column has always had its name, its type and its fields."""
    is_same = column.name_is_unique and column.initial_default is None and all(map(_is_clean, column.children))
    return is_same and not needs_footer(column, keeps_structs=False)


def _are_alike(columns: Sequence[Column]) -> bool:
    """True if two names differ only by case: a session that ignores the case cannot tell them apart."""
    names = [column.name.lower() for column in columns]
    return len(set(names)) < len(names) or any(_are_alike(column.children) for column in columns)


def _clean_frame(source: ConnectSource, plan: ScanPlan, files: Sequence[DataFile]) -> DataFrame:
    """The rows of clean files."""
    places = list(map(assumed_by_name, plan.columns))
    readings = [how for column, place in zip(plan.columns, places, strict=True) if (how := reading(column, place))]
    fields = [requested(place, how.type) for place, how in zip(places, readings, strict=True)]
    rows = source.parquet(files, StructType(fields))
    values = []
    for place, how in zip(places, readings, strict=True):
        value = F.col(quoted(place.name))
        values.append((value if how.convert is None else how.convert(value)).alias(place.name))
    return rows.select(*values)


def _check_types(parts: Sequence[DataFrame], schema: StructType) -> None:
    """Checks that all parts of a union have the names and types of the plan: a union would cast the other parts."""
    planned = _plain(schema)
    for part in parts:
        try:
            part_schema = part.schema
        except PySparkException as error:
            raise UnsupportedError(
                f"Spark cannot read files of the table: {first_line(error)}", hint=_DUCKDB
            ) from error
        if _plain(part_schema) != planned:
            raise UnsupportedError(
                f"Spark would read files of the table as {part_schema.simpleString()}, but the table is "
                f"{schema.simpleString()}",
                hint="read the table with DuckDB, and report this as a bug of lakeconf",
            )


def _refuse_alike(columns: Sequence[Column]) -> None:
    """Rejects names that a session may not tell apart: unlike DuckDB, it ignores the case of all letters."""
    names = [column.name for column in columns]
    if len({name.lower() for name in names}) < len(names):
        raise UnsupportedError(
            f"two columns have names that differ only by case: {', '.join(names)}",
            hint="select one of them with scan(columns=…), or read the table with DuckDB",
        )
