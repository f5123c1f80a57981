"""DuckDB's types of values in a query, and their Spark types."""

from __future__ import annotations

import re
from typing import NamedTuple

from duckdb.sqltypes import DuckDBPyType
from sqlglot import exp

from lakeconf.catalog.types import parsed_type

_DECIMAL = re.compile(r"DECIMAL\((\d+),\s*(\d+)\)")
# The digits that each type of integers needs, in the order of their width.
INTEGERS = {"TINYINT": 3, "SMALLINT": 5, "INTEGER": 10, "BIGINT": 19, "HUGEINT": 19}
# Spark has no unsigned integers, and uses wider types: they can be compared, but not computed.
UNSIGNED = {"UTINYINT": 3, "USMALLINT": 5, "UINTEGER": 10, "UBIGINT": 20}
FLOATS = ("FLOAT", "DOUBLE")
NULL = '"NULL"'
BOOLEAN, VARCHAR, DATE, TIMESTAMP, BIGINT, DOUBLE = "BOOLEAN", "VARCHAR", "DATE", "TIMESTAMP", "BIGINT", "DOUBLE"
TIMESTAMPTZ, INTERVAL = "TIMESTAMP WITH TIME ZONE", "INTERVAL"
MOST_DIGITS = 38
# Sums of integers are HUGEINT in DuckDB. Spark computes them as BIGINT, and fails if one does not fit.
_SPARK = {
    "INTEGER": "INT",
    "HUGEINT": "BIGINT",
    "VARCHAR": "STRING",
    "BLOB": "BINARY",
    "TIMESTAMP": "TIMESTAMP_NTZ",
    TIMESTAMPTZ: "TIMESTAMP_LTZ",
    NULL: "VOID",
    "UTINYINT": "SMALLINT",
    "USMALLINT": "INT",
    "UINTEGER": "BIGINT",
    "UBIGINT": "DECIMAL(20,0)",
}
_SAME = ("TINYINT", "SMALLINT", "BIGINT", "FLOAT", "DOUBLE", "BOOLEAN", "DATE")


class ValueType(NamedTuple):
    """DuckDB's type of a value.

    Attributes:
        name: Its name in DuckDB, such as `DECIMAL(15,2)`.
        digits: The largest number of digits of an integer or a decimal; 0 for other types.
        scale: The number of them after the point.
    """

    name: str
    digits: int = 0
    scale: int = 0

    @property
    def is_integer(self) -> bool:
        return self.name in INTEGERS

    @property
    def is_unsigned(self) -> bool:
        return self.name in UNSIGNED

    @property
    def is_decimal(self) -> bool:
        return self.name.startswith("DECIMAL")

    @property
    def is_exact(self) -> bool:
        """True for integers, also unsigned ones, and decimals."""
        return self.digits > 0

    @property
    def is_number(self) -> bool:
        return self.is_exact or self.name in FLOATS

    @property
    def is_known(self) -> bool:
        """True if Spark has the type; values of other types can only be passed on."""
        return self.is_decimal or self.name in _SPARK or self.name in _SAME

    @property
    def is_equatable(self) -> bool:
        """True if both engines agree which values are equal. They order structs and lists in different ways."""
        return self.is_known or (self.name.endswith(("]", ")")) and _has_known_leaves(parsed_type(self.name)))


def _has_known_leaves(found: DuckDBPyType) -> bool:
    if found.id not in ("struct", "list"):
        return value_type(str(found)).is_known
    return all(isinstance(inner, DuckDBPyType) and _has_known_leaves(inner) for _, inner in found.children)


def value_type(name: str) -> ValueType:
    """The type with this name in DuckDB."""
    found = _DECIMAL.fullmatch(name)
    if found:
        digits, scale = map(int, found.groups())
        return ValueType(f"DECIMAL({digits},{scale})", digits, scale)
    return ValueType(name, INTEGERS.get(name) or UNSIGNED.get(name, 0))


def spark_name(found: ValueType) -> str:
    """The name of a known type in Spark."""
    return _SPARK.get(found.name, found.name)


def spark_cast(value: exp.Expr, wanted: ValueType) -> exp.Expr:
    """Casts a value in Spark."""
    return exp.Cast(this=value, to=exp.DataType.build(spark_name(wanted), dialect="spark"))


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """Calls a function of Spark by name; sqlglot does not change it."""
    return exp.Anonymous(this=name, expressions=list(arguments))
