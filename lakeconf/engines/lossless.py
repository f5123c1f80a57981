"""Finds the values that a cast would change, and casts that fail for them: of frames, files and text."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import (
    SECOND_DIGITS,
    Fact,
    digits_of,
    fields_of,
    ids_in,
    ids_with,
    integers,
    parsed_type,
)
from lakeconf.connection.duckdb_errors import REFUSED_VALUE
from lakeconf.ducklake import PLACEHOLDER
from lakeconf.sql import folded, identifier, literal

# The digits of an integer that each holds exactly.
FLOATS = {"float": 7, "double": 15}
_INTEGERS = integers()
_TIMES = ("time", "time with time zone", "interval")
# Casts that round silently, or may round.
_ROUNDED = {
    *(("decimal", target) for target in ("ubigint", "hugeint", "uhugeint")),
    *(("timestamp", target) for target in ("timestamp_s", "timestamp_ms")),
    ("decimal", "double"),
    ("timestamp_ns", "timestamp"),
}
_TEXTS = frozenset({"varchar", "blob", "variant"})
STORED_AS_DOUBLE = ids_with(Fact.AS_DOUBLE)
# Files store the milliseconds of an interval in 32 bits: 1193 hours. The pattern is for DuckDB and for Python.
INEXACT_INTERVAL = r"\.\d{3}\d*[1-9]|\b(119[3-9]|1[2-9]\d\d|[2-9]\d{3}|\d{5,}):\d\d:\d\d"
_EXACT_IN_DOUBLE = frozenset({"tinyint", "smallint", "integer", "utinyint", "usmallint", "uinteger"})
_WITH_OFFSET = "time with time zone"
# How files store a type, by its name in SQL: the values that the cast to it changes.
_STORED = {"HUGEINT": "DOUBLE", "UHUGEINT": "DOUBLE", "TIME WITH TIME ZONE": "TIME"}
_CHANGED = re.compile(r'"(?:[^"]|"")*"|\bU?HUGEINT\b|\bTIME WITH TIME ZONE\b')


def exact_casts(frame: Mapping[str, str], types: Mapping[str, str]) -> str:
    """The SELECT list that casts the columns of a frame to these names and types."""
    names = {folded(name): name for name in frame}
    casts = []
    for name, target in types.items():
        source = names[folded(name)]
        casts.append(f"{_cast(name, identifier(source), frame[source], target)} AS {identifier(name)}")
    return ", ".join(casts)


def checked_cast(value: str, source: str, target: str, message: str) -> str:
    """A cast that fails with a message for values that it would change."""
    changes = _rounds(value, source, target)
    cast = f"CAST({value} AS {target})"
    return f"CASE WHEN {changes} THEN error({literal(message)}) ELSE {cast} END" if changes else cast


def rounded_columns(frame: Mapping[str, str], types: Mapping[str, str]) -> list[str]:
    """The columns whose casts may fail because the table's type would round a value."""
    names = {folded(name): text for name, text in frame.items()}
    return [name for name, target in types.items() if _rounds(identifier(name), names[folded(name)], target)]


def changed_by_files(name: str, text: str) -> str:
    """The condition under which files change the value of a column of a type that they store inexactly."""
    return _rounds(identifier(name), text, text) or "false"


def is_stored_inexactly(duckdb_type: DuckDBPyType) -> bool:
    """True if values of the type contain an integer, interval or offset that Parquet files may change, at any depth."""
    return not ids_in(duckdb_type).isdisjoint(ids_with(Fact.INEXACT))


def has_text(duckdb_type: DuckDBPyType) -> bool:
    """True if values of the type contain text at any depth."""
    return not ids_in(duckdb_type).isdisjoint(_TEXTS)


def placeholder_message(name: str) -> str:
    """The error message for a value that contains a placeholder of DuckLake."""
    return (
        f"{REFUSED_VALUE} the column {name!r} has a value with a placeholder that DuckLake would replace in its "
        "statistics, such as SNAPSHOT_ID"
    )


@functools.lru_cache(4096)
def _cast(name: str, column: str, source: str, target: str) -> str:
    cast = f"CAST({column} AS {target})"
    rounds = _rounds(column, source, target)
    cases = ""
    if rounds:
        message = f"{REFUSED_VALUE} the column {name!r} has values that its type {target} would round"
        cases += f" WHEN {rounds} THEN error({literal(message)})"
    if has_text(parsed_type(target)):
        text = f"CAST({column} AS VARCHAR)"
        holds = f"contains({text}, '{{') AND regexp_matches({text}, {literal(PLACEHOLDER)})"
        cases += f" WHEN {holds} THEN error({literal(placeholder_message(name))})"
    return f"CASE{cases} ELSE {cast} END" if cases else cast


