"""What a `where` says, as plain data: planning, Spark's filter and DuckDB's SQL are all made from it.

The meaning is DuckDB's: NULL is three-valued, NaN equals itself and is greater than all other numbers, strings are
compared by their bytes. Every value is one that the column's type can hold exactly (`literals` sees to
that), so that no engine has to cast.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Literal, TypeAlias

from lakeconf.catalog.table import Column
from lakeconf.sql import identifier, literal

# bool and datetime stand before the types that they are subclasses of.
Value: TypeAlias = bool | int | Decimal | float | str | datetime | date | bytes
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a value.

    Attributes:
        column: The column.
        operator: `=`, `!=`, `<`, `<=`, `>` or `>=`.
        value: Of the column's type: int for integers, Decimal for decimals, float for floats (for `float32` one that
            it can hold), str for varchar and uuid (lower case), bool, date, bytes, datetime: naive for a
            timestamp, in UTC for a `timestamptz`.
    """

    column: Column
    operator: Operator
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """A column is one of some values, of which there is at least one."""

    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is NULL; of a nested column: as a whole."""

    column: Column


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A varchar column starts with a prefix."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class Not:
    """The negation, which leaves NULL as it is."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them."""

    operands: tuple[Predicate, ...]


Predicate: TypeAlias = Comparison | In | IsNull | StartsWith | Not | And | Or

_DUCKDB_TYPES = {
    "boolean": "BOOLEAN",
    "int8": "TINYINT",
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "int128": "HUGEINT",
    "uint8": "UTINYINT",
    "uint16": "USMALLINT",
    "uint32": "UINTEGER",
    "uint64": "UBIGINT",
    "uint128": "UHUGEINT",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "date": "DATE",
    "time": "TIME",
    "timetz": "TIMETZ",
    "timestamp": "TIMESTAMP",
    "timestamp_s": "TIMESTAMP_S",
    "timestamp_ms": "TIMESTAMP_MS",
    "timestamp_ns": "TIMESTAMP_NS",
    "timestamptz": "TIMESTAMPTZ",
    "interval": "INTERVAL",
    "varchar": "VARCHAR",
    "json": "JSON",
    "blob": "BLOB",
    "uuid": "UUID",
}


def duckdb_type(ducklake_type: str) -> str | None:
    """DuckDB's name of a type of DuckLake; None for a nested one and for what is not known."""
    if ducklake_type.startswith("decimal("):
        return ducklake_type.upper()
    return _DUCKDB_TYPES.get(ducklake_type)


def columns_of(predicate: Predicate) -> tuple[Column, ...]:
    """The columns that a predicate looks at, each once, in their order."""
    if isinstance(predicate, And | Or):
        below = [column for operand in predicate.operands for column in columns_of(operand)]
        return tuple({column.field_id: column for column in below}.values())
    return columns_of(predicate.operand) if isinstance(predicate, Not) else (predicate.column,)


def to_duckdb_sql(predicate: Predicate) -> str:
    """The predicate in DuckDB's SQL, for a table that has the columns by their names.

    Every value is written with its type, so that DuckDB compares without a cast. A column whose files may hold another
    type is wrapped: DuckDB would push the comparison into them and cast the value to theirs, so that a promoted FLOAT
    column is equal to 0.1, and a promoted DATE to noon; and it would believe statistics that are of those types, too.
    """
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(map(to_duckdb_sql, predicate.operands)) + ")"
    if isinstance(predicate, Not):
        return f"(NOT {to_duckdb_sql(predicate.operand)})"
    column = identifier(predicate.column.name)
    if isinstance(predicate, IsNull):
        return f"({column} IS NULL)"
    if _may_be_narrower_in_files(predicate.column):
        column = f"CASE WHEN {column} IS NOT NULL THEN {column} END"
    if isinstance(predicate, StartsWith):
        return f"starts_with({column}, {value_sql(predicate.prefix, 'varchar')})"
    if isinstance(predicate, In):
        values = ", ".join(value_sql(value, predicate.column.type) for value in predicate.values)
        return f"({column} IN ({values}))"
    return f"({column} {predicate.operator} {value_sql(predicate.value, predicate.column.type)})"


def _may_be_narrower_in_files(column: Column) -> bool:
    """True where a value of the column need not be one of the type that it has in a file."""
    types = (column.type, *column.former_types, *column.later_types)
    # A FLOAT file can be registered for a DOUBLE column; integers are compared right in every width.
    return column.type == "float64" or (len(types) > 1 and not all("int" in name for name in types))


def value_sql(value: Value, ducklake_type: str) -> str:
    """The value in DuckDB's SQL, with its type."""
    if isinstance(value, bytes):
        text = "".join(f"\\x{byte:02X}" for byte in value)
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = repr(value)
    else:
        text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    # A NUL would end the text of the statement.
    quoted = " || chr(0) || ".join(map(literal, text.split("\0")))
    return f"CAST({quoted} AS {duckdb_type(ducklake_type)})"
