"""Spark's relation over Parquet files of the plan, with a check that it has exactly these files."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeconf.engines.spark.hadoop import spark_paths, spark_uri
from lakeconf.engines.spark.internals import FileListing, file_exists, listed_files
from lakeconf.engines.spark.read.file_index import with_fixed_files
from lakeconf.errors import StorageError, UnsupportedError

_MARK_BITS = 31
# Options that Spark would otherwise read from the session in which an action runs.
_OPTIONS = {
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
}
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


@dataclass(frozen=True)
class Relation:
    """Files as Spark sees them.

    Attributes:
        frame: Their rows.
        names: For each path of the plan, the value of `_metadata.file_path` in its rows.
        listing: Spark's list of the files.
        positions: For each path of the plan, its index in that list.
        marks: For each path, a number below 2^31 that identifies the file; None if no such number was found.
        mark_sql: SQL that computes this number in the rows of the file.
    """

    frame: DataFrame
    names: dict[str, str]
    listing: FileListing
    positions: dict[str, int]
    marks: dict[str, int] | None
    mark_sql: str


def relation(
    private: SparkSession, files: Sequence[File], schema: StructType | None = None, *, source: str = "parquet"
) -> Relation:
    """The relation over some files.

    Args:
        private: The session that fixes the reader's settings.
        files: At least one; no two have the same path.
        schema: The requested schema; fields with a field id are matched by it. None if the source has its own.
        source: Spark's name of the format.

    Raises:
        StorageError: A file is missing, or its size differs from the catalog.
        UnsupportedError: Spark would not read a file, because of its name.
    """
    uris = [spark_uri(file.path) for file in files]
    reader = private.read.format(source).options(**_OPTIONS)
    if schema is not None:
        reader = reader.schema(schema)
    if any(":" in uri.rpartition("/")[2] for uri in uris):
        reader = reader.options(**WITHOUT_CHECKSUMS)
    try:
        frame = reader.load(spark_paths(file.path for file in files))
        listing = listed_files(frame)
        frame = with_fixed_files(frame)
    except (PySparkException, Py4JJavaError) as error:
        _refuse_missing(private, files)
        raise StorageError(f"Spark cannot open the files of the table: {error}") from error
    listed, found = _by_path(listing), {}
    for file, uri in zip(files, uris, strict=True):
        if _key(uri) not in listed:
            raise UnsupportedError(f"Spark does not read files of this name: {file.path}", hint="read it with DuckDB")
        found[file.path] = listed[_key(uri)]
        _check_size(file, found[file.path].size)
    if len(listing.files) != len(files):
        raise StorageError(f"Spark would read {len(listing.files)} files in place of {len(files)}")
    names = {path: listed.name for path, listed in found.items()}
    positions = {path: listed.position for path, listed in found.items()}
    return Relation(frame, names, listing, positions, *_marks(found))


def check_local(files: Sequence[File]) -> None:
    """Checks local files as `relation` does, without Spark.

    Raises:
        StorageError: A file is missing, or its size differs from the catalog.
    """
    for file in files:
        try:
            size = os.stat(file.path).st_size
        except FileNotFoundError:
            raise StorageError(f"{file.path} is missing, but the catalog lists it") from None
        _check_size(file, size)


def _check_size(file: File, size: int) -> None:
    if size != file.file_size_bytes:
        raise StorageError(
            f"{file.path} has {size} bytes, but the catalog says {file.file_size_bytes}: it was truncated or replaced"
        )


@dataclass(frozen=True)
class _Listed:
    """A file in Spark's list: its `_metadata.file_path`, its size in bytes, its time in milliseconds, its index."""

    name: str
    size: int
    time: int
    position: int


def _by_path(listing: FileListing) -> dict[str, _Listed]:
    """Spark's list of files by their paths."""
    return {
        _key(unquote(file.uri)): _Listed(re.sub("^file:///", "file:/", file.uri), file.size, file.time, position)
        for position, file in enumerate(listing.files)
    }


def _marks(files: Mapping[str, _Listed]) -> tuple[dict[str, int] | None, str]:
    """Numbers from size and time that identify the files, and their SQL: comparing paths is slow."""
    mask = (1 << _MARK_BITS) - 1
    sizes = {path: file.size & mask for path, file in files.items()}
    if len(set(sizes.values())) == len(files):
        return sizes, f"(_metadata.file_size & {mask})"
    for shift in range(0, 20, 3):
        marks = {path: (file.size ^ (file.time * 1000 >> shift)) & mask for path, file in files.items()}
        if len(set(marks.values())) == len(files):
            time = f"shiftright(unix_micros(_metadata.file_modification_time), {shift})"
            return marks, f"((_metadata.file_size ^ {time}) & {mask})"
    return None, ""


def _key(uri: str) -> str:
    return re.sub("^file:/+", "/", uri)


def _refuse_missing(private: SparkSession, files: Sequence[File]) -> None:
    for file in files:
        if not file_exists(private, spark_uri(file.path)):
            raise StorageError(f"{file.path} is missing, but the catalog lists it")
