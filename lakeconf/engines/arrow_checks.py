"""Refuses types of Arrow that DuckDB lacks, or that it would read without their meaning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lakeconf.errors import SchemaError

# Extension types that DuckDB reads as types of its own; of others, such as the periods of pandas, it reads the storage.
_KNOWN = frozenset({"arrow.uuid", "arrow.json", "arrow.bool8"})


def check_types(schema: Any) -> None:
    """Refuses an Arrow table with a column that DuckDB cannot hold as it is.

    Args:
        schema: The schema of the table.

    Raises:
        SchemaError: A column is or contains a float of 16 bits, a union, a struct without fields or an unknown
            extension type.
    """
    for field in schema:
        for found in _types(field.type):
            problem = _problem(found)
            if problem is not None:
                why, hint = problem
                raise SchemaError(f"the frame's column {field.name!r} {why}", hint=hint)


def _types(found: Any) -> Iterator[Any]:
    """A type and the types in it, at any depth."""
    import pyarrow as pa

    yield found
    if pa.types.is_dictionary(found) or pa.types.is_run_end_encoded(found):
        yield from _types(found.value_type)
    elif not isinstance(found, pa.BaseExtensionType):
        for index in range(found.num_fields):
            yield from _types(found.field(index).type)


def _problem(found: Any) -> tuple[str, str] | None:
    import pyarrow as pa

    if pa.types.is_float16(found):
        return "has floats of 16 bits, which DuckDB lacks", "cast them to floats of 32 bits"
    if pa.types.is_union(found):
        return "is a union, which DuckLake lacks", "make a column for each kind of its values"
    if pa.types.is_struct(found) and not found.num_fields:
        return "has structs without fields, which DuckDB lacks", "drop the column, or add a field"
    if isinstance(found, pa.BaseExtensionType) and not _is_known(found.extension_name):
        why = f"has the extension type {found.extension_name}, of which DuckDB would read the storage type only"
        return why, f"cast it to its storage type {found.storage_type} or to text, if that keeps what it means"
    return None


def _is_known(name: str) -> bool:
    return name in _KNOWN or name.startswith(("duckdb.", "geoarrow."))
