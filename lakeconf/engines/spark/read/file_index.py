"""The list of files of a relation: those of the plan, in its order. Spark does not list the storage.

`REFRESH TABLE`, `spark.catalog.refreshByPath` and writes by other programs make Spark list the files of a relation
again. It would then drop missing files without an error. A scan reads the files of one snapshot, which never change.
Its relations therefore have a list that ignores such requests.

Spark's Parquet reader would read another Parquet file in place of a planned one without an error. So the list compares
the sizes of the files with those of the catalog when an action first needs it: with one request for a thousand files,
or with one for each file.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.internals import with_file_index
from lakeconf.errors import StorageError, UnsupportedError

_IN_A_CALL = 10_000
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
WITHOUT_CHECKSUMS = {"fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem", "fs.file.impl.disable.cache": "true"}


def in_texts(files: Sequence[tuple[str, int]], count: int) -> list[str]:
    """Files as strings for the JVM, with up to `count` files in each: size and URI, each followed by NUL."""
    parts = (files[start : start + count] for start in range(0, len(files), count))
    return ["".join(f"{size}\0{uri}\0" for uri, size in part) for part in parts]


class File(Protocol):
    """A data file or a delete file."""

    @property
    def path(self) -> str: ...
    @property
    def file_size_bytes(self) -> int: ...


def relation(
    private: SparkSession, files: Sequence[File], schema: StructType | None = None, *, source: str = "parquet"
) -> DataFrame:
    """The rows of some files; `scan_source.of_file` identifies the file of a row by its position in `files`.

    A job fails if a file is missing, or if its size differs from the catalog. For local files, planning fails.
    """
    check_local([file for file in files if file.path.startswith("/")])
    planned = [(spark_uri(file.path), file.file_size_bytes) for file in files]
    _check_plan(planned)
    reader = private.read.format(source).options(**OPTIONS)
    if schema is not None:
        reader = reader.schema(schema)
    if any(":" in uri.rpartition("/")[2] for uri, _ in planned):
        reader = reader.options(**WITHOUT_CHECKSUMS)
    return with_file_index(reader.load(_ANY_FILE), in_texts(planned, _IN_A_CALL))


def check_local(files: Sequence[File]) -> None:
    """Checks local files before a job does."""
    for file in files:
        try:
            size = os.stat(file.path).st_size
        except FileNotFoundError:
            raise StorageError(f"{file.path} is missing, but the catalog lists it") from None
        check_size(file, size)


def check_size(file: File, size: int) -> None:
    """Checks that a file has the size of the catalog."""
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
