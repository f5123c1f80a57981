"""Values of a query in Python without loss: Python has no FLOAT, no nanoseconds and no infinite dates.

DuckDB returns such values as text, also inside lists, structs and maps, and this module reads the text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from duckdb.sqltypes import DuckDBPyType

from lakeconf.sql import folded, identifier

_TIMES = ("timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone")


_NESTED = ("list", "array", "map", "struct")


# Python ignores digits after the sixth.
_NANOSECONDS = re.compile(r"\.\d{6}\d*[1-9]")


class MapValue(dict[Any, Any]):
    """A value of the type MAP: unlike in a struct, a key with NULL differs from a key that is not there."""


def exact_sql(name: str, kind: DuckDBPyType) -> str:
    """Returns the SQL for a column that `exact_value` can read."""
    wanted = str(kind) if _is_odd(kind) else _readable(kind)
    return identifier(name) if wanted == str(kind) else f"CAST({identifier(name)} AS {wanted})"


def exact_value(value: Any, kind: DuckDBPyType) -> Any:
    """Returns a value of `exact_sql`: a FLOAT as the number that DuckDB shows, a time that Python lacks as text."""
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


# Sums of DOUBLE depend on the order of the rows.
_TOLERANCE = 1e-9


@dataclass(frozen=True)
class Cell:
    """A value that a model has computed.

    Attributes:
        value: The value in Python; see `exact_value`.
        text: DuckDB's text of it; None for NULL.
    """

    value: Any
    text: str | None


@dataclass(frozen=True)
class RowDifference:
    """The result of a comparison.

    Attributes:
        columns: The compared columns.
        missing: Expected rows that the model does not return, as text; NULL is None.
        unexpected: Rows of the model that are not expected, as text; NULL is None.
        wrong_order: True if all rows are equal, but not their order.
    """

    columns: Sequence[str]
    missing: Sequence[Sequence[str | None]] = ()
    unexpected: Sequence[Sequence[str | None]] = ()
    wrong_order: bool = False

    def __bool__(self) -> bool:
        return bool(self.missing or self.unexpected or self.wrong_order)


def compared(
    columns: Sequence[str], expected: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[Cell]], *, ordered: bool
) -> RowDifference:
    """Compares rows; each row counts as often as it occurs."""
    wanted = [_in_order(columns, row) for row in expected]
    left = list(rows)
    missing = []
    for row in wanted:
        place = next((index for index, one in enumerate(left) if _same_row(row, one)), None)
        if place is None:
            missing.append([_shown(value) for value in row])
        else:
            del left[place]
    unexpected = [[cell.text for cell in row] for row in left]
    if missing or unexpected or not ordered:
        return RowDifference(columns, missing, unexpected)
    if all(_same_row(row, one) for row, one in zip(wanted, rows, strict=True)):
        return RowDifference(columns)
    shown = [[_shown(value) for value in row] for row in wanted]
    return RowDifference(columns, shown, [[cell.text for cell in row] for row in rows], wrong_order=True)


def _in_order(columns: Sequence[str], row: Mapping[str, Any]) -> list[Any]:
    by_name = {folded(name): value for name, value in row.items()}
    return [by_name.get(folded(name)) for name in columns]


def _same_row(expected: Sequence[Any], row: Sequence[Cell]) -> bool:
    return all(_same_cell(one, cell) for one, cell in zip(expected, row, strict=True))


def _same_cell(expected: Any, cell: Cell) -> bool:
    if isinstance(expected, str) and not isinstance(cell.value, str) and cell.text is not None:
        number = _number(expected)
        both = number is not None and _number(cell.value) is not None
        return _same(number, cell.value) if both else expected == cell.text
    return _same(expected, cell.value)


def _same(expected: Any, found: Any) -> bool:
    if expected is None or found is None:
        return expected is found
    if isinstance(expected, Mapping) and isinstance(found, Mapping):
        wanted = {str(key): value for key, value in expected.items()}
        known = {str(key): value for key, value in found.items()}
        if isinstance(found, MapValue) and wanted.keys() != known.keys():
            return False
        return wanted.keys() <= known.keys() and all(_same(wanted.get(key), value) for key, value in known.items())
    if _is_list(expected) and _is_list(found):
        return len(expected) == len(found) and all(map(_same, expected, found))
    if isinstance(expected, bool) or isinstance(found, bool):
        return expected is found
    if isinstance(found, float) and isinstance(expected, int | float | Decimal):
        return _same_float(float(expected), found)
    numbers = _number(expected), _number(found)
    if not isinstance(expected, str) and not isinstance(found, str) and None not in numbers:
        return numbers[0] == numbers[1]
    if isinstance(found, datetime) and isinstance(expected, date):
        return _same_time(expected, found)
    return bool(type(expected) is type(found) and expected == found)


def _same_float(expected: float, found: float) -> bool:
    if math.isnan(expected) or math.isnan(found):
        return math.isnan(expected) and math.isnan(found)
    return math.isclose(expected, found, rel_tol=_TOLERANCE, abs_tol=0.0)


def _same_time(expected: date, found: datetime) -> bool:
    """A time without a zone is UTC if the column has a zone; a date is its midnight."""
    moment = expected if isinstance(expected, datetime) else datetime.combine(expected, datetime.min.time())
    if found.tzinfo is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return (moment.tzinfo is None) == (found.tzinfo is None) and moment == found


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        found = Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        return None
    return found if found.is_finite() else None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _shown(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat(" ") if isinstance(value, datetime) else str(value)
