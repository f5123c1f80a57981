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
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import unquote_plus

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.internals import lost_file, read_footers, with_file_index
from lakeconf.errors import StorageError, UnsupportedError

_IN_A_CALL = 10_000


def in_texts(files: Sequence[tuple[str, int]], count: int) -> list[str]:
    """Files as strings for the JVM, with up to `count` files in each: size and URI, each followed by NUL."""
    parts = (files[start : start + count] for start in range(0, len(files), count))
    return ["".join(f"{size}\0{uri}\0" for uri, size in part) for part in parts]


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


_CACHED_FILES = 100_000
_AT_ONCE = "32"
_FOOTERS_IN_A_CALL = 1000


@dataclass(frozen=True, slots=True)
class Stored:
    """A field of a Parquet file, or the file as a whole."""

    name: str  # its name in the file; for the file as a whole, the program that wrote it
    field_id: int | None  # its field id, if it has one
    # The DuckLake type that DuckLake stores this way: `int32`, `timestamp`, `struct`, `list`, …; otherwise Parquet's
    # name of the type, in upper case.
    type: str
    children: tuple[Stored, ...] = ()  # fields of a struct, the element of a list, key and value of a map


# Footers never change: a file of a lake is written once. The key is path and size; the oldest are evicted first.
_cache_lock = threading.Lock()
_cache: OrderedDict[tuple[str, int], Stored] = OrderedDict()
# A timestamp with time zone in milliseconds; DuckLake itself writes microseconds.
MILLISECONDS = "timestamptz_ms"

_LOGICAL = {
    ("BOOLEAN", ""): "boolean",
    ("INT32", ""): "int32",
    ("INT64", ""): "int64",
    ("INT96", ""): "INT96",
    ("FLOAT", ""): "float32",
    ("DOUBLE", ""): "float64",
    ("BINARY", ""): "blob",
    ("BINARY", "STRING"): "varchar",
    ("BINARY", "ENUM"): "varchar",
    ("BINARY", "JSON"): "json",
    ("INT32", "DATE"): "date",
    ("INT64", "TIME(MICROS,false)"): "time",
    ("INT64", "TIME(MICROS,true)"): "timetz",
    ("INT64", "TIMESTAMP(MICROS,false)"): "timestamp",
    ("INT64", "TIMESTAMP(MILLIS,false)"): "timestamp_ms",
    ("INT64", "TIMESTAMP(NANOS,false)"): "timestamp_ns",
    ("INT64", "TIMESTAMP(MICROS,true)"): "timestamptz",
    ("INT64", "TIMESTAMP(MILLIS,true)"): MILLISECONDS,
    ("FIXED_LEN_BYTE_ARRAY", "UUID"): "uuid",
    ("FIXED_LEN_BYTE_ARRAY", "INTERVAL"): "interval",
    **{("INT32", f"INTEGER({bits},true)"): f"int{bits}" for bits in (8, 16, 32)},
    **{("INT32", f"INTEGER({bits},false)"): f"uint{bits}" for bits in (8, 16, 32)},
    ("INT64", "INTEGER(64,true)"): "int64",
    ("INT64", "INTEGER(64,false)"): "uint64",
}


def footers(private: SparkSession, files: Sequence[tuple[str, int]]) -> list[Stored]:
    """The schema of each file: a struct of its columns, with the name of the program that wrote the file."""

    def read(unknown: Sequence[tuple[str, int]]) -> list[Stored]:
        settings = {**WITHOUT_CHECKSUMS, "parquet.metadata.read.parallelism": _AT_ONCE}
        texts = in_texts([(spark_uri(path), size) for path, size in unknown], _FOOTERS_IN_A_CALL)
        try:
            numbers, texts = read_footers(private, texts, settings)
        except Py4JJavaError as error:
            problem = "is missing" if lost_file(error) else "is not Parquet, or has another size"
            raise StorageError(f"a file of the table {problem}: {error.java_exception.getMessage()}") from None
        schemas = list(map(_schema, texts))
        return [schemas[number] for number in numbers]

    return remembered(files, read)


def remembered(
    files: Sequence[tuple[str, int]], read: Callable[[Sequence[tuple[str, int]]], Sequence[Stored]]
) -> list[Stored]:
    """The schema of each file; reads only those that this process does not know."""
    # Another thread may remove any of them from the cache at any time.
    schemas = {file: schema for file in files if (schema := _cache.get(file)) is not None}
    unknown = [file for file in files if file not in schemas]
    read_now = dict(zip(unknown, read(unknown), strict=True)) if unknown else {}
    schemas |= read_now
    with _cache_lock:
        _cache.update(read_now)
        while len(_cache) > _CACHED_FILES:
            _cache.popitem(last=False)
    return [schemas[file] for file in files]


# Java puts it before the writer of a file whose dates and times Spark converts from a former calendar; DuckDB does not.
LEGACY_CALENDAR = "legacy calendar, "


def _schema(text: str) -> Stored:
    """The schema from a string of Java: a line for the writer and for each field, in the order of the file."""
    writer, *lines = text.split("\n")
    below: list[list[Stored]] = [[]]
    # From the last line to the first, the fields of a group come before it.
    for line in reversed(lines):
        depth_text, *facts, name = line.split("\t")
        depth = int(depth_text)
        while len(below) <= depth + 1:
            below.append([])
        children = tuple(reversed(below[depth + 1]))
        below[depth + 1] = []
        below[depth].append(_field(unquote_plus(name), facts, children))
    return Stored(unquote_plus(writer), None, "struct", tuple(reversed(below[0])))


def _field(name: str, facts: Sequence[str], inner: tuple[Stored, ...]) -> Stored:
    identifier, repetition, physical, logical = facts
    type_, children = (leaf_type_name(physical, logical), inner) if physical else group_type_name(inner, logical)
    if repetition == "REPEATED":
        type_ = f"REPEATED {type_}"
    return Stored(name, int(identifier) if identifier else None, type_, children)


def leaf_type_name(physical: str, logical: str) -> str:
    """The type of a field that is not nested, as `Stored.type`."""
    if logical.startswith("DECIMAL("):
        return logical.lower()
    if logical.startswith("GEOMETRY"):
        return "geometry"
    return _LOGICAL.get((physical, logical), f"{physical} {logical}".strip())


def group_type_name(children: tuple[Stored, ...], logical: str) -> tuple[str, tuple[Stored, ...]]:
    """The type of a nested field, as `Stored.type`, and its children."""
    if logical in ("LIST", "MAP") and len(children) == 1:
        (inner,) = children
        expected = {"LIST": 1, "MAP": 2}[logical]
        # DuckLake maps the elements of a list by this name, and reads NULL for others.
        is_named = logical == "MAP" or inner.name == "list"
        if inner.type == "REPEATED struct" and len(inner.children) == expected and is_named:
            return logical.lower(), inner.children
        return f"legacy {logical}", children
    names = [child.name for child in children]
    if logical.startswith("VARIANT") or (names[:2] == ["metadata", "value"] and children[0].field_id is None):
        return "variant", ()
    return "struct", children
