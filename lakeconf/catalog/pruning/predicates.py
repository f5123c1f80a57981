"""Predicates as trees of comparisons, which the catalog, DuckDB and Spark can evaluate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Literal, TypeAlias

from lakeconf.catalog.column_types import Fact, duckdb_name, has
from lakeconf.catalog.tables import Column
from lakeconf.errors import PredicateError
from lakeconf.sql import identifier, literal

# bool and datetime come before their base classes.
Value: TypeAlias = bool | int | Decimal | float | str | datetime | date | bytes
Operator: TypeAlias = Literal["=", "!=", "<", "<=", ">", ">="]
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
TIMESTAMP = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?(Z|[+-]\d{2}(?::?\d{2})?)?")


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column compared with a value."""

    column: Column
    operator: Operator  # `=`, `!=`, `<`, `<=`, `>` or `>=`
    # A value of the column's type: int for integers, Decimal for decimals, float for floats (exact in `float32` for
    # such a column), str for varchar and uuid (lower case), bool, date, bytes, or datetime: naive for a timestamp, in
    # UTC for a `timestamptz`.
    value: Value


@dataclass(frozen=True, slots=True)
class In:
    """A column equals one of the values; there is at least one value."""

    column: Column
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class IsNull:
    """A column is NULL; for a nested column, the whole value is NULL."""

    column: Column


@dataclass(frozen=True, slots=True)
class StartsWith:
    """A varchar column starts with a prefix."""

    column: Column
    prefix: str


@dataclass(frozen=True, slots=True)
class Not:
    """The negation; NULL stays NULL."""

    operand: Predicate


@dataclass(frozen=True, slots=True)
class And:
    """All operands are true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one operand is true."""

    operands: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Expression:
    """A condition that only an engine understands. Planning skips no files because of it."""

    sql: str  # DuckDB's SQL, with columns by name
    columns: tuple[Column, ...]  # the columns that it names, without duplicates; there is at least one


Predicate: TypeAlias = Comparison | In | IsNull | StartsWith | Not | And | Or | Expression


def literal_type(ducklake_type: str) -> str | None:
    """Returns DuckDB's name of a DuckLake type that has literals; None for other, nested and unknown types."""
    return None if has(ducklake_type, Fact.OPAQUE) else duckdb_name(ducklake_type)


def columns_of(predicate: Predicate) -> tuple[Column, ...]:
    """Returns the columns of a predicate, without duplicates, in order."""
    if isinstance(predicate, And | Or):
        below = [column for operand in predicate.operands for column in columns_of(operand)]
        return tuple({column.field_id: column for column in below}.values())
    if isinstance(predicate, Expression):
        return predicate.columns
    return columns_of(predicate.operand) if isinstance(predicate, Not) else (predicate.column,)


def certainly(predicate: Predicate, *, value: bool) -> Predicate:
    """Returns a predicate that is true where another one is `value`, and false elsewhere: `IS TRUE` and `IS FALSE`."""
    if isinstance(predicate, Not):
        return certainly(predicate.operand, value=not value)
    if isinstance(predicate, And | Or):
        operands = tuple(certainly(operand, value=value) for operand in predicate.operands)
        return And(operands) if isinstance(predicate, And) is value else Or(operands)
    condition = predicate if value else Not(predicate)
    # Every other condition is NULL only where its column is.
    return condition if isinstance(predicate, IsNull) else And((condition, Not(IsNull(columns_of(predicate)[0]))))


def split(predicate: Predicate) -> tuple[Predicate | None, Expression | None]:
    """Splits a predicate into a part that planning understands, and one that only an engine does.

    An `Expression` is the whole predicate, or the last operand of an AND that is the whole predicate.
    """
    if isinstance(predicate, Expression):
        return None, predicate
    if isinstance(predicate, And) and isinstance(predicate.operands[-1], Expression):
        return And(predicate.operands[:-1]), predicate.operands[-1]
    return predicate, None


