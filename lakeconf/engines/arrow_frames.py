"""Lossless conversion of Arrow tables: DuckDB and Spark truncate nanoseconds, and DuckDB has no null type."""

from __future__ import annotations

from collections.abc import Callable
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

    fields = [field.with_type(with_leaves(field.type, _exact)) for field in table.schema]
    if [field.type for field in fields] == table.schema.types:
        return table
    columns = []
    for field, column in zip(fields, table.columns, strict=True):
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"the frame's column {field.name!r} has a value that DuckDB would round: {str(error).strip()}",
                hint="round times to microseconds, dates to days and decimals to 38 digits",
            ) from error
    return pa.table(columns, schema=pa.schema(fields))


def with_leaves(found: Any, leaf: Callable[[Any], Any]) -> Any:
    """An Arrow type after a conversion of the types that are not nested, at any depth.

    Args:
        found: The type.
        leaf: The conversion.
    """
    import pyarrow as pa

    if pa.types.is_dictionary(found):
        values = with_leaves(found.value_type, leaf)
        # DuckDB fails beyond recovery for a dictionary of nested values.
        return values if pa.types.is_nested(values) else pa.dictionary(found.index_type, values, found.ordered)
    if pa.types.is_run_end_encoded(found):
        return pa.run_end_encoded(found.run_end_type, with_leaves(found.value_type, leaf))
    if _is_list(found):
        return _list_of(found, _field(found.value_field, leaf))
    if pa.types.is_struct(found):
        return pa.struct([_field(field, leaf) for field in found])
    if pa.types.is_map(found):
        return pa.map_(with_leaves(found.key_type, leaf), _field(found.item_field, leaf), found.keys_sorted)
    return leaf(found)


def _field(found: Any, leaf: Callable[[Any], Any]) -> Any:
    return found.with_type(with_leaves(found.type, leaf))


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
    if pa.types.is_decimal(found) and (found.scale < 0 or pa.types.is_decimal256(found)):
        # DuckDB has no such decimals, and fails beyond recovery for a negative scale.
        return pa.decimal128(min(found.precision - min(found.scale, 0), 38), max(found.scale, 0))
    return pa.date32() if pa.types.is_date64(found) else found


def _is_list(found: Any) -> bool:
    import pyarrow as pa

    kinds = (pa.ListType, pa.LargeListType, pa.FixedSizeListType, pa.ListViewType, pa.LargeListViewType)
    return isinstance(found, kinds)


def _list_of(found: Any, element: Any) -> Any:
    """The same kind of list with another element."""
    import pyarrow as pa

    if pa.types.is_fixed_size_list(found):
        return pa.list_(element, found.list_size)
    if pa.types.is_large_list(found):
        return pa.large_list(element)
    if pa.types.is_list_view(found):
        return pa.list_view(element)
    return pa.large_list_view(element) if pa.types.is_large_list_view(found) else pa.list_(element)


def _with_null(found: Any, as_duckdb: DuckDBPyType) -> str | None:
    """DuckDB's type with `_NULL` in place of each null type of Arrow; None if Arrow's type contains none."""
    import pyarrow as pa

    if pa.types.is_null(found):
        return _NULL
    if pa.types.is_dictionary(found):
        return _with_null(found.value_type, as_duckdb)
    if _is_list(found):
        (element,) = (part for _, part in as_duckdb.children if isinstance(part, DuckDBPyType))
        inner = _with_null(found.value_type, element)
        size = found.list_size if pa.types.is_fixed_size_list(found) else ""
        return f"{inner}[{size}]" if inner else None
    if pa.types.is_struct(found):
        parts = {name: part for name, part in as_duckdb.children if isinstance(part, DuckDBPyType)}
        inners = {field.name: _with_null(field.type, parts[field.name]) for field in found}
        if any(inners.values()):
            fields = (f"{identifier(name)} {inner or parts[name]}" for name, inner in inners.items())
            return f"STRUCT({', '.join(fields)})"
    if pa.types.is_map(found):
        key, value = (part for _, part in as_duckdb.children if isinstance(part, DuckDBPyType))
        item = _with_null(found.item_type, value)
        return f"MAP({key}, {item})" if item else None
    return None