@functools.lru_cache(4096)
def _rounds(column: str, source: str, target: str) -> str | None:
    """The condition under which a cast would lose precision; None if it never does."""
    pairs = _leaves(parsed_type(source), parsed_type(target))
    conditions = []
    if pairs & _ROUNDED:
        conditions.append(f"{there_and_back(column, source, target)} IS DISTINCT FROM {column}")
    if any(pair == ("varchar", time) for pair in pairs for time in _TIMES):
        conditions.append(f"regexp_matches(CAST({column} AS VARCHAR), '\\.\\d{{6}}\\d*[1-9]')")
    if ("varchar", "time") in pairs:  # DuckDB leaves out an offset
        conditions.append(f"regexp_matches(CAST({column} AS VARCHAR), ':\\d\\d[\\d.]*\\s*[-+Zz]')")
    if any(kind == "interval" for _, kind in pairs):
        text = f"CAST(CAST({column} AS {target}) AS VARCHAR)"
        conditions.append(f"regexp_matches({text}, {literal(INEXACT_INTERVAL)})")
    if any(kind == _WITH_OFFSET for _, kind in pairs):
        conditions.append(f"contains(CAST(CAST({column} AS {target}) AS VARCHAR), '24:00:00')")
    inexact = {kind for origin, kind in pairs if origin not in _EXACT_IN_DOUBLE}
    if inexact & {*STORED_AS_DOUBLE, _WITH_OFFSET}:
        stored = _CHANGED.sub(lambda match: _STORED.get(match[0], match[0]), str(parsed_type(target)))
        value = f"CAST({column} AS {target})"
        conditions.append(f"TRY_CAST(CAST({value} AS {stored}) AS {target}) IS DISTINCT FROM {value}")
    return " OR ".join(conditions) or None


def _leaves(source: DuckDBPyType, target: DuckDBPyType) -> set[tuple[str, str]]:
    """The pairs of source and target types in a cast, at any depth."""
    inner, outer = fields_of(source), fields_of(target)
    theirs, ours = ({folded(name): part for name, part in fields.items()} for fields in (inner, outer))
    pairs: set[tuple[str, str]] = {(source.id, target.id)} if theirs.keys() != ours.keys() or not ours else set()
    for name in theirs.keys() & ours.keys():
        pairs |= _leaves(theirs[name], ours[name])
    return pairs


def there_and_back(column: str, source: str, target: str) -> str:
    """The value after a cast to another type and back; NULL if it does not fit."""
    return f"TRY_CAST(TRY_CAST({column} AS {target}) AS {source})"


def text_rounds(column: str, kind: DuckDBPyType) -> str | None:
    """The condition under which a cast of text to a type changes its value; None if it never does."""
    if kind.id in _INTEGERS:
        return has_more_digits(column, 0)
    if kind.id in FLOATS:
        # A DOUBLE is not an exact number, but its integers are.
        is_large = f"length({column}) > {FLOATS[kind.id]} AND regexp_matches({column}, '^\\s*[+-]?\\d+\\.?0*\\s*$')"
        changes = f"TRY_CAST(CAST({column} AS {kind}) AS HUGEINT) IS DISTINCT FROM TRY_CAST({column} AS HUGEINT)"
        value, has_exponent = (
            f"CAST({column} AS {kind})",
            f"regexp_matches({column}, '\\d[eE]') OR length({column}) > 38",
        )
        is_other = f"isinf({value}) OR ({value} = 0 AND regexp_matches({column}, '^[^eE]*[1-9]'))"
        changes = f"({is_large} AND (TRY_CAST({column} AS HUGEINT) IS NULL OR {changes})) OR {is_other}"
        return _only_if(f"({is_large}) OR {has_exponent}", changes)
    if kind.id == "boolean":
        return f"TRY_CAST({column} AS DOUBLE) NOT IN (0, 1)"
    if kind.id == "decimal":
        return has_more_digits(column, digits_of(kind)[1])
    if kind.id == "date":
        time = r"\d:\d\d", r"[ T]0?0:00(:00(\.0*)?)?\D*$"
        has_time = f"regexp_matches({column}, {literal(time[0])}) AND NOT regexp_matches({column}, {literal(time[1])})"
        return _only_if(f"contains({column}, ':')", has_time)
    if kind.id in SECOND_DIGITS:
        pattern = rf"\.\d{{{SECOND_DIGITS[kind.id]}}}\d*[1-9]"
        return _only_if(f"contains({column}, '.')", f"regexp_matches({column}, {literal(pattern)})")
    return None


def _only_if(cheap: str, condition: str) -> str:
    """A condition that few rows compute: regular expressions take longer than reading a file."""
    return f"CASE WHEN {cheap} THEN {condition} ELSE false END"


def has_more_digits(column: str, scale: int) -> str:
    """The condition that a number in a string has more digits after the point than a type."""
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