def to_duckdb_sql(predicate: Predicate) -> str:
    """Renders the predicate in DuckDB's SQL dialect, with columns by name.

    Every value is written with its type, so that DuckDB compares without a cast. A column is wrapped in CASE if its
    files may contain another type. Otherwise, DuckDB pushes the comparison into the files and casts the value to the
    file's type: a promoted FLOAT would equal 0.1, and a promoted DATE would equal noon. DuckDB would also trust
    statistics of that type. DuckLake would replace words in braces in text that it pushes into a query on its catalog.
    DuckDB and DuckLake also lose rows that are equal to a BLOB or a FLOAT: their Bloom filters and bounds have other
    values.
    """
    if isinstance(predicate, Expression):
        # DuckDB does not push a part of a CASE into the files.
        return f"(CASE WHEN ({predicate.sql}) THEN true END)"
    understood, expression = split(predicate)
    if understood is not None and expression is not None:
        # DuckDB computes an expression, which may fail, only for rows that satisfy the rest.
        condition = to_duckdb_sql(understood)
        return f"({condition} AND CASE WHEN {condition} THEN {to_duckdb_sql(expression)} END)"
    if isinstance(predicate, And | Or):
        word = " AND " if isinstance(predicate, And) else " OR "
        return "(" + word.join(map(to_duckdb_sql, predicate.operands)) + ")"
    if isinstance(predicate, Not):
        return f"(NOT {to_duckdb_sql(predicate.operand)})"
    column = identifier(predicate.column.name)
    if isinstance(predicate, IsNull):
        return f"({column} IS NULL)"
    values = _values(predicate)
    # A FLOAT file can be registered for a DOUBLE column.
    is_misread = is_misread_in_files(predicate.column) or predicate.column.type == "float64"
    if is_misread or any(isinstance(value, str) and "{" in value for value in values):
        column = not_pushed_down(column)
    if isinstance(predicate, StartsWith):
        return f"starts_with({column}, {value_sql(predicate.prefix, 'varchar')})"
    if isinstance(predicate, In):
        listed = ", ".join(value_sql(value, predicate.column.type) for value in values)
        return f"({column} IN ({listed}))"
    return f"({column} {predicate.operator} {value_sql(predicate.value, predicate.column.type)})"


def _values(predicate: Comparison | In | StartsWith) -> tuple[Value, ...]:
    if isinstance(predicate, In):
        return predicate.values
    return (predicate.prefix if isinstance(predicate, StartsWith) else predicate.value,)


def value_in(table: str, column: Column) -> str:
    """The SQL for the value of a column of a table, with which DuckDB finds all rows."""
    value = f"{table}.{identifier(column.name)}"
    return not_pushed_down(value) if is_misread_in_files(column) else value


def is_misread_in_files(column: Column) -> bool:
    """Returns True if DuckDB, for a comparison with the column, may skip files or row groups with matching rows."""
    types = (column.type, *column.former_types, *column.later_types)
    if is_in_wrong_buckets(column):
        return True
    # DuckDB compares integers of any width correctly.
    return column.type in ("float32", "blob") or (len(types) > 1 and not all("int" in name for name in types))


def is_in_wrong_buckets(column: Column) -> bool:
    """Returns True if DuckDB, for a value of the column, may only look into buckets that lack rows with it."""
    # A promotion changes the bucket of some values, and some equal values have different buckets.
    is_stable = has(column.type, Fact.HASHED) and not column.former_types and not column.later_types
    return column.has_other_buckets or (column.is_bucketed and not is_stable)


def not_pushed_down(column: str) -> str:
    """The SQL for the value of a column, of which DuckDB pushes no comparison into the files."""
    return f"CASE WHEN {column} IS NOT NULL THEN {column} END"


def value_sql(value: Value, ducklake_type: str) -> str:
    """Renders the value in DuckDB's SQL dialect, with its type."""
    if isinstance(value, bytes):
        text = "".join(f"\\x{byte:02X}" for byte in value)
    elif isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, float):
        text = repr(value)
    else:
        text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    return f"CAST({literal(text)} AS {literal_type(ducklake_type)})"


def parse_date(text: str) -> date:
    """Parses a date in the format `YYYY-MM-DD`."""
    try:
        if DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise PredicateError(f"{text!r} is not a date", hint="write YYYY-MM-DD, with a year from 0001 to 9999")


def parse_timestamp(text: str) -> datetime:
    """Parses a time `YYYY-MM-DD[ HH:MM[:SS[.ffffff]]][+HH[:MM]]`: to UTC if it has an offset, else naive."""
    parts = TIMESTAMP.fullmatch(text.strip())
    if not parts:
        raise PredicateError(
            f"{text!r} is not a time", hint="write YYYY-MM-DD HH:MM:SS, with up to 6 decimals and an optional offset"
        )
    day, clock, offset = parts.groups()
    try:
        naive = datetime.combine(parse_date(day), time.fromisoformat(clock) if clock else time())
        if offset is None:
            return naive
        sign = -1 if offset[0] == "-" else 1
        digits = "0" if offset == "Z" else offset[1:].replace(":", "")
        shift = timedelta(hours=int(digits[:2]), minutes=int(digits[2:] or 0))
        return naive.replace(tzinfo=timezone(sign * shift)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise PredicateError(f"{text!r} is not a time", hint="write HH:MM:SS, with up to 6 decimals") from error
