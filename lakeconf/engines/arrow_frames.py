"""Lossless conversion of Arrow tables for DuckDB, which truncates nanoseconds and has no null type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakeconf.errors import SchemaError
from lakeconf.sql import identifier

if TYPE_CHECKING:
    import pyarrow

# The type of columns with Arrow's null type while they are in DuckDB; by default, DuckDB uses INTEGER.
_NULL = "ENUM('lakeconf_null')"


def frame_type(found: DuckDBPyType) -> str:
    """The name of the type of a frame's column; `"NULL"` for the null type."""
    return str(found).replace(_NULL, '"NULL"')


def exact_units(table: pyarrow.Table) -> pyarrow.Table:
    """Converts a table to the time units of DuckDB, which truncates smaller units.

    Raises:
        SchemaError: A value would lose precision.
    """
    import pyarrow as pa

    fields = [field.with_type(_exact(field.type)) for field in table.schema]
    if [field.type for field in fields] == table.schema.types:
        return table
    try:
        return table.cast(pa.schema(fields))
    except pa.ArrowInvalid as error:
        raise SchemaError(
            f"the frame has a value that DuckDB would round: {error}",
            hint="round times to microseconds and dates to days",
        ) from error


def with_null_types(relation: duckdb.DuckDBPyRelation, table: pyarrow.Table) -> duckdb.DuckDBPyRelation:
    """The relation of an Arrow table, with a distinct type for columns of the null type."""
    casts = [
        f"CAST({identifier(name)} AS {text}) AS {identifier(name)}" if (text := _with_null(field.type, found)) else None
        for name, found, field in zip(relation.columns, relation.types, table.schema, strict=True)
    ]
    if not any(casts):
        return relation
    names = map(identifier, relation.columns)
    return relation.project(", ".join(cast or name for cast, name in zip(casts, names, strict=True)))


def _exact(found: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_timestamp(found) and found.unit == "ns" and found.tz is not None:
        return pa.timestamp("us", found.tz)
    if pa.types.is_duration(found) and found.unit == "ns":
        return pa.duration("us")
    if pa.types.is_time64(found) and found.unit == "ns":
        return pa.time64("us")
    if pa.types.is_date64(found):
        return pa.date32()
    if pa.types.is_list(found):
        return pa.list_(found.value_field.with_type(_exact(found.value_type)))
    if pa.types.is_struct(found):
        return pa.struct([field.with_type(_exact(field.type)) for field in found])
    if pa.types.is_map(found):
        return pa.map_(_exact(found.key_type), found.item_field.with_type(_exact(found.item_type)))
    return found


def _with_null(found: Any, as_duckdb: DuckDBPyType) -> str | None:
    """DuckDB's type with `_NULL` in place of each null type of Arrow; None if Arrow's type contains none."""
    import pyarrow as pa

    if pa.types.is_null(found):
        return _NULL
    if pa.types.is_list(found):
        (element,) = (part for _, part in as_duckdb.children if isinstance(part, DuckDBPyType))
        inner = _with_null(found.value_type, element)
        return f"{inner}[]" if inner else None
    if pa.types.is_struct(found):
        parts = {name: part for name, part in as_duckdb.children if isinstance(part, DuckDBPyType)}
        inners = {field.name: _with_null(field.type, parts[field.name]) for field in found}
        if any(inners.values()):
            fields = (f"{identifier(name)} {inner or parts[name]}" for name, inner in inners.items())
            return f"STRUCT({', '.join(fields)})"
    return None
