"""The schemas of Parquet files, from footers that DuckDB reads: a client of Spark Connect cannot let Spark do it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from lakeconf.catalog.reader import CatalogReader
from lakeconf.engines.spark.read.footers import Stored, group_type_name, leaf_type_name, remembered
from lakeconf.errors import LakeconfError, StorageError
from lakeconf.sql import literal

_PATTERN = re.compile(r"[*?\[]")
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
        files: Path and size of each.

    Raises:
        StorageError: A file is missing or not Parquet.
    """
    return remembered(files, lambda unknown: _read(reader, [path for path, _ in unknown]))


def _read(reader: CatalogReader, paths: Sequence[str]) -> list[Stored]:
    # A name with a character of DuckDB's patterns is a pattern that matches only this name.
    listed = ", ".join(literal(_PATTERN.sub(r"[\g<0>]", path)) for path in paths)
    found: dict[str, list[tuple[Any, ...]]] = {path: [] for path in paths}
    try:
        with reader.lake_cursor() as cursor:
            rows = cursor.rows(f"SELECT file_name, {_COLUMNS} FROM parquet_schema([{listed}])")
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
