"""Converts DuckDB types to DuckLake columns, for tables that do not exist yet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import count

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.table import Column
from lakeconf.errors import SchemaError

_NAMES = {
    "boolean": "boolean",
    "tinyint": "int8",
    "smallint": "int16",
    "integer": "int32",
    "bigint": "int64",
    "hugeint": "int128",
    "utinyint": "uint8",
    "usmallint": "uint16",
    "uinteger": "uint32",
    "ubigint": "uint64",
    "uhugeint": "uint128",
    "float": "float32",
    "double": "float64",
    "varchar": "varchar",
    "blob": "blob",
    "uuid": "uuid",
    "date": "date",
    "time": "time",
    "time with time zone": "timetz",
    "interval": "interval",
    "timestamp": "timestamp",
    "timestamp_s": "timestamp_s",
    "timestamp_ms": "timestamp_ms",
    "timestamp_ns": "timestamp_ns",
    "timestamp with time zone": "timestamptz",
    "variant": "variant",
    "geometry": "geometry",
}


def columns_of(types: Mapping[str, str], required: Collection[str] = (), first_id: int = 1) -> tuple[Column, ...]:
    """Returns the columns that DuckLake would create for a new table, with their field ids.

    Args:
        types: Column names and DuckDB types.
        required: The columns that are NOT NULL.
        first_id: The first field id.

    Raises:
        SchemaError: DuckLake does not support a type.
    """
    ids = count(first_id)
    return tuple(
        _column(name, duckdb.sqltype(text), ids, nullable=name not in required) for name, text in types.items()
    )


def _column(name: str, found: DuckDBPyType, ids: Iterator[int], *, nullable: bool = True) -> Column:
    field_id = next(ids)
    is_nested = found.id in ("struct", "list", "map")
    parts = {part: inner for part, inner in found.children if isinstance(inner, DuckDBPyType)} if is_nested else {}
    if found.id == "list":
        parts = {"element": parts["child"]}
    children = tuple(_column(part, inner, ids) for part, inner in parts.items())
    return Column(field_id, name, _type_name(name, found), nullable, None, children)


def _type_name(name: str, found: DuckDBPyType) -> str:
    if found.id in ("struct", "list", "map"):
        return found.id
    if found.id == "decimal":
        return str(found).lower()
    if str(found) == "JSON":
        return "json"
    if found.id not in _NAMES:
        raise SchemaError(f"DuckLake does not support the DuckDB type {found} of the column {name!r}")
    return _NAMES[found.id]
