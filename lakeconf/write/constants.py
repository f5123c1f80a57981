"""Python values as SQL constants of the type of a column, which must hold them exactly."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from math import isinf
from numbers import Number
from pathlib import PurePath
from uuid import UUID

import duckdb
from duckdb.sqltypes import DuckDBPyType

from lakeconf.catalog.column_types import (
    NESTED,
    SECOND_DIGITS,
    Fact,
    digits_of,
    fields_of,
    ids_with,
    integers,
    parsed_type,
)
from lakeconf.connection.connection import closed_connection
from lakeconf.ducklake import check_placeholders
from lakeconf.engines.lossless import INEXACT_INTERVAL, STORED_AS_DOUBLE
from lakeconf.errors import SchemaError
from lakeconf.sql import folded, identifier, literal

_INTEGERS = integers()
# The text of other objects is no value: an expression of polars, a function. Scalars of numpy have a `dtype`.
_KINDS = (str, bytes, bytearray, Number, date, time, timedelta, UUID, PurePath, Mapping, list, tuple, set)
_KNOWN = "pass a constant of Python, such as a number, a string or a date, or an expression of narwhals"
_OFFSET = re.compile(r":\d\d(?:\.\d+)?\s*(?:[+-]\d|Z$)")
_FRACTION = re.compile(r":\d\d\.(\d+)")


def constant(value: object, type_name: str) -> str:
    """A Python value as a SQL expression with a DuckDB type."""
    check_placeholders(str(value), "the value")
    wanted = parsed_type(type_name)
    sql = _sql(value, wanted)
    return f"CAST({sql} AS {type_name})" if value is not None and wanted.id in NESTED else sql


def text_of(value: object, wanted: DuckDBPyType) -> str:
    """The text that DuckDB casts to a value of a type that is not nested."""
    if not isinstance(value, _KINDS) and not hasattr(value, "dtype"):
        raise SchemaError(f"{type(value).__name__} is not the type of a value", hint=_KNOWN)
    text = _text(value)
    if _is_of_another_kind(value, text, wanted.id) or _is_rounded(value, text, wanted):
        raise SchemaError(
            f"a column of the type {wanted} cannot hold {value!r} exactly",
            hint="pass a value that the type holds, or change the type of the column",
        )
    return text


def _sql(value: object, wanted: DuckDBPyType) -> str:
    if value is None:
        return "NULL"
    parts = fields_of(wanted)
    if isinstance(value, Mapping) and wanted.id == "struct":
        by_name = {folded(str(name)): inner for name, inner in value.items()}
        if len(by_name) == len(value) and by_name.keys() <= set(map(folded, parts)):
            fields = (f"{identifier(name)} := {_sql(by_name.get(folded(name)), part)}" for name, part in parts.items())
            return f"struct_pack({', '.join(fields)})"
    if isinstance(value, Mapping) and wanted.id == "map":
        keys, values = _listed(value, parts["key"]), _listed(value.values(), parts["value"])
        return f"MAP({keys}, {values})"
    if isinstance(value, (list, tuple)) and wanted.id == "list":
        return _listed(value, parts["element"])
    if isinstance(value, (bool, int, float)) and wanted.id == "variant":
        kind = "BOOLEAN" if isinstance(value, bool) else "BIGINT" if isinstance(value, int) else "DOUBLE"
        return f"CAST(CAST({literal(str(value))} AS {kind}) AS VARIANT)"
    return f"CAST({literal(text_of(value, wanted))} AS {wanted})"


def _listed(values: Iterable[object], wanted: DuckDBPyType) -> str:
    return f"[{', '.join(_sql(value, wanted) for value in values)}]"


def _text(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (bytes, bytearray)):
        return "".join(f"\\x{octet:02X}" for octet in value)
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)} microseconds"
    return str(value)


def _is_of_another_kind(value: object, text: str, kind: str) -> bool:
    """True if DuckDB would cast the text of a value to another one: it would ignore a part, or read Python's syntax."""
    if isinstance(value, (bytes, bytearray)):
        return kind != "blob"
    if isinstance(value, timedelta):
        return kind != "interval"
    if isinstance(value, datetime) and kind != "varchar":
        return kind not in (ids_with(Fact.NAIVE) if value.tzinfo is None else ("timestamp with time zone",))
    if isinstance(value, date):
        return kind in ("time", "time with time zone", "variant")
    if isinstance(value, (Mapping, list, tuple, set)) or getattr(value, "shape", None):
        return True
    if kind == "date":
        return ":" in text
    return kind in SECOND_DIGITS and "zone" not in kind and bool(_OFFSET.search(text))


def _is_rounded(value: object, text: str, wanted: DuckDBPyType) -> bool:
    kept = SECOND_DIGITS.get(wanted.id)
    if kept is not None:
        fraction = _FRACTION.search(text)
        return fraction is not None and len(fraction[1].rstrip("0")) > kept
    if wanted.id == "interval":
        return bool(re.search(INEXACT_INTERVAL, _interval(text)))
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False  # DuckDB refuses it, if the column is a number
    if not number.is_finite():
        return False
    if wanted.id in _INTEGERS:
        return _decimals(number) > 0 or (wanted.id in STORED_AS_DOUBLE and not _is_double(int(number)))
    if wanted.id == "decimal":
        return _decimals(number) > digits_of(wanted)[1]
    if wanted.id in ("double", "float"):
        return _overflows(float(text), wanted.id) or (isinstance(value, int) and not _is_double(value))
    return False


def _decimals(number: Decimal) -> int:
    _, digits, exponent = number.as_tuple()
    zeros = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return max(0, -int(exponent) - zeros) if any(digits) else 0


def _is_double(number: int) -> bool:
    try:
        return int(float(number)) == number
    except OverflowError:
        return False


def _overflows(number: float, kind: str) -> bool:
    try:
        struct.pack("<f" if kind == "float" else "<d", number)
    except OverflowError:
        return True
    return isinf(number)


def _interval(text: str) -> str:
    """An interval as DuckDB writes it."""
    with closed_connection() as connection:
        try:
            row = connection.execute(f"SELECT CAST(CAST({literal(text)} AS INTERVAL) AS VARCHAR)").fetchone()
        except duckdb.Error as error:
            raise SchemaError(f"{text!r} is not an interval", hint="write it like 2 days 03:00:00") from error
    return str(row[0]) if row else ""
