"""Casts of a frame's columns to a table's types that fail for values they would change."""

from __future__ import annotations

import re
from collections.abc import Mapping

from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.types import parsed_type
from lakeconf.connection.errors import REFUSED_VALUE
from lakeconf.ducklake import PLACEHOLDER
from lakeconf.sql import folded, identifier, literal

_TIMES = ("time", "time with time zone", "interval")
# Casts that round silently, or may round.
_ROUNDED = {
    *(("decimal", wanted) for wanted in ("ubigint", "hugeint", "uhugeint")),
    *(("timestamp", wanted) for wanted in ("timestamp_s", "timestamp_ms")),
}
_TEXTS = ("varchar", "blob", "variant")
# DuckDB writes these types to Parquet as DOUBLE, which cannot hold every value above 2^53.
STORED_AS_DOUBLE = frozenset({"hugeint", "uhugeint"})
# Files store the milliseconds of an interval in 32 bits: 1193 hours. The pattern is for DuckDB and for Python.
INEXACT_INTERVAL = r"\.\d{3}\d*[1-9]|\b(119[3-9]|1[2-9]\d\d|[2-9]\d{3}|\d{5,}):\d\d:\d\d"
_EXACT_IN_DOUBLE = frozenset({"tinyint", "smallint", "integer", "utinyint", "usmallint", "uinteger"})
_WITH_OFFSET = "time with time zone"
# How files store a type, by its name in SQL: the values that the cast to it changes.
_STORED = {"HUGEINT": "DOUBLE", "UHUGEINT": "DOUBLE", "TIME WITH TIME ZONE": "TIME"}
_CHANGED = re.compile(r'"(?:[^"]|"")*"|\bU?HUGEINT\b|\bTIME WITH TIME ZONE\b')


def exact_casts(found: Mapping[str, str], types: Mapping[str, str]) -> str:
    """The SELECT list that casts the columns of a frame to these names and types.

    Args:
        found: The frame's columns and the DuckDB names of their types.
        types: The requested columns and their types.
    """
    names = {folded(name): name for name in found}
    casts = []
    for name, wanted in types.items():
        given = names[folded(name)]
        casts.append(f"{_cast(name, identifier(given), found[given], wanted)} AS {identifier(name)}")
    return ", ".join(casts)


def rounded_columns(found: Mapping[str, str], types: Mapping[str, str]) -> list[str]:
    """The columns whose casts may fail because the table's type would round a value."""
    names = {folded(name): text for name, text in found.items()}
    return [name for name, wanted in types.items() if _rounds(identifier(name), names[folded(name)], wanted)]


def changed_by_files(name: str, text: str) -> str:
    """The condition under which files change the value of a column of a type that they store inexactly."""
    return _rounds(identifier(name), text, text) or "false"


def is_stored_inexactly(found: DuckDBPyType) -> bool:
    """True if values of the type contain an integer, interval or offset that Parquet files may change, at any depth."""
    inexact = found.id in ("interval", _WITH_OFFSET) or found.id in STORED_AS_DOUBLE
    return inexact or any(map(is_stored_inexactly, _parts(found).values()))


def has_text(found: DuckDBPyType) -> bool:
    """True if values of the type contain text at any depth."""
    if found.id in _TEXTS:
        return True
    return any(map(has_text, _parts(found).values()))


def placeholder_message(name: str) -> str:
    """The error message for a value that contains a placeholder of DuckLake."""
    return (
        f"{REFUSED_VALUE} the column {name!r} has a value with a placeholder that DuckLake would replace in its "
        "statistics, such as SNAPSHOT_ID"
    )


def _cast(name: str, column: str, given: str, wanted: str) -> str:
    cast = f"CAST({column} AS {wanted})"
    rounds = _rounds(column, given, wanted)
    cases = ""
    if rounds:
        message = f"{REFUSED_VALUE} the column {name!r} has values that its type {wanted} would round"
        cases += f" WHEN {rounds} THEN error({literal(message)})"
    if has_text(parsed_type(wanted)):
        text = f"CAST({column} AS VARCHAR)"
        holds = f"contains({text}, '{{') AND regexp_matches({text}, {literal(PLACEHOLDER)})"
        cases += f" WHEN {holds} THEN error({literal(placeholder_message(name))})"
    return f"CASE{cases} ELSE {cast} END" if cases else cast


def _rounds(column: str, given: str, wanted: str) -> str | None:
    """The condition under which a cast would lose precision; None if it never does."""
    pairs = _leaves(parsed_type(given), parsed_type(wanted))
    conditions = []
    if pairs & _ROUNDED:
        conditions.append(f"CAST(CAST({column} AS {wanted}) AS {given}) IS DISTINCT FROM {column}")
    if any(pair == ("varchar", time) for pair in pairs for time in _TIMES):
        conditions.append(f"regexp_matches(CAST({column} AS VARCHAR), '\\.\\d{{6}}\\d*[1-9]')")
    if any(kind == "interval" for _, kind in pairs):
        text = f"CAST(CAST({column} AS {wanted}) AS VARCHAR)"
        conditions.append(f"regexp_matches({text}, {literal(INEXACT_INTERVAL)})")
    if any(kind == _WITH_OFFSET for _, kind in pairs):
        conditions.append(f"contains(CAST(CAST({column} AS {wanted}) AS VARCHAR), '24:00:00')")
    inexact = {kind for source, kind in pairs if source not in _EXACT_IN_DOUBLE}
    if inexact & {*STORED_AS_DOUBLE, _WITH_OFFSET}:
        stored = _CHANGED.sub(lambda found: _STORED.get(found[0], found[0]), str(parsed_type(wanted)))
        value = f"CAST({column} AS {wanted})"
        conditions.append(f"TRY_CAST(CAST({value} AS {stored}) AS {wanted}) IS DISTINCT FROM {value}")
    return " OR ".join(conditions) or None


def _leaves(given: DuckDBPyType, wanted: DuckDBPyType) -> set[tuple[str, str]]:
    """The pairs of source and target types in a cast, at any depth."""
    theirs, ours = _parts(given), _parts(wanted)
    pairs: set[tuple[str, str]] = {(given.id, wanted.id)} if theirs.keys() != ours.keys() or not ours else set()
    for name in theirs.keys() & ours.keys():
        pairs |= _leaves(theirs[name], ours[name])
    return pairs


def _parts(nested: DuckDBPyType) -> dict[str, DuckDBPyType]:
    if nested.id not in ("struct", "list", "map", "array"):
        return {}
    return {folded(name): part for name, part in nested.children if isinstance(part, DuckDBPyType)}
