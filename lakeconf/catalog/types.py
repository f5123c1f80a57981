"""The types of DuckLake and DuckDB; converts DuckDB types to columns, for tables that do not exist yet."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from itertools import count

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.table import Column
from lakeconf.errors import SchemaError, UnsupportedError
from lakeconf.sql import identifier

# DuckLake's types that are not nested, and their DuckDB names; decimals also have digits.
DUCKDB_NAMES = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "int128": "HUGEINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "uint128": "UHUGEINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "varchar": "VARCHAR",
    "json": "JSON",
    "blob": "BLOB",
    "uuid": "UUID",
    "date": "DATE",
    "time": "TIME",
    "timetz": "TIME WITH TIME ZONE",
    "interval": "INTERVAL",
    "timestamp": "TIMESTAMP",
    "timestamp_s": "TIMESTAMP_S",
    "timestamp_ms": "TIMESTAMP_MS",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz": "TIMESTAMP WITH TIME ZONE",
    "variant": "VARIANT",
    "geometry": "GEOMETRY",
}
# DuckLake's types by the `id` of the DuckDB type; JSON has the id of VARCHAR.
_BY_ID = {text.lower(): name for name, text in DUCKDB_NAMES.items() if name != "json"}
_INTEGER = re.compile(r"(?P<unsigned>u?)int(?P<bits>\d+)")
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def duckdb_name(type_name: str) -> str | None:
    """Returns the DuckDB name of a DuckLake type; None for nested and unknown types."""
    return type_name.upper() if _DECIMAL.fullmatch(type_name) else DUCKDB_NAMES.get(type_name)


def decimal_digits(type_name: str) -> tuple[int, int] | None:
    """Returns precision and scale of a `decimal(p,s)`; None for other types."""
    found = _DECIMAL.fullmatch(type_name)
    return (int(found[1]), int(found[2])) if found else None


def nested_sql(column: Column, leaf: Callable[[Column], str]) -> str:
    """Writes the type of a column in DuckDB's SQL.

    Args:
        column: The column, or a field inside a nested one.
        leaf: Writes the type of a column that is not nested.
    """
    inner = [nested_sql(child, leaf) for child in column.children]
    if column.type == "list":
        return f"{inner[0]}[]"
    if column.type == "map":
        return f"MAP({inner[0]}, {inner[1]})"
    if column.type == "struct":
        names = [identifier(child.name) for child in column.children]
        return f"STRUCT({', '.join(f'{name} {type_}' for name, type_ in zip(names, inner, strict=True))})"
    return leaf(column)


def sql_type(column: Column) -> str:
    """Writes the type of a column in DuckDB's SQL."""
    return nested_sql(column, _leaf_sql)


def _leaf_sql(column: Column) -> str:
    name = duckdb_name(column.type)
    if name is None:
        raise UnsupportedError(f"the column {column.name!r} has the unknown type {column.type!r}")
    return name


def all_types(column: Column) -> set[str]:
    """Returns the types of a column and of its nested fields, at any depth."""
    return {column.type}.union(*map(all_types, column.children))


def integers() -> dict[str, tuple[bool, int]]:
    """Returns DuckDB's integer types by `id`: True if the type is signed, and its number of bits."""
    found = {type_id: _INTEGER.fullmatch(name) for type_id, name in _BY_ID.items()}
    return {type_id: (not match["unsigned"], int(match["bits"])) for type_id, match in found.items() if match}


def columns_of(types: Mapping[str, str], required: Collection[str] = (), first_id: int = 1) -> tuple[Column, ...]:
    """Returns the columns that DuckLake would create for a new table, with their field ids.

    Args:
        required: The columns that are NOT NULL.
    """
    ids = count(first_id)
    return tuple(_column(name, parsed_type(text), ids, nullable=name not in required) for name, text in types.items())


def parsed_type(text: str) -> DuckDBPyType:
    """Parses the name of a type.

    DuckDB's default connection belongs to the user and may be in a failed transaction, which refuses even this. A
    cursor has its own transaction.
    """
    with duckdb.default_connection().cursor() as cursor:
        return cursor.sqltype(text)


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
    if found.id not in _BY_ID:
        raise SchemaError(
            f"DuckLake does not support the DuckDB type {found} of the column {name!r}",
            hint="cast the column to a type that DuckLake supports",
        )
    return _BY_ID[found.id]
