"""Functions of dates and timestamps."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import cast, refused
from lakeconf.engines.spark.sql.typed_tree import type_of
from lakeconf.engines.spark.sql.value_types import (
    BIGINT,
    DATE,
    TIMESTAMP,
    VARCHAR,
    ValueType,
    call,
    spark_cast,
    value_type,
)

_PARTS_OF_TIME: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
    exp.Second: "second",
    exp.Week: "weekofyear",
    exp.WeekOfYear: "weekofyear",
    exp.DayOfYear: "dayofyear",
}
_UNITS = {
    **{name: name for name in ("year", "quarter", "month", "day", "hour", "minute", "second")},
    "week": "weekofyear",
    "doy": "dayofyear",
    "dayofyear": "dayofyear",
}
_MONTHS = ("YEAR", "QUARTER", "MONTH")
# DuckDB's number of an infinite time, and what makes a time of it.
_INFINITE = {
    DATE: ("date_from_unix_date", "2147483647", value_type(DATE)),
    TIMESTAMP: ("timestamp_micros", "9223372036854775807L", value_type(TIMESTAMP)),
}
# What strftime and Java write in the same way, for years of four digits.
_FORMATS = {"%Y": "yyyy", "%m": "MM", "%d": "dd", "%H": "HH", "%M": "mm", "%S": "ss"}
_TRUNCATED = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")


def _time(node: exp.Expr) -> exp.Expr:
    if type_of(node).name not in (DATE, TIMESTAMP):
        raise refused(node, "it is not a DATE or a TIMESTAMP")
    return node.copy()


def if_finite(time: exp.Expr, made: exp.Expr, otherwise: exp.Expr | None = None) -> exp.Expr:
    """A value that is made of a time; for an infinite time, which Spark does not know, another value or NULL."""
    of_number, largest, wanted = _INFINITE[type_of(time).name]
    limits = [spark_cast(call(of_number, exp.Literal.number(f"{sign}{largest}")), wanted) for sign in ("", "-")]
    is_finite = exp.Not(this=exp.paren(exp.In(this=time.copy(), expressions=limits)))
    return exp.Case(ifs=[exp.If(this=is_finite, true=made)], default=otherwise)


def day_of(time: exp.Expr) -> exp.Expr:
    """The DATE of a TIMESTAMP, which is infinite if the TIMESTAMP is."""
    of_number, largest, wanted = _INFINITE[DATE]
    zero, year = exp.Literal.number(0), call("year", time.copy())
    infinite = [
        exp.If(this=kind(this=year.copy(), expression=zero.copy()), true=call(of_number, exp.Literal.number(number)))
        for kind, number in ((exp.GT, largest), (exp.LT, f"-{largest}"))
    ]
    return if_finite(time, cast(time.copy(), wanted), exp.Case(ifs=infinite))


def _part_of_time(node: exp.Expr) -> exp.Expr:
    return if_finite(node.this, cast(call(_PARTS_OF_TIME[type(node)], _time(node.this)), type_of(node)))


def _extracted(node: exp.Expr) -> exp.Expr:
    unit = node.this.name.lower()
    if unit in ("dow", "dayofweek", "isodow", "dayofweek_iso"):
        return _day_of_week(_time(node.expression), type_of(node), iso=unit in ("isodow", "dayofweek_iso"))
    if unit not in _UNITS:
        raise refused(node, f"the unit {unit}")
    return if_finite(node.expression, cast(call(_UNITS[unit], _time(node.expression)), type_of(node)))


def _named_day(node: exp.Expr) -> exp.Expr:
    return _day_of_week(_time(node.this), type_of(node), iso=isinstance(node, exp.DayOfWeekIso))


def _day_of_week(time: exp.Expr, wanted: ValueType, *, iso: bool) -> exp.Expr:
    """Sunday is 0, or the ISO week's 7; Spark's `weekday` of Monday is 0, and its `dayofweek` of Sunday 1."""
    one = exp.Literal.number(1)
    day = (
        exp.Add(this=call("weekday", time), expression=one)
        if iso
        else exp.Sub(this=call("dayofweek", time), expression=one)
    )
    return if_finite(time, cast(exp.paren(day), wanted))


def _last_day(node: exp.Expr) -> exp.Expr:
    return if_finite(node.this, call("last_day", cast(_time(node.this), value_type(DATE))))


def _difference(node: exp.Expr) -> exp.Expr:
    """The number of limits of a unit between two times."""
    unit, wanted = node.args["unit"].name.upper(), type_of(node)
    start, end = (_time(side) for side in (node.expression, node.this))
    if unit in _MONTHS:
        made = cast(exp.paren(exp.Sub(this=_months(end, unit), expression=_months(start, unit))), wanted)
    elif unit == "DAY":
        made = days_between(start, end)
    else:
        raise refused(node, f"the unit {unit}")
    return if_finite(start, if_finite(end, made))


def days_between(start: exp.Expr, end: exp.Expr) -> exp.Expr:
    """A BIGINT: Spark's `datediff` has no room for all differences."""
    first, last = (day_number(cast(side.copy(), value_type(DATE))) for side in (start, end))
    return cast(exp.paren(exp.Sub(this=last, expression=first)), value_type(BIGINT))


