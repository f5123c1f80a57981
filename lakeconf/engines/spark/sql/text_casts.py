"""Casts of text: Spark reads the forms that both engines read in the same way, and raises an error for others."""

from __future__ import annotations

import re

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import refused
from lakeconf.engines.spark.sql.value_types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    TIMESTAMP,
    VARCHAR,
    ValueType,
    call,
    spark_cast,
    spark_name,
    value_type,
)

_DAY = r"(?!0000)[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"( ([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?)?"
# Java's and Python's regular expressions mean the same here.
_INTEGER = r"-?[0-9]{1,18}"
_FORMS = {
    BOOLEAN: "true|false",
    DATE: _DAY,
    TIMESTAMP: _DAY + _TIME,
    DOUBLE: r"-?[0-9]{1,15}(\.[0-9]{1,15})?",
}
_DECIMAL = r"-?[0-9]{1,18}(\.[0-9]{1,18})?"
# The first characters, after blanks, of text that DuckDB may read in another form: TRY_CAST is NULL for others.
_STARTS = {BOOLEAN: "0-9FfNnOoTtYy", DATE: "0-9EeIi+-", TIMESTAMP: "0-9EeIi+-", DOUBLE: "0-9IiNn.+-"}
_NUMBER_STARTS = "0-9.+-"
_BLANKS = r"[ \t\n\x0b\f\r]*"


def text_cast(node: exp.Expr, value: exp.Expr, wanted: ValueType) -> exp.Expr:
    """Translates `CAST(text AS type)` and `TRY_CAST(text AS type)`.

    Raises:
        UnsupportedError: The type, or the text of a constant, is read in another way by Spark.
    """
    found = text_forms(wanted)
    if found is None:
        raise refused(node)
    form, other = found
    is_try = isinstance(node, exp.TryCast)
    made = _cast(value, wanted, is_try=is_try)
    if isinstance(value, exp.Literal):
        if re.fullmatch(form, value.name) is None:
            raise refused(node, "Spark may read this text in another way")
        return made
    has_form = call("regexp_like", value.copy(), exp.Literal.string(rf"\A({form})\z"))
    is_plain = exp.Or(this=exp.Is(this=value.copy(), expression=exp.Null()), expression=has_form)
    ifs = [exp.If(this=is_plain, true=made)]
    if is_try:
        no_value = call("regexp_like", value.copy(), exp.Literal.string(rf"\A({other})"))
        ifs.append(exp.If(this=no_value, true=spark_cast(exp.Null(), wanted)))
    message = f"text that DuckDB and Spark may read differently as {wanted.name}: run the query on DuckDB"
    error = spark_cast(call("raise_error", exp.Literal.string(message)), value_type(VARCHAR))
    return exp.Case(ifs=ifs, default=spark_cast(error, wanted))


def text_forms(wanted: ValueType) -> tuple[str, str] | None:
    """Regular expressions of text for a type: both engines read the first, and TRY_CAST of the second is NULL.

    Returns:
        The whole first form, and the start of the second; None if text is not read as the type.
    """
    form = _FORMS.get(wanted.name) or (_INTEGER if wanted.is_integer else _DECIMAL if wanted.is_decimal else None)
    starts = _STARTS.get(wanted.name, _NUMBER_STARTS)
    return None if form is None else (form, rf"{_BLANKS}([^ \t\n\x0b\f\r{starts}]|\z)")


def _cast(value: exp.Expr, wanted: ValueType, *, is_try: bool) -> exp.Expr:
    to = exp.DataType.build(spark_name(wanted), dialect="spark")
    return exp.TryCast(this=value, to=to, safe=True) if is_try else exp.Cast(this=value, to=to)
