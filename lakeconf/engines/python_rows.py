"""Rows of Python: dictionaries, and the types of their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from typing import TYPE_CHECKING, Any, TypeGuard

from lakeconf.connection.connection import Connection
from lakeconf.errors import SchemaError, required
from lakeconf.sql import folded, identifier

if TYPE_CHECKING:
    import pyarrow as pa


# Values of one of these types stay as they are.
_KEPT = ({str}, {bytes}, {int}, {float}, {bool})
Rows = Sequence[Mapping[str, object]]


def is_null(value: object) -> bool:
    """True for None, and for NA and NaT of pandas."""
    kind = type(value)
    return value is None or (kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas."))


def check_values(column: str, values: Iterable[object]) -> None:
    """Rejects values of one column that pyarrow would change."""
    present = [value for value in values if not (is_null(value) or (isinstance(value, float) and isnan(value)))]
    if set(map(type, present)) in _KEPT:
        return
    nested = [value for value in present if isinstance(value, Mapping)]
    for name in {name for value in nested for name in value}:
        check_values(column, (value.get(name) for value in nested))
    lists = [part for value in present for part in _parts(value)]
    if lists:
        check_values(column, lists)
    kinds = sorted({kind for value in present if (kind := _kind(value)) is not None})
    if len(kinds) > 1:
        raise _refused(column, f"they are {' and '.join(kinds)}", "use one type for each column")
    if kinds == ["times of day with a time zone"]:
        raise _refused(
            column,
            "pyarrow would ignore the time zones of times of day",
            "remove the time zone: value.replace(tzinfo=None)",
        )
    for value in present:
        _check_kept(column, value)


def _parts(value: object) -> Iterable[object]:
    """The elements of a list, which may be an array of numpy; an array of numbers has no elements to check."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    array: Any = value
    is_array_of_objects = getattr(value, "ndim", 0) and str(getattr(value, "dtype", "")) == "object"
    return list(array.tolist()) if is_array_of_objects else ()


def _check_kept(column: str, value: object) -> None:
    if isinstance(value, Decimal) and not value.is_finite():
        raise _refused(
            column,
            f"{value} is no number, and a decimal of DuckDB is always one",
            "replace it with None, or use floats, which have NaN and infinities",
        )
    if str(getattr(value, "dtype", "")) == "uint64" and int(value) >= 2**63:  # type: ignore[call-overload]
        raise _refused(column, f"beside floats, pyarrow would make {value} negative", "convert it: int(value)")
    # A time or a duration of pandas has nanoseconds, but pyarrow takes it for one of Python, which has microseconds.
    nanoseconds = (getattr(value, name, None) for name in ("nanosecond", "nanoseconds"))
    if isinstance(value, (date, timedelta)) and any(nanoseconds):
        raise _refused(column, f"pyarrow would round {value!r} to microseconds", 'round it: value.floor("us")')


def _refused(column: str, why: str, hint: str) -> SchemaError:
    return SchemaError(f"the values of the column {column!r} do not have one type that fits: {why}", hint=hint)


def _kind(value: object) -> str | None:
    if isinstance(value, datetime):
        return "times without a time zone" if value.tzinfo is None else "times with a time zone"
    if isinstance(value, date):
        return "dates"
    if isinstance(value, time) and value.tzinfo is not None:
        return "times of day with a time zone"
    return "texts" if isinstance(value, str) else "bytes" if isinstance(value, (bytes, bytearray)) else None


def is_rows(frame: object) -> TypeGuard[Rows]:
    """True for a list or tuple of dictionaries; it may be empty."""
    return isinstance(frame, (list, tuple)) and all(isinstance(row, Mapping) for row in frame)


def arrow_rows(rows: Rows, column_types: Mapping[str, pa.DataType] | None = None) -> pa.Table:
    """Converts rows to an Arrow table. A key that only some rows have is NULL in the others.

    Args:
        rows: The rows; without rows, the table has the columns of `column_types`.
        column_types: Arrow types by column, in lower case, for columns whose values may be narrower than the types that
            Python has: integers, floats and decimals. Other columns get the types of their values.
    """
    with required("pyarrow", extra="arrow", needed_for="a frame of dictionaries"):
        import pyarrow as pa
    types = column_types or {}
    columns = {} if rows else {name: pa.array([], own) for name, own in types.items()}
    folded_rows = list(map(_folded, rows))
    names: dict[str, str] = {}
    for row in rows:
        for name in row:
            names.setdefault(folded(name), name)
    for key, name in names.items():
        # pyarrow knows NA and NaT only in frames of pandas.
        values = [None if is_null(value) else value for value in (row.get(key) for row in folded_rows)]
        check_values(name, values)
        try:
            array = pa.array(values)
            own = types.get(key)
            columns[name] = array if own is None or not _narrows(array.type, own) else _narrowed(values, array, own)
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise _refused(name, str(error).strip(), "use one type for each column") from error
    return pa.table(columns)


def arrow_types(connection: Connection, types: Mapping[str, str]) -> dict[str, pa.DataType]:
    """The Arrow types of the columns of a table, by name in lower case."""
    listed = ", ".join(f"CAST(NULL AS {text}) AS {identifier(name)}" for name, text in types.items())
    with required("pyarrow", extra="arrow", needed_for="a frame of dictionaries"):
        schema = connection.arrow(f"SELECT {listed} LIMIT 0").schema
    return {folded(field.name): field.type for field in schema}


def _narrowed(values: Sequence[object], array: pa.Array, own: pa.DataType) -> pa.Array:
    import pyarrow as pa

    narrowed = pa.array(values, own)
    if _infinities(narrowed) != _infinities(array):
        raise ValueError(f"a number is too large for {own}")
    return narrowed


def _infinities(values: Any) -> int:
    """The number of infinite values at any depth."""
    from pyarrow import compute, types

    if types.is_list(values.type):
        return _infinities(values.flatten())
    if types.is_struct(values.type):
        return sum(map(_infinities, values.flatten()))
    return int(compute.sum(compute.is_inf(values)).as_py() or 0) if types.is_floating(values.type) else 0


def _folded(row: Mapping[str, object]) -> dict[str, object]:
    """A row with names in lower case."""
    for name in row:
        if not isinstance(name, str):
            raise SchemaError(f"the key {name!r} of a row is not a string", hint="write the keys as strings")
    folded_row = {folded(name): value for name, value in row.items()}
    if len(folded_row) < len(row):
        raise SchemaError(
            f"a row has two keys that differ only in case: {', '.join(map(repr, row))}", hint="rename one of them"
        )
    return folded_row


def _narrows(source: Any, target: Any) -> bool:
    """True if values of the type `source` can become `target`, and pyarrow refuses those that it would change."""
    from pyarrow import types

    if types.is_null(source):
        return not types.is_null(target)
    if types.is_integer(source):
        return bool(types.is_integer(target) or types.is_floating(target) or types.is_decimal(target))
    if types.is_floating(source):
        return bool(types.is_float32(target))
    if types.is_decimal(source):
        return bool(types.is_decimal(target))
    if types.is_list(source) and types.is_list(target):
        return source.value_type == target.value_type or _narrows(source.value_type, target.value_type)
    if types.is_struct(source) and types.is_struct(target):
        fields = {field.name: field.type for field in target}
        return all(
            field.name in fields and (field.type == fields[field.name] or _narrows(field.type, fields[field.name]))
            for field in source
        )
    return False