def day_number(day: exp.Expr) -> exp.Expr:
    """The number of days since 1970, as a BIGINT."""
    return cast(call("unix_date", day), value_type(BIGINT))


def _months(time: exp.Expr, unit: str) -> exp.Expr:
    """The number of units since the year 0; DuckDB rounds quarters before it towards zero."""
    if unit == "YEAR":
        return call("year", time)
    years = exp.Mul(this=call("year", time.copy()), expression=exp.Literal.number(12))
    months = exp.paren(exp.Add(this=years, expression=call("month", time)))
    if unit == "MONTH":
        return months
    since = exp.paren(exp.Sub(this=months, expression=exp.Literal.number(1)))
    return exp.paren(exp.IntDiv(this=since, expression=exp.Literal.number(3)))


def _formatted(node: exp.Expr) -> exp.Expr:
    form = node.args["format"]
    parts = re.findall(r"%.?|[^%]", form.name if isinstance(form, exp.Literal) else "%")
    if not all(part in _FORMATS or part in "-/:. _" for part in parts):
        raise refused(node, "its format is not a constant of %Y, %m, %d, %H, %M, %S and - / : . _")
    written = "".join(_FORMATS.get(part, part) for part in parts)
    time = cast(_time(node.this), value_type(TIMESTAMP))
    return with_four_digits(node.this, call("date_format", time, exp.Literal.string(written)))


def with_four_digits(time: exp.Expr, written: exp.Expr) -> exp.Expr:
    """The text of a time; an error for years that the two engines write in different ways."""
    message = "the year is not between 1 and 9999, and Spark writes it in another way: run the query on DuckDB"
    error = spark_cast(call("raise_error", exp.Literal.string(message)), value_type(VARCHAR))
    year = exp.Between(this=call("year", time.copy()), low=exp.Literal.number(1), high=exp.Literal.number(9999))
    is_plain = exp.Or(this=exp.Is(this=time.copy(), expression=exp.Null()), expression=year)
    return exp.Case(ifs=[exp.If(this=is_plain, true=written)], default=error)


def _truncated(node: exp.Expr) -> exp.Expr:
    unit, wanted = node.args["unit"].name.upper(), type_of(node)
    if unit not in _TRUNCATED or wanted.name != TIMESTAMP:
        raise refused(node)
    value = cast(_time(node.this), wanted)
    return if_finite(value, cast(call("date_trunc", exp.Literal.string(unit), value), wanted), value.copy())


TIME_FUNCTIONS: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Extract: _extracted,
    **dict.fromkeys(_PARTS_OF_TIME, _part_of_time),
    exp.DateTrunc: _truncated,
    exp.TimestampTrunc: _truncated,
    **dict.fromkeys((exp.DayOfWeek, exp.DayOfWeekIso), _named_day),
    exp.LastDay: _last_day,
    exp.DateDiff: _difference,
    exp.TimeToStr: _formatted,
}
