"""Converts the literals of a `where` exactly to the types of its columns."""

from __future__ import annotations

import math
import re
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Generic, TypeAlias, TypeVar

from lakeconf.catalog.column_types import TYPES, Fact, decimal_digits, integer_bits, names_with
from lakeconf.catalog.pruning.expression import NotUnderstoodError
from lakeconf.catalog.pruning.predicates import (
    DATE,
    TIMESTAMP,
    And,
    Comparison,
    In,
    Operator,
    Or,
    Predicate,
    Value,
    parse_date,
    parse_timestamp,
)
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import closed_connection
from lakeconf.errors import PredicateError

Raw: TypeAlias = "Value | Text"
T = TypeVar("T")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")

# The range of TIMESTAMP_NS.
_FIRST_NANOSECONDS = datetime(1677, 9, 22)
_LAST_NANOSECONDS = datetime(2262, 4, 11)
_EXACT = Context(prec=200)
_EXACT_DIGITS = 15  # of a decimal that becomes a DOUBLE
_BEYOND_ALL = Decimal("1e50")


@dataclass(frozen=True, slots=True)
class Text:
    """A string literal, which takes the type of the column."""

    value: str


@dataclass(frozen=True, slots=True)
class Fit(Generic[T]):
    """The position of a literal among the values of a column's type."""

    value: T | None  # the greatest value that is not above the literal; None if all values are above it
    is_exact: bool  # True if `value` equals the literal
    any_value: T  # an arbitrary value of the type


def compare(column: Column, operator: Operator, raw: Raw) -> Predicate:
    """Compares a column with a literal.

    A literal that the column's type cannot represent becomes an equivalent comparison: for an integer column, `x < 1.5`
    becomes `x <= 1`, and `x = 1.5` becomes false, or NULL if `x` is NULL.
    """
    fit = _fit(column, raw)
    if fit.value is not None and fit.is_exact:
        return Comparison(column, operator, fit.value)
    if operator == "=":
        return _constant(column, fit, value=False)
    if operator == "!=":
        return _constant(column, fit, value=True)
    if fit.value is None:
        return _constant(column, fit, value=operator in (">", ">="))
    return Comparison(column, "<=" if operator in ("<", "<=") else ">", fit.value)


def one_of(column: Column, raws: list[Raw]) -> Predicate:
    """Tests if a column equals one of the literals."""
    fits = [_fit(column, raw) for raw in _of_one_type(column, raws)]
    values = dict.fromkeys(fit.value for fit in fits if fit.value is not None and fit.is_exact)
    return In(column, tuple(values)) if values else _constant(column, fits[0], value=False)


def between(column: Column, low: Raw, high: Raw) -> Predicate:
    """Tests if a column is between `low` and `high`, inclusive."""
    low, high = _of_one_type(column, [low, high])
    return And((compare(column, ">=", low), compare(column, "<=", high)))


def _of_one_type(column: Column, raws: list[Raw]) -> list[Raw]:
    """Types literals together as DuckDB does: with a DOUBLE, decimals become DOUBLEs for a FLOAT column."""
    if column.type != "float32" or not any(isinstance(raw, float) for raw in raws):
        return raws
    return [_float(column, raw) for raw in raws]


def _constant(column: Column, fit: Fit[Value], *, value: bool) -> Predicate:
    """Returns a predicate with a constant value, except NULL for rows where the column is NULL."""
    above = Comparison(column, ">", fit.any_value)
    not_above = Comparison(column, "<=", fit.any_value)
    return Or((above, not_above)) if value else And((above, not_above))


def _fit(column: Column, raw: Raw) -> Fit[Value]:
    if decimal_digits(column.type):
        return _fit_decimal(column, raw)
    if integer_bits(column.type):
        return _fit_integer(column, raw)
    fitter = _FITTERS.get(column.type)
    if fitter is None:
        raise NotUnderstoodError(
            f"a `where` cannot compare the column {column.name!r} of type {column.type}",
            hint="use IS NULL or IS NOT NULL, filter after the scan, or run a query with lake.sql()",
        )
    return fitter(column, raw)


