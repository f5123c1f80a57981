"""Converts the operands of an expression as DuckDB does; refuses what Spark may convert in another way."""

from __future__ import annotations

import re
from datetime import date, datetime

from sqlglot import exp

from lakeconf.engines.spark.sql.typed_tree import HINT, INTERVAL_LENGTH, set_type, type_of
from lakeconf.engines.spark.sql.value_types import (
    DATE,
    DOUBLE,
    FLOATS,
    MOST_DIGITS,
    NULL,
    TIMESTAMP,
    TIMESTAMPTZ,
    VARCHAR,
    ValueType,
    spark_cast,
    value_type,
)
from lakeconf.engines.untranslated import UntranslatedError

_WITH_ZONE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[+-]\d\d(:\d\d)?")


def refused(node: exp.Expr, reason: str = "") -> UntranslatedError:
    """The error for a part of a query that Spark may compute in another way."""
    text = node.sql(dialect="duckdb")
    text = text if len(text) <= 80 else f"{text[:77]}…"
    why = f": {reason}" if reason else ""
    # Only names, constants and functions know where they are. The names of tables can come from FROM.
    parts = [node] if "start" in node.meta else [part for part in node.walk() if part.arg_key != "table"]
    offset = min((int(part.meta["start"]) for part in parts if "start" in part.meta), default=None)
    return UntranslatedError(f"Spark may not compute {text} as DuckDB does{why}", hint=HINT, offset=offset)


def cast(value: exp.Expr, wanted: ValueType) -> exp.Expr:
    """Casts a value in Spark, without a check."""
    return set_type(spark_cast(value, wanted), wanted.name)


def coerced(value: exp.Expr, wanted: ValueType) -> exp.Expr:
    """Converts an operand to the type to which DuckDB converts it.

    Raises:
        UnsupportedError: The conversion may have another result in Spark.
    """
    found = type_of(value)
    if found == wanted and found.is_known:
        return value
    text = _literal_text(value)
    if found.name == VARCHAR and text is not None and _is_iso(text, wanted.name):
        return cast(value, wanted)
    if wanted.is_known and _is_lossless(found, wanted, is_literal=_is_number(value)):
        return cast(value, wanted)
    raise refused(value, f"a {found.name} where a {wanted.name} is expected")


def _is_lossless(found: ValueType, wanted: ValueType, *, is_literal: bool) -> bool:
    if found.name == NULL:
        return True
    if found.is_exact and wanted.is_exact:
        # DuckDB itself chooses the narrow type of a literal only if the value fits.
        fits = found.digits - found.scale <= wanted.digits - wanted.scale and found.scale <= wanted.scale
        return fits or (is_literal and found.is_integer)
    if found.is_exact and wanted.name in FLOATS:
        return wanted.name == DOUBLE or found.is_integer or is_literal
    return (found.name, wanted.name) in (("FLOAT", DOUBLE), (DATE, TIMESTAMP))


def comparable(one: exp.Expr, other: exp.Expr, *, for_equality: bool = False) -> tuple[exp.Expr, exp.Expr]:
    """Returns two operands of a comparison, converted so that Spark compares them as DuckDB does.

    Args:
        one: The left operand.
        other: The right operand.
        for_equality: True if only equality matters, and no order.

    Raises:
        UnsupportedError: Spark may compare them in another way.
    """
    left, right = type_of(one), type_of(other)
    if left == right and (left.is_known or (for_equality and left.is_equatable)):
        return one, other
    if _is_length(one) and _is_length(other):
        return one, other
    if left.is_exact and right.is_exact:
        if _common_digits(left, right) <= MOST_DIGITS:
            return one, other
        common = value_type(f"DECIMAL({MOST_DIGITS},{max(left.scale, right.scale)})")
        return cast(one, common), cast(other, common)
    for common in _common_types(left, right):
        return coerced(one, common), coerced(other, common)
    raise refused(one, f"it is compared as {left.name} with {right.name}")


def _is_length(value: exp.Expr) -> bool:
    return bool(value.meta.get(INTERVAL_LENGTH)) or (isinstance(value, exp.Paren) and _is_length(value.this))


def _common_digits(left: ValueType, right: ValueType) -> int:
    # Spark compares a BIGINT with a decimal as DECIMAL(20, 0).
    digits = max(max(one.digits + one.is_integer - one.scale, 0) for one in (left, right))
    return digits + max(left.scale, right.scale)


def _common_types(left: ValueType, right: ValueType) -> list[ValueType]:
    names = {left.name, right.name}
    if NULL in names:
        return [right if left.name == NULL else left]
    if left.is_number and right.is_number and names & set(FLOATS):
        return [value_type(DOUBLE if DOUBLE in names else "FLOAT")]
    if names == {DATE, TIMESTAMP} or names == {VARCHAR, TIMESTAMP}:
        return [value_type(TIMESTAMP)]
    return [value_type(DATE)] if names == {VARCHAR, DATE} else []


def _literal_text(value: exp.Expr) -> str | None:
    return value.name if isinstance(value, exp.Literal) and value.is_string else None


def _is_number(value: exp.Expr) -> bool:
    while isinstance(value, exp.Neg | exp.Paren | exp.Cast):
        value = value.this
    return isinstance(value, exp.Literal) and not value.is_string


def _is_iso(text: str, wanted: str) -> bool:
    """True for a text that both engines read as the same date or timestamp."""
    try:
        if wanted == DATE:
            return date.fromisoformat(text).isoformat() == text
        if wanted == TIMESTAMPTZ:
            return _WITH_ZONE.fullmatch(text) is not None and datetime.fromisoformat(text).tzinfo is not None
        # Without a time zone, and in the form that both write.
        time = datetime.fromisoformat(text)
        return wanted == TIMESTAMP and text in (str(time), time.date().isoformat()) and "+" not in text
    except ValueError:
        return False


def is_iso(value: exp.Expr, wanted: ValueType) -> bool:
    """True for a literal that both engines read as the same date or timestamp."""
    text = _literal_text(value)
    return text is not None and _is_iso(text, wanted.name)
