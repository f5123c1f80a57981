"""Arithmetic: DuckDB's types of results, division, and modulo."""

from __future__ import annotations

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import cast, coerced, refused
from lakeconf.engines.spark.sql.intervals import time_difference, with_interval
from lakeconf.engines.spark.sql.time_functions import day_number, days_between, if_finite
from lakeconf.engines.spark.sql.typed_tree import type_of
from lakeconf.engines.spark.sql.value_types import (
    BIGINT,
    DATE,
    DOUBLE,
    FLOATS,
    INTERVAL,
    MOST_DIGITS,
    TIMESTAMP,
    ValueType,
    call,
    value_type,
)

_ZERO = exp.Literal.number(0)


def translated_arithmetic(node: exp.Expr) -> exp.Expr:
    """Translates `+`, `-` and `*`.

    Raises:
        UnsupportedError: The result may differ.
    """
    left, right, wanted = type_of(node.this), type_of(node.expression), type_of(node)
    kind, one, other = type(node), node.this.copy(), node.expression.copy()
    if INTERVAL in (left.name, right.name):
        return with_interval(node)
    if left.name == right.name == TIMESTAMP and isinstance(node, exp.Sub):
        return time_difference(node)
    if DATE in (left.name, right.name):
        return _with_date(node, left, right)
    if wanted.is_integer or wanted.name in FLOATS:
        return cast(exp.paren(kind(this=coerced(one, wanted), expression=coerced(other, wanted))), wanted)
    if wanted.is_decimal and left.is_exact and right.is_exact and _scale(node, left, right) <= wanted.scale:
        if max(_digits(left), _digits(right)) > MOST_DIGITS:
            raise refused(node)
        # Spark computes with all digits of the result, and fails if they do not fit.
        return cast(exp.paren(kind(this=_decimal(one), expression=_decimal(other))), wanted)
    raise refused(node)


def _scale(node: exp.Expr, left: ValueType, right: ValueType) -> int:
    return left.scale + right.scale if isinstance(node, exp.Mul) else max(left.scale, right.scale)


def _digits(one: ValueType) -> int:
    return one.digits + one.is_integer


def _decimal(value: exp.Expr) -> exp.Expr:
    found = type_of(value)
    return cast(value, value_type(f"DECIMAL({_digits(found)},0)")) if found.is_integer else value


def _with_date(node: exp.Expr, left: ValueType, right: ValueType) -> exp.Expr:
    one, other = node.this.copy(), node.expression.copy()
    if left.name == right.name == DATE and isinstance(node, exp.Sub):
        return days_between(other, one)
    if right.name == DATE and left.is_integer and isinstance(node, exp.Add):
        one, other, right = other, one, left
    elif left.name != DATE or not right.is_integer:
        raise refused(node)
    # Spark's `date_add` ignores an overflow.
    number = type(node)(
        this=day_number(one), expression=cast(coerced(other, value_type("INTEGER")), value_type(BIGINT))
    )
    moved = call("date_from_unix_date", cast(exp.paren(number), value_type("INTEGER")))
    return if_finite(one, moved, one.copy())


def translated_division(node: exp.Expr) -> exp.Expr:
    """Translates `/`, whose result is a DOUBLE, also infinite, where Spark fails."""
    if type_of(node).name != DOUBLE:
        raise refused(node)
    wanted = value_type(DOUBLE)
    one, other = (coerced(side.copy(), wanted) for side in (node.this, node.expression))
    if _is_constant(node.expression):
        return exp.paren(exp.Div(this=one, expression=other))
    # Only a DOUBLE can be -0.0. Java's power of it is -Infinity, as in DuckDB.
    infinite = exp.Mul(this=one.copy(), expression=call("pow", other.copy(), exp.Literal.number("-1.0")))
    divided = exp.Div(this=one, expression=call("nullif", other.copy(), _ZERO.copy()))
    return exp.Case(
        ifs=[exp.If(this=exp.EQ(this=other.copy(), expression=_ZERO.copy()), true=infinite)], default=divided
    )


def _is_constant(value: exp.Expr) -> bool:
    """True for a number other than 0."""
    while isinstance(value, exp.Cast | exp.Paren):
        value = value.this
    return isinstance(value, exp.Literal) and not value.is_string and float(value.name.rstrip("BD")) != 0


def translated_modulo(node: exp.Expr) -> exp.Expr:
    """Translates `%`: the remainder of a division by zero is NULL, or NaN for a DOUBLE, where Spark fails."""
    wanted, left, right = type_of(node), type_of(node.this), type_of(node.expression)
    if left.is_exact and right.is_exact and (wanted.is_integer or wanted.is_decimal):
        one, other = ((_decimal(side) if wanted.is_decimal else side).copy() for side in (node.this, node.expression))
        return cast(exp.paren(exp.Mod(this=one, expression=call("nullif", other, _ZERO.copy()))), wanted)
    if wanted.name != DOUBLE:
        raise refused(node)
    one, other = (coerced(side.copy(), wanted) for side in (node.this, node.expression))
    undefined = exp.Mul(this=one.copy(), expression=call("double", exp.Literal.string("NaN")))
    remainder = exp.paren(exp.Mod(this=one, expression=call("nullif", other, _ZERO.copy())))
    is_zero = exp.EQ(this=other.copy(), expression=_ZERO.copy())
    return exp.Case(ifs=[exp.If(this=is_zero, true=undefined)], default=remainder)


def translated_integer_division(node: exp.Expr) -> exp.Expr:
    """Translates `//` of integers: NULL for a division by zero, where Spark fails."""
    wanted = type_of(node)
    if not (wanted.is_integer and type_of(node.this).is_integer and type_of(node.expression).is_integer):
        raise refused(node)
    one, other = (coerced(side.copy(), wanted) for side in (node.this, node.expression))
    return cast(exp.paren(exp.IntDiv(this=one, expression=call("nullif", other, _ZERO.copy()))), wanted)


def translated_negation(node: exp.Expr) -> exp.Expr:
    """Translates `-value`."""
    wanted = type_of(node)
    if not wanted.is_number:
        raise refused(node)
    return cast(exp.Neg(this=exp.paren(coerced(node.this.copy(), wanted))), wanted)


def translated_round(node: exp.Expr) -> exp.Expr:
    """Translates `round(value, places)`; Spark rounds the decimal text of a DOUBLE, DuckDB its product."""
    found, wanted = type_of(node.this), type_of(node)
    places = node.args.get("decimals") or exp.Literal.number(0)
    if not (isinstance(places, exp.Literal) and places.name.isdigit()):
        raise refused(node)
    value, number = node.this.copy(), int(places.name)
    if found.is_exact:
        return cast(call("round", value, places.copy()), wanted)
    if found.name != DOUBLE or number > MOST_DIGITS // 2:
        raise refused(node)
    if number == 0:
        return call("round", value, _ZERO.copy())
    factor = exp.Literal.number(f"{float(10**number)!r}D")
    rounded = call("round", exp.Mul(this=exp.paren(value.copy()), expression=factor), _ZERO.copy())
    scaled = exp.Div(this=rounded, expression=factor.copy())
    infinite = exp.EQ(
        this=call("abs", exp.Mul(this=exp.paren(value.copy()), expression=factor.copy())), expression=_infinity()
    )
    return exp.Case(ifs=[exp.If(this=infinite, true=value)], default=scaled)


def _infinity() -> exp.Expr:
    return call("double", exp.Literal.string("Infinity"))
