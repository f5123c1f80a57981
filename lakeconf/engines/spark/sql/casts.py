"""Casts: Spark truncates where DuckDB rounds, and reads and writes text in another way."""

from __future__ import annotations

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import cast, is_iso, refused
from lakeconf.engines.spark.sql.text_casts import text_cast
from lakeconf.engines.spark.sql.time_functions import day_of, with_four_digits
from lakeconf.engines.spark.sql.typed_tree import type_of
from lakeconf.engines.spark.sql.value_types import BOOLEAN, DATE, DOUBLE, FLOATS, NULL, TIMESTAMP, VARCHAR, ValueType

# Java writes smaller decimals with an exponent.
_MOST_WRITTEN_SCALE = 6


def translated_cast(node: exp.Expr) -> exp.Expr:
    """Translates `CAST(value AS type)` and `TRY_CAST(text AS type)`.

    Raises:
        UnsupportedError: The result may differ.
    """
    found, wanted, value = type_of(node.this), type_of(node), node.this.copy()
    if not wanted.is_known or (wanted.is_unsigned and found != wanted):
        raise refused(node, f"Spark has no type {wanted.name}")
    if found.name == NULL or found == wanted or is_iso(value, wanted):
        return cast(value, wanted)
    if found.name == VARCHAR:
        return text_cast(node, value, wanted)
    if isinstance(node, exp.TryCast):
        raise refused(node, f"it reads a {found.name}, and not text")
    if not found.is_known:
        raise refused(node, f"Spark has no type {found.name}")
    for made in (_to_number(value, found, wanted), _to_other(value, found, wanted)):
        if made is not None:
            return made
    raise refused(node)


def _to_number(value: exp.Expr, found: ValueType, wanted: ValueType) -> exp.Expr | None:
    if found.is_exact and wanted.is_exact:
        if found.is_decimal and wanted.is_integer:
            value = exp.Anonymous(this="round", expressions=[value, exp.Literal.number(0)])
        return cast(value, wanted)
    if found.is_exact and wanted.name in FLOATS:
        return cast(value, wanted) if wanted.name == DOUBLE else None
    if found.name in FLOATS and wanted.is_integer:
        # DuckDB rounds halves to the even number.
        return cast(exp.Anonymous(this="rint", expressions=[value]), wanted)
    if found.name in FLOATS and wanted.name == DOUBLE:
        return cast(value, wanted)
    return cast(value, wanted) if found.name == BOOLEAN and wanted.is_integer else None


def _to_other(value: exp.Expr, found: ValueType, wanted: ValueType) -> exp.Expr | None:
    if wanted.name == VARCHAR:
        written = found.is_exact and found.scale <= _MOST_WRITTEN_SCALE
        if found.name in (DATE, TIMESTAMP):
            return with_four_digits(value, cast(value.copy(), wanted))
        return cast(value, wanted) if written or found.name == BOOLEAN else None
    if (found.name, wanted.name) == (TIMESTAMP, DATE):
        return day_of(value)
    if (found.name, wanted.name) == (DATE, TIMESTAMP) or (found.is_integer and wanted.name == BOOLEAN):
        return cast(value, wanted)
    return None
