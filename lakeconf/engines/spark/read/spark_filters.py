"""Predicates as filters of Spark."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.catalog.pruning.predicates import And, Expression, In, IsNull, Not, Or, Predicate, StartsWith, Value
from lakeconf.catalog.tables import Column
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.spark_types import spark_type
from lakeconf.errors import UnsupportedError

_OPERATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
_EPOCH = datetime(1970, 1, 1)
# The first day of the calendar that Java and Spark share, and the first time at which all zones have standard time.
_GREGORIAN = (date(1582, 10, 15) - _EPOCH.date()).days
_STANDARD_TIME = (date(1901, 1, 1) - _EPOCH.date()).days * 86_400 * 1_000_000


def to_spark(predicate: Predicate) -> SparkColumn:
    """The filter for a frame that has the columns under their names, with their Spark types."""
    if isinstance(predicate, Expression):
        example = predicate.columns[0].name
        raise UnsupportedError(
            f"Spark does not compute the condition {predicate.sql.strip()}, which is in DuckDB's SQL",
            hint=f"filter the frame: .scan().filter(nw.col({example!r}) + 1 > 2); or read the table with DuckDB: "
            "store.open()",
        )
    if isinstance(predicate, And | Or):
        return reduce(and_ if isinstance(predicate, And) else or_, map(to_spark, predicate.operands))
    if isinstance(predicate, Not):
        return ~to_spark(predicate.operand)
    column = F.col(quoted(predicate.column.name))
    if isinstance(predicate, IsNull):
        return column.isNull()
    if isinstance(predicate, StartsWith):
        return column.startswith(predicate.prefix)
    if isinstance(predicate, In):
        column, values = _sides(predicate.column, predicate.values)
        return column.isin(values)
    column, (value,) = _sides(predicate.column, (predicate.value,))
    condition: SparkColumn = _OPERATORS[predicate.operator](column, value)
    return condition


def _sides(column: Column, values: Sequence[Value]) -> tuple[SparkColumn, list[SparkColumn]]:
    """A column and the values to compare it with, in the same type."""
    name = F.col(quoted(column.name))
    days = [(value - _EPOCH.date()).days for value in values if column.type == "date" and isinstance(value, date)]
    micros = [_micros(value) for value in values if column.type == "timestamptz" and isinstance(value, datetime)]
    # Compare numbers, because Spark does not push such filters down to Parquet. It would convert dates to Java's
    # calendar, which differs before 1582, and timestamps to Java's time zone, which differs before 1900.
    if any(day < _GREGORIAN for day in days):
        return F.unix_date(name), list(map(F.lit, days))
    if any(micro < _STANDARD_TIME for micro in micros):
        return F.unix_micros(name), list(map(F.lit, micros))
    return name, [_literal(column, value) for value in values]


def _micros(value: datetime) -> int:
    moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    delta = moment - _EPOCH.replace(tzinfo=UTC)
    return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds


def _literal(column: Column, value: Value) -> SparkColumn:
    if isinstance(value, datetime):
        if column.type == "timestamptz":
            return F.timestamp_micros(F.lit(_micros(value)))
        return F.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
    if isinstance(value, date):
        # Not a Python date, which Spark would convert through Java's calendar.
        return F.lit(value.isoformat()).cast("date")
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        if abs(value) >= 10**38:
            raise UnsupportedError(
                f"the column {column.name!r} cannot be compared with {value} on Spark, whose numbers have 38 digits",
                hint="read the table with DuckDB",
            )
        return F.lit(Decimal(value)).cast(spark_type(column))
    return F.lit(value).cast(spark_type(column))
