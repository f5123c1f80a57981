"""SQL conditions for values of files that a type would round: DuckDB reads 2.7 as the BIGINT 3 without an error."""

from __future__ import annotations

import re

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.types import integers, parsed_type
from lakeconf.sql import literal

_INTEGERS = integers()
# The digits of a second that a type holds.
_MICROSECONDS = ("timestamp", "timestamp with time zone", "time")
_SECONDS = {"timestamp_s": 0, "timestamp_ms": 3, "timestamp_ns": 9, **dict.fromkeys(_MICROSECONDS, 6)}
_ZONED_TIME = "time with time zone"
_NESTED = ("struct", "list", "map", "array")
_INTEGER = r"U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?(?!\w)"
_NUMBER = re.compile(rf'"(?:[^"]|"")*"|\b(?:(?P<decimal>DECIMAL\(\d+, *\d+\))|{_INTEGER})')


def read_as(kind: str) -> str:
    """Returns the type to read a column of text as, so that checks find values that the type would change.

    Args:
        kind: The DuckDB type of the column.
    """
    found = parsed_type(kind)
    if found.id in _NESTED:
        return _NUMBER.sub(lambda one: one[0] if one[0][0] == '"' else "DOUBLE", kind)
    is_checked = found.id in _INTEGERS or found.id in _SECONDS or found.id in ("decimal", "date", _ZONED_TIME)
    return "VARCHAR" if is_checked else kind


def rounds(column: str, given: str, wanted: str) -> str | None:
    """Returns the condition under which a cast would change a value; None if it never does.

    Args:
        column: The column, quoted.
        given: Its DuckDB type.
        wanted: The type of the cast.
    """
    if given == wanted:
        return None
    kind, source = parsed_type(wanted), parsed_type(given)
    if source.id == "varchar":
        return _text_rounds(column, kind)
    if kind.id == "varchar":
        return None
    # A large integer may be one less as DOUBLE, and then one too large for its own type.
    wider = _NUMBER.sub(lambda one: one[0] if one[0][0] == '"' or one["decimal"] else "HUGEINT", wanted)
    cast = wider if "DOUBLE" in given else wanted
    return f"TRY_CAST(TRY_CAST({column} AS {cast}) AS {given}) IS DISTINCT FROM {column}"


def _text_rounds(column: str, kind: DuckDBPyType) -> str | None:
    if kind.id in _INTEGERS:
        return _has_more_digits(column, 0)
    if kind.id == "decimal":
        return _has_more_digits(column, int(str(dict(kind.children)["scale"])))
    if kind.id == "date":
        time = r"\d:\d\d", r"[ T]0?0:00(:00(\.0*)?)?\D*$"
        has_time = f"regexp_matches({column}, {literal(time[0])}) AND NOT regexp_matches({column}, {literal(time[1])})"
        return _only_if(f"contains({column}, ':')", has_time)
    if kind.id in _SECONDS:
        pattern = rf"\.\d{{{_SECONDS[kind.id]}}}\d*[1-9]"
        return _only_if(f"contains({column}, '.')", f"regexp_matches({column}, {literal(pattern)})")
    return None


def _only_if(cheap: str, condition: str) -> str:
    """A condition that few rows compute: regular expressions take longer than reading a file."""
    return f"CASE WHEN {cheap} THEN {condition} ELSE false END"


def _has_more_digits(column: str, scale: int) -> str:
    """The condition that a number in a text has more digits after the point than a type."""
    mantissa = f"regexp_replace(trim({column}), '[eE].*$', '')"
    exponent = f"coalesce(TRY_CAST(regexp_extract({column}, '[eE]([+-]?\\d+)', 1) AS INTEGER), 0)"
    digits = f"regexp_replace({mantissa}, '\\D', '', 'g')"
    places = f"length(regexp_extract({mantissa}, '\\.(\\d*)', 1))"
    zeros = f"(length({digits}) - length(rtrim({digits}, '0')))"
    is_number = f"regexp_matches({column}, '^\\s*[+-]?(\\d+\\.?\\d*|\\.\\d+)([eE][+-]?\\d+)?\\s*$')"
    has_digits = f"contains({column}, '.') AND length({column}) - strpos({column}, '.') > {scale}"
    return _only_if(
        f"({has_digits}) OR contains({column}, 'e') OR contains({column}, 'E')",
        f"{is_number} AND rtrim({digits}, '0') <> '' AND {places} - {zeros} - {exponent} > {scale}",
    )
