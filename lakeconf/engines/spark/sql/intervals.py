"""Intervals: constants that are added to times, and differences of times that are compared.

DuckDB compares the length of intervals, with 24 hours in a day. So without months, an interval is a number of
microseconds.
"""

from __future__ import annotations

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import cast, refused
from lakeconf.engines.spark.sql.time_functions import if_finite
from lakeconf.engines.spark.sql.typed_tree import INTERVAL_LENGTH, outermost, set_type, type_of
from lakeconf.engines.spark.sql.value_types import DATE, TIMESTAMP, TIMESTAMPTZ, call, value_type

_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_SECOND = 1_000_000
_MICROSECONDS = {"SECOND": _SECOND, "MINUTE": 60 * _SECOND, "HOUR": 3600 * _SECOND, "DAY": 86_400 * _SECOND}
_MONTHS = ("MONTH", "YEAR")
_MOST = 100_000


def translated_interval(node: exp.Expr) -> exp.Expr:
    """Translates `INTERVAL 30 MINUTE`, if it is compared; `with_interval` translates a sum."""
    if isinstance(outermost(node, exp.Paren).parent, exp.Add | exp.Sub):
        return node
    count, unit = _constant(node)
    if unit not in _MICROSECONDS:
        raise refused(node)
    return _length(node, exp.Literal.number(f"{count * _MICROSECONDS[unit]}L"))


def time_difference(node: exp.Expr) -> exp.Expr:
    """Translates the difference of two timestamps, if it is compared."""
    sides = [call("unix_micros", cast(side.copy(), value_type(TIMESTAMPTZ))) for side in (node.this, node.expression)]
    return _length(node, exp.paren(exp.Sub(this=sides[0], expression=sides[1])))


def with_interval(node: exp.Expr) -> exp.Expr:
    """Translates `time + INTERVAL 1 DAY`, whose result is a TIMESTAMP, also for a DATE."""
    value, interval = node.this, node.expression
    if isinstance(value.unnest(), exp.Interval) and isinstance(node, exp.Add):
        value, interval = interval, value
    if not isinstance(interval.unnest(), exp.Interval) or type_of(value).name not in (DATE, TIMESTAMP):
        raise refused(node)
    count, unit = _constant(interval.unnest())
    constant = exp.Interval(this=exp.Literal.string(str(count)), unit=exp.var(unit))
    wanted = value_type(TIMESTAMP)
    time = cast(value.copy(), wanted)
    return if_finite(time, cast(exp.paren(type(node)(this=time.copy(), expression=constant)), wanted), time)


def _constant(node: exp.Expr) -> tuple[int, str]:
    """The number and the unit of an interval."""
    number, unit = node.this, node.args.get("unit")
    name = "" if unit is None else unit.name.upper().removesuffix("S")
    digits = number.name if isinstance(number, exp.Literal) else ""
    if not digits.isdigit() or not digits.isascii() or int(digits) > _MOST:
        raise refused(node)
    if name == "WEEK":
        return 7 * int(digits), "DAY"
    if name not in (*_MICROSECONDS, *_MONTHS):
        raise refused(node)
    return int(digits), name


def _length(node: exp.Expr, microseconds: exp.Expr) -> exp.Expr:
    if not isinstance(outermost(node, exp.Paren).parent, _COMPARISONS):
        raise refused(node, "Spark has no such interval")
    microseconds.meta[INTERVAL_LENGTH] = True
    return set_type(microseconds, type_of(node).name)
