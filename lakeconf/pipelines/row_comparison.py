"""Compares the rows of a model with the expected rows of a unit test."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from lakeconf.pipelines.exact_values import MapValue
from lakeconf.sql import folded

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
    """Compares rows; each row counts as often as it occurs.

    Args:
        columns: The compared columns.
        expected: The expected rows; a column that a row lacks is NULL.
        rows: The rows of the model, with the cells of `columns`.
        ordered: True if the order counts.
    """
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