def _exactly(value: Value) -> Fit[Value]:
    return Fit(value, is_exact=True, any_value=value)


def _number(column: Column, raw: Raw) -> Decimal:
    if isinstance(raw, Text):
        number = Decimal(raw.value.strip()) if _NUMBER.fullmatch(raw.value.strip()) else None
    elif isinstance(raw, float):
        number = Decimal(repr(raw))  # by its shortest text: 1e-1 equals the decimal 0.1
    else:
        number = raw if isinstance(raw, Decimal) else None
    if number is None or number.is_nan():
        raise _misfit(column, raw, "a number")
    return number


def _bounded(number: Decimal) -> Decimal:
    """Clamps a number to a range beyond every column type, so that `1e999999` does not create a huge integer."""
    return max(-_BEYOND_ALL, min(_BEYOND_ALL, number))


def _fit_integer(column: Column, raw: Raw) -> Fit[Value]:
    signed, bits = integer_bits(column.type)  # type: ignore[misc]
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    number = _bounded(_number(column, raw))
    if isinstance(raw, Text) and number != number.to_integral_value():
        raise _misfit(column, raw, "a whole number")  # DuckDB would round it
    floor = int(number.to_integral_value(ROUND_FLOOR))
    if floor < low:
        return Fit(None, is_exact=False, any_value=low)
    return Fit(min(floor, high), is_exact=floor == number and floor <= high, any_value=low)


def _fit_decimal(column: Column, raw: Raw) -> Fit[Value]:
    precision, scale = decimal_digits(column.type)  # type: ignore[misc]
    # Use text and copy_negate, because arithmetic would round to the 28 digits of the default context.
    step, high = Decimal(f"1E-{scale}"), Decimal(f"{10**precision - 1}E-{scale}")
    low = high.copy_negate()
    number = _bounded(_number(column, raw))
    if number < low:
        return Fit(None, is_exact=False, any_value=low)
    floor = min(number, high).quantize(step, ROUND_FLOOR, _EXACT)
    if isinstance(raw, Text) and floor != number:
        raise _misfit(column, raw, f"a number with at most {scale} decimals")
    return Fit(floor, is_exact=floor == number, any_value=high)


def _fit_double(column: Column, raw: Raw) -> Fit[Value]:
    return _exactly(_float(column, raw))


def _fit_single(column: Column, raw: Raw) -> Fit[Value]:
    number = _float(column, raw, decimals="FLOAT")
    single = _to_single(number)
    if math.isnan(number) or single == number or not isinstance(raw, float):
        # DuckDB casts a decimal literal to FLOAT, but casts the column to DOUBLE for a DOUBLE literal.
        return _exactly(single)
    return Fit(single if single < number else _single_below(single), is_exact=False, any_value=0.0)


def _float(column: Column, raw: Raw, *, decimals: str = "DOUBLE") -> float:
    if isinstance(raw, float):
        return raw
    if isinstance(raw, Decimal) and (decimals == "FLOAT" or len(raw.as_tuple().digits) > _EXACT_DIGITS):
        # DuckDB divides two rounded numbers, so its result is not always the nearest one.
        with closed_connection() as connection:
            ((rounded,),) = connection.execute(f"SELECT CAST({_bounded(raw):f} AS {decimals})").fetchall()
        return float(rounded)
    if isinstance(raw, Text) and re.fullmatch(r"(?i)[+-]?(nan|inf(inity)?)", raw.value.strip()):
        return float(raw.value)
    return float(_number(column, raw))


