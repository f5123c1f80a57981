"""Converts the texts of `min_value`, `max_value` and partition values to bounds of a file's values.

The text may be from an earlier type of the column, or from the footer of a file that another tool wrote with a narrower
type: `0.1` in a FLOAT file is 0.10000000149 as a DOUBLE. In these cases, the bounds are widened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from lakeconf.catalog.predicate.nodes import Value, literal_type, value_sql
from lakeconf.catalog.table import Column

# The length of a text with the type's precision, and the maximum rounding error of a text with higher precision.
_TIMESTAMPS = {
    "timestamp_s": (19, "1 SECOND"),
    "timestamp_ms": (23, "1 SECOND"),
    "timestamp": (26, "1 MICROSECOND"),
    "timestamp_ns": (26, "1 MICROSECOND"),
}
_ZONED_TEXT = r":[0-9]{2}(\.[0-9]{1,6})?[+-][0-9:]+$|^-?infinity$"
# 128-bit integers are stored as doubles, and the bounds of a BLOB are hex in some files and raw text in others.
_CAST = {
    "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "date", "varchar", "uuid",
}  # fmt: skip
_FLOATS = {"float32", "float64"}


@dataclass(frozen=True, slots=True)
class Bounds:
    """SQL expressions for a lower and an upper bound of a file's values."""

    low: str
    high: str


def bounds_of(column: Column, low: str, high: str) -> Bounds | None:
    """Returns the bounds of a column; None if its type has no usable bounds.

    Args:
        column: The column.
        low: The SQL expression for the text of the lower bound.
        high: The SQL expression for the text of the upper bound.

    Returns:
        SQL expressions, which are NULL if a text cannot be parsed.
    """
    if column.type == "timestamptz":
        return _zoned(low, high)
    if column.type in _TIMESTAMPS:
        return _naive(column, low, high)
    if column.type == "float64":
        # A promoted DECIMAL becomes a DOUBLE by division, which rounds differently from parsing its text.
        near = "nextafter(nextafter(TRY_CAST({1} AS DOUBLE), {2}), {2})"
        wide = "{0}(" + near + ", CAST(TRY_CAST({1} AS FLOAT) AS DOUBLE))"
        lowest, greatest = (f"CAST('{sign}inf' AS DOUBLE)" for sign in ("-", ""))
        return Bounds(
            _unless_nan(wide.format("least", low, lowest)), _unless_nan(wide.format("greatest", high, greatest))
        )
    target = literal_type(column.type)
    if column.type not in _CAST | {"float32"} and not column.type.startswith("decimal("):
        return None
    exact = Bounds(f"TRY_CAST({low} AS {target})", f"TRY_CAST({high} AS {target})")
    if column.type == "float32":
        return Bounds(_unless_nan(exact.low), _unless_nan(exact.high))
    if column.type == "date" and "timestamptz" in column.later_types:
        return Bounds(f"TRY({exact.low} - 1)", f"TRY({exact.high} + 1)")
    return exact


def comparable_sql(value: Value, column: Column) -> str:
    """Renders a value in SQL for the comparison with its column's bounds."""
    return value_sql(value, "timestamp" if column.type in _TIMESTAMPS else column.type)


def is_float(column: Column) -> bool:
    """Returns True if the column may contain NaN, which bounds do not cover."""
    return column.type in _FLOATS


def is_nan(value: Value) -> bool:
    """Returns True if the value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def _unless_nan(expression: str) -> str:
    return f"nullif({expression}, 'nan')"


def _naive(column: Column, low: str, high: str) -> Bounds:
    length, slack = _TIMESTAMPS[column.type]
    if "timestamptz" in column.later_types:
        length, slack = 0, "1 DAY"  # a file compacted after the promotion has texts with an offset

    def widened(text: str, sign: str) -> str:
        moment = f"TRY_CAST({text} AS TIMESTAMP)"
        return f"CASE WHEN length({text}) > {length} THEN TRY({moment} {sign} INTERVAL {slack}) ELSE {moment} END"

    return Bounds(widened(low, "-"), widened(high, "+"))


def _zoned(low: str, high: str) -> Bounds:
    # A text without an offset is from before a promotion. Its meaning depends on the reader's time zone, and around
    # clock changes the order of such texts differs from the order of their times.
    def widened(text: str, sign: str) -> str:
        moment = f"TRY_CAST({text} AS TIMESTAMPTZ)"
        return (
            f"CASE WHEN regexp_matches({text}, '{_ZONED_TEXT}') THEN {moment} "
            f"ELSE TRY({moment} {sign} INTERVAL 1 DAY) END"
        )

    return Bounds(widened(low, "-"), widened(high, "+"))
