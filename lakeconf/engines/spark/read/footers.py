"""The schema of a Parquet file, from its footer. Spark's driver reads footers only if a plan needs them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from lakeconf.engines.spark.internals import FileListing, read_footers
from lakeconf.engines.spark.read.relation import WITHOUT_CHECKSUMS
from lakeconf.errors import StorageError

_CACHED_FILES = 100_000
_AT_ONCE = "32"


@dataclass(frozen=True, slots=True)
class Stored:
    """A field of a Parquet file, or the file as a whole.

    Attributes:
        name: Its name in the file; for the file as a whole, the program that wrote it.
        field_id: Its field id, if it has one.
        type: The DuckLake type that DuckLake stores this way: `int32`, `timestamp`, `struct`, `list`, …; otherwise
            Parquet's name of the type, in upper case.
        children: Fields of a struct, the element of a list, key and value of a map.
    """

    name: str
    field_id: int | None
    type: str
    children: tuple[Stored, ...] = ()


# Footers never change: a file of a lake is written once. The key is path and size; the oldest are evicted first.
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


def footers(private: SparkSession, listing: FileListing, files: Sequence[tuple[str, int]]) -> list[Stored]:
    """The schema of each file: a struct of its columns, with the name of the program that wrote the file.

    Args:
        private: The session of the scan.
        listing: Spark's list of the files.
        files: Path and size of each, in the same order.

    Raises:
        StorageError: A file is not Parquet.
    """
    unknown = [index for index, file in enumerate(files) if file not in _cache]
    if unknown:
        settings = {**WITHOUT_CHECKSUMS, "parquet.metadata.read.parallelism": _AT_ONCE}
        try:
            found = read_footers(private, listing, unknown, settings)
        except Py4JJavaError as error:
            raise StorageError(f"a file of the table is not Parquet: {error.java_exception.getMessage()}") from None
        schemas: dict[tuple[str, str], Stored] = {}
        for index, (schema, writer) in zip(unknown, found, strict=True):
            text = str(schema.toString())
            if (text, writer) not in schemas:
                schemas[text, writer] = Stored(writer, None, "struct", _fields(schema))
            _cache[files[index]] = schemas[text, writer]
    result = [_cache[file] for file in files]
    while len(_cache) > _CACHED_FILES:
        _cache.popitem(last=False)
    return result


def _fields(group: Any) -> tuple[Stored, ...]:
    return tuple(_field(field) for field in group.getFields())


def _field(field: Any) -> Stored:
    identifier = field.getId()
    annotation = field.getLogicalTypeAnnotation()
    logical = "" if annotation is None else str(annotation.toString())
    type_, children = _leaf(field, logical) if field.isPrimitive() else _group(field, logical)
    if field.getRepetition().toString() == "REPEATED":
        type_ = f"REPEATED {type_}"
    return Stored(field.getName(), None if identifier is None else identifier.intValue(), type_, children)


def _leaf(field: Any, logical: str) -> tuple[str, tuple[Stored, ...]]:
    physical = str(field.getPrimitiveTypeName().toString())
    if logical.startswith("DECIMAL("):
        return logical.lower(), ()
    if logical.startswith("GEOMETRY"):
        return "geometry", ()
    return _LOGICAL.get((physical, logical), f"{physical} {logical}".strip()), ()


def _group(field: Any, logical: str) -> tuple[str, tuple[Stored, ...]]:
    children = _fields(field)
    if logical in ("LIST", "MAP") and len(children) == 1:
        (inner,) = children
        expected = {"LIST": 1, "MAP": 2}[logical]
        if inner.type == "REPEATED struct" and len(inner.children) == expected:
            return logical.lower(), inner.children
        return f"legacy {logical}", children
    names = [child.name for child in children]
    if logical.startswith("VARIANT") or (names[:2] == ["metadata", "value"] and children[0].field_id is None):
        return "variant", ()
    return "struct", children