def _to_single(number: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _single_below(single: float) -> float:
    """The next lower single, for a positive one, infinity, negative zero or a negative one."""
    (bits,) = struct.unpack("<i", struct.pack("<f", single))
    return float(struct.unpack("<f", struct.pack("<i", bits - 1 if single > 0 else bits + 1))[0])


def _fit_boolean(column: Column, raw: Raw) -> Fit[Value]:
    if isinstance(raw, bool):
        return _exactly(raw)
    if isinstance(raw, Text) and raw.value.lower() in ("true", "false"):
        return _exactly(raw.value.lower() == "true")
    raise _misfit(column, raw, "true or false")


def _fit_text(column: Column, raw: Raw) -> Fit[Value]:
    if isinstance(raw, Text):
        return _exactly(raw.value)
    raise _misfit(column, raw, "a string in single quotes")


def _fit_uuid(column: Column, raw: Raw) -> Fit[Value]:
    if isinstance(raw, Text) and re.fullmatch(r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", raw.value):
        return _exactly(str(uuid.UUID(raw.value)))
    raise _misfit(column, raw, "a UUID in single quotes")


def _fit_blob(column: Column, raw: Raw) -> Fit[Value]:
    if isinstance(raw, bytes):
        return _exactly(raw)
    raise _misfit(column, raw, r"a BLOB, such as '\xAA'::BLOB")


def _fit_date(column: Column, raw: Raw) -> Fit[Value]:
    if isinstance(raw, Text) and DATE.fullmatch(raw.value):
        return _exactly(parse_date(raw.value))
    if isinstance(raw, datetime) and raw.tzinfo is None:
        return Fit(raw.date(), is_exact=raw.time() == time(), any_value=date.min)
    if isinstance(raw, date) and not isinstance(raw, datetime):
        return _exactly(raw)
    raise _misfit(column, raw, "a date, such as DATE '2026-01-31'")


def _fit_timestamp(column: Column, raw: Raw) -> Fit[Value]:
    moment: Raw = raw
    if isinstance(raw, Text) and TIMESTAMP.fullmatch(raw.value):
        moment = parse_timestamp(raw.value)
    elif isinstance(raw, date) and not isinstance(raw, datetime):
        moment = datetime.combine(raw, time())
    wants_zone = column.type == "timestamptz"
    if not isinstance(moment, datetime) or (moment.tzinfo is not None) != wants_zone:
        # Comparing a TIMESTAMP with a TIMESTAMPTZ depends on the session's time zone.
        example = "TIMESTAMPTZ '2026-01-31 00:00:00+00'" if wants_zone else "TIMESTAMP '2026-01-31 00:00:00'"
        raise _misfit(column, raw, f"a time with{'' if wants_zone else 'out'} a time zone, such as {example}")
    too_fine = moment.microsecond % 10 ** max(6 - (TYPES[column.type].second_digits or 0), 0)
    if isinstance(raw, Text) and too_fine:
        raise _misfit(column, raw, "a time with the precision of the column")  # DuckDB would round it
    floor = moment - timedelta(microseconds=too_fine)
    if column.type == "timestamp_ns" and not _FIRST_NANOSECONDS <= floor <= _LAST_NANOSECONDS:
        raise _misfit(column, raw, "a time between the years 1678 and 2261")
    return Fit(floor, is_exact=not too_fine, any_value=floor)


def _misfit(column: Column, raw: Raw, expected: str) -> PredicateError:
    shown = repr(raw.value) if isinstance(raw, Text) else str(raw)
    return PredicateError(
        f"the column {column.name!r} of type {column.type} cannot be compared with {shown}", hint=f"write {expected}"
    )


_FITTERS: dict[str, Callable[[Column, Raw], Fit[Value]]] = {
    "float64": _fit_double,
    "float32": _fit_single,
    "boolean": _fit_boolean,
    "varchar": _fit_text,
    "uuid": _fit_uuid,
    "blob": _fit_blob,
    **dict.fromkeys(names_with(Fact.DATED), _fit_timestamp),
    "date": _fit_date,
}
