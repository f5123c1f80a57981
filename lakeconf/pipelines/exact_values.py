"""Values of a query in Python without loss: Python has no FLOAT, no nanoseconds and no infinite dates.

DuckDB returns such values as text, also inside lists, structs and maps, and this module reads the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from lakeconf.sql import identifier

_TIMES = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone")
_NESTED = ("list", "array", "map", "struct")
# Python ignores digits after the sixth.
_NANOSECONDS = re.compile(r"\.\d{6}\d*[1-9]")


class MapValue(dict[Any, Any]):
    """A value of the type MAP: unlike in a struct, a key with NULL differs from a key that is not there."""


def exact_sql(name: str, kind: DuckDBPyType) -> str:
    """Returns the SQL for a column that `exact_value` can read.

    Args:
        name: The column.
        kind: Its type.
    """
    wanted = str(kind) if _is_odd(kind) else _readable(kind)
    return identifier(name) if wanted == str(kind) else f"CAST({identifier(name)} AS {wanted})"


def exact_value(value: Any, kind: DuckDBPyType) -> Any:
    """Returns a value of `exact_sql`: a FLOAT as the number that DuckDB shows, a time that Python lacks as text.

    Args:
        value: The value.
        kind: The type of the column.
    """
    return value if _is_odd(kind) else _read(value, kind)


def _read(value: Any, kind: DuckDBPyType) -> Any:
    if value is None:
        return None
    if kind.id in _LEAVES:
        return _LEAVES[kind.id](value)
    if kind.id not in _NESTED:
        return value
    types: dict[str, Any] = dict(kind.children)
    if kind.id == "map":
        return MapValue((_read(one, types["key"]), _read(found, types["value"])) for one, found in value.items())
    if kind.id == "struct":
        return {one: _read(found, types[one]) for one, found in value.items()}
    return [_read(one, types["child"]) for one in value]


def _is_odd(kind: DuckDBPyType) -> bool:
    """True for a struct without names, whose type has no SQL, and for a map with nested keys."""
    if kind.id not in _NESTED:
        return False
    types: dict[str, Any] = dict(kind.children)
    if "" in types or (kind.id == "map" and types["key"].id in _NESTED):
        return True
    return any(_is_odd(child) for name, child in types.items() if name != "size")


def _time(text: str) -> Any:
    try:
        return text if _NANOSECONDS.search(text) else datetime.fromisoformat(text)
    except ValueError:  # infinity, or a year that Python lacks
        return text


def _date(text: str) -> Any:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return text


_LEAVES: Mapping[str, Callable[[str], Any]] = {"float": float, "date": _date, **dict.fromkeys(_TIMES, _time)}


def _readable(kind: DuckDBPyType) -> str:
    """The type with VARCHAR in place of the types that Python lacks."""
    if kind.id in _LEAVES:
        return "VARCHAR"
    if kind.id not in _NESTED:
        return str(kind)
    types: dict[str, Any] = dict(kind.children)
    if kind.id == "struct":
        return f"STRUCT({', '.join(f'{identifier(name)} {_readable(child)}' for name, child in types.items())})"
    if kind.id == "map":
        return f"MAP({_readable(types['key'])}, {_readable(types['value'])})"
    return f"{_readable(types['child'])}[{types.get('size', '')}]"
