"""Spark's relation over Parquet files of the plan. Neither Spark nor lakeconf lists the storage before a job."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.read.file_index import with_planned_files
from lakeconf.errors import StorageError, UnsupportedError

# Options that Spark would otherwise read from the session in which an action runs.
OPTIONS = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
# The planned files take its place. Spark would warn of a relation without any file.
_ANY_FILE = Path(__file__).as_uri()
# Hadoop looks for a checksum file next to each local file, and cannot form its name if the file name has a colon.
WITHOUT_CHECKSUMS = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}


class File(Protocol):
    """A data file or a delete file."""

    @property
    def path(self) -> str: ...
    @property
    def file_size_bytes(self) -> int: ...


def relation(
    private: SparkSession, files: Sequence[File], schema: StructType | None = None, *, source: str = "parquet"
) -> DataFrame:
    """The rows of some files; `guards.of_file` identifies the file of a row by its position in `files`.

    A job fails if a file is missing, or if its size differs from the catalog. For local files, planning fails.

    Args:
        private: The session that fixes the reader's settings.
        files: At least one.
        schema: The requested schema; fields with a field id are matched by it. None if the source has its own.
        source: Spark's name of the format.

    Raises:
        StorageError: A local file is missing, or a size differs from the catalog.
        UnsupportedError: Two files have the same path.
    """
    check_local([file for file in files if file.path.startswith("/")])
    planned = [(spark_uri(file.path), file.file_size_bytes) for file in files]
    _check_plan(planned)
    reader = private.read.format(source).options(**OPTIONS)
    if schema is not None:
        reader = reader.schema(schema)
    if any(":" in uri.rpartition("/")[2] for uri, _ in planned):
        reader = reader.options(**WITHOUT_CHECKSUMS)
    return with_planned_files(reader.load(_ANY_FILE), planned)


def check_local(files: Sequence[File]) -> None:
    """Checks local files before a job does.

    Raises:
        StorageError: A file is missing, or its size differs from the catalog.
    """
    for file in files:
        try:
            size = os.stat(file.path).st_size
        except FileNotFoundError:
            raise StorageError(f"{file.path} is missing, but the catalog lists it") from None
        check_size(file, size)


def check_size(file: File, size: int) -> None:
    """Checks that a file has the size of the catalog.

    Raises:
        StorageError: It has another one.
    """
    if size != file.file_size_bytes:
        raise StorageError(
            f"{file.path} has {size} bytes, but the catalog says {file.file_size_bytes}: it was truncated or replaced"
        )


def _check_plan(planned: Sequence[tuple[str, int]]) -> None:
    seen: set[str] = set()
    for uri, size in planned:
        if uri in seen:
            raise UnsupportedError(f"the catalog lists a file of the table twice: {uri}", hint="read it with DuckDB")
        # Spark would skip an empty file.
        if size <= 0:
            raise StorageError(f"the catalog says that {uri} has {size} bytes, and no Parquet file is so small")
        seen.add(uri)
