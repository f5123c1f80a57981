"""Reads the files of a scan through Spark Connect: columns by name, the list of files from a job of Spark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote

from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.reader import CatalogReader
from lakeconf.engines.spark.connect.footers import stored_schemas
from lakeconf.engines.spark.connect.settings import first_line
from lakeconf.engines.spark.hadoop import spark_paths, spark_uri
from lakeconf.engines.spark.read.executor_code import Tasks
from lakeconf.engines.spark.read.footers import Stored
from lakeconf.engines.spark.read.guards import FAILURE
from lakeconf.engines.spark.read.relation import OPTIONS, WITHOUT_CHECKSUMS, File, check_size
from lakeconf.errors import StorageError, UnsupportedError

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

        Raises:
            StorageError: A file is missing, or its size differs from the catalog.
            UnsupportedError: Spark would not read a file, because of its name.
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

        Args:
            frame: Rows of the files.
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
