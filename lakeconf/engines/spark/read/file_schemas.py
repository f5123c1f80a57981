"""The schemas of Parquet files, from their footers, which Spark's reader parses."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_plus

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakeconf.catalog.column_types import TYPES
from lakeconf.engines.spark.hadoop import spark_uri
from lakeconf.engines.spark.internals import lost_file, read_footers
from lakeconf.engines.spark.read.file_index import WITHOUT_CHECKSUMS, in_texts
from lakeconf.errors import StorageError

_CACHED_FILES = 100_000
_AT_ONCE = "32"
_FOOTERS_IN_A_CALL = 1000
# Footers never change: a file of a lake is written once. The key is path and size; the oldest are evicted first.
_cache_lock = threading.Lock()
_cache: OrderedDict[tuple[str, int], Stored] = OrderedDict()
# A timestamp with time zone in milliseconds; DuckLake itself writes microseconds.
MILLISECONDS = "timestamptz_ms"
# The types that DuckLake stores in a way, and what other programs write for them.
_LOGICAL = {
    **{column_type.parquet: name for name, column_type in TYPES.items() if column_type.parquet},
    "INT96": "INT96",
    "BINARY ENUM": "varchar",
    "INT64 TIMESTAMP(MILLIS,true)": MILLISECONDS,
    "INT32 INTEGER(32,true)": "int32",
    "INT64 INTEGER(64,true)": "int64",
}
# Java puts it before the writer of a file whose dates and times Spark converts from a former calendar; DuckDB does not.
LEGACY_CALENDAR = "legacy calendar, "


@dataclass(frozen=True, slots=True)
class Stored:
    """A field of a Parquet file, or the file as a whole."""

    name: str  # its name in the file; for the file as a whole, the program that wrote it
    field_id: int | None  # its field id, if it has one
    # The DuckLake type that DuckLake stores this way: `int32`, `timestamp`, `struct`, `list`, …; otherwise Parquet's
    # name of the type, in upper case.
    type: str
    children: tuple[Stored, ...] = ()  # fields of a struct, the element of a list, key and value of a map


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
    name = f"{physical} {logical}".strip()
    return _LOGICAL.get(name, name)


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
