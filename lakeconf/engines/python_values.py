"""Checks of the Python values of a column that pyarrow would change: it converts some kinds of values to others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isnan
from typing import Any

from lakeconf.errors import SchemaError

# Values of one of these types stay as they are.
_KEPT = ({str}, {bytes}, {int}, {float}, {bool})


def is_null(value: object) -> bool:
    """True for None, and for NA and NaT of pandas."""
    kind = type(value)
    return value is None or (kind.__name__ in ("NAType", "NaTType") and kind.__module__.startswith("pandas."))


def check_values(column: str, values: Iterable[object]) -> None:
    """Refuses values of one column that pyarrow would change.

    Args:
        column: The name of the column, for the error.
        values: The values, which may be nested.

    Raises:
        SchemaError: Dates are mixed with times, texts with bytes, or times with a time zone with others; or a value is
            a decimal without a number, a time with nanoseconds, or a time of day with a time zone.
    """
    known = [value for value in values if not (is_null(value) or _is_nan(value))]
    if set(map(type, known)) in _KEPT:
        return
    nested = [value for value in known if isinstance(value, Mapping)]
    for name in {name for value in nested for name in value}:
        check_values(column, (value.get(name) for value in nested))
    lists = [part for value in known for part in _parts(value)]
    if lists:
        check_values(column, lists)
    kinds = sorted({kind for value in known if (kind := _kind(value)) is not None})
    if len(kinds) > 1:
        raise _refused(column, f"they are {' and '.join(kinds)}", "use one type for each column")
    if kinds == ["times of day with a time zone"]:
        raise _refused(
            column,
            "pyarrow would ignore the time zones of times of day",
            "remove the time zone: value.replace(tzinfo=None)",
        )
    for value in known:
        _check_kept(column, value)


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and isnan(value)


def _parts(value: object) -> Iterable[object]:
    """The elements of a list, which may be an array of numpy; an array of numbers has no elements to check."""
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    found: Any = value
    is_array_of_objects = getattr(value, "ndim", 0) and str(getattr(value, "dtype", "")) == "object"
    return list(found.tolist()) if is_array_of_objects else ()


def _check_kept(column: str, value: object) -> None:
    if isinstance(value, Decimal) and not value.is_finite():
        raise _refused(
            column,
            f"{value} is no number, and a decimal of DuckDB is always one",
            "replace it with None, or use floats, which have NaN and infinities",
        )
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
