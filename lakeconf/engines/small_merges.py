"""What a merge on Spark may contain so that DuckDB computes it: little data, and types that both compare alike."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from lakeconf.byte_size import byte_size
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import all_types

# Sizes of Parquet files. DuckDB keeps the frame in memory; of the files it reads the keys and the rows that change.
MOST_FRAME_BYTES = 128 * 1024**2
MOST_FILE_BYTES = 4 * 1024**3
# Types whose values are equal in DuckDB exactly if they are equal in Spark. Not floats: -0.0 and NaN need care in
# statistics. Not the types that Spark reads as another type, such as the text of a UUID.
_KEYS = frozenset(
    ("boolean", "int8", "int16", "int32", "int64", "date", "timestamp", "timestamptz", "varchar", "blob", "decimal")
)
# Types whose values a scan on Spark returns without loss, so that it makes no difference who reads them.
_VALUES = _KEYS | {"float32", "float64", "struct", "list", "map", "uint8", "uint16", "uint32", "uint64", "json", "uuid"}


def type_refusal(columns: Iterable[Column], keys: Collection[Column]) -> str | None:
    """Why Spark must compute a merge because of types; None if DuckDB's result is certain to be the same.

    Args:
        columns: The columns of the table.
        keys: The columns to match on.
    """
    for column in columns:
        unlike = sorted(name for name in map(_family, all_types(column)) if name not in _VALUES)
        if unlike:
            return f"the column {column.name!r} contains the type {unlike[0]}"
    for key in keys:
        if not is_matched_alike(key.type):
            return f"the key {key.name!r} has the type {key.type}"
        if key.former_types or key.later_types:
            return f"the type of the key {key.name!r} has changed"
    return None


def size_refusal(frame_bytes: int, file_bytes: int) -> str | None:
    """Why Spark must compute a merge because of its size; None if it is small."""
    if frame_bytes > MOST_FRAME_BYTES:
        return f"the frame has {byte_size(frame_bytes)}, more than {byte_size(MOST_FRAME_BYTES)}"
    if file_bytes > MOST_FILE_BYTES:
        return f"the files have {byte_size(file_bytes)}, more than {byte_size(MOST_FILE_BYTES)}"
    return None


def is_matched_alike(type_name: str) -> bool:
    """True if DuckDB and Spark compare values of a DuckLake type alike."""
    return _family(type_name) in _KEYS


def _family(type_name: str) -> str:
    return "decimal" if type_name.startswith("decimal(") else type_name
