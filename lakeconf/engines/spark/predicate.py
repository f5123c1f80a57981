"""A predicate as a filter of Spark, with DuckDB's meaning.

Spark agrees with DuckDB on NULL and NaN. Literals get the column's own type, so that Spark adds no cast, which would
depend on settings of the session and keep the filter from the Parquet reader.
"""

from __future__ import annotations

from datetime import datetime, timezone
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.catalog.predicate import And, In, IsNull, Not, Or, Predicate, StartsWith, Value
from lakeconf.catalog.table import Column
from lakeconf.engines.spark.reading import quoted
from lakeconf.engines.spark.types import spark_type

_OPERATORS = {"=": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def to_spark(predicate: Predicate) -> SparkColumn:
    """The filter for a frame that has the columns by their names, in their Spark types."""
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
        return column.isin([_literal(predicate.column, value) for value in predicate.values])
    found: SparkColumn = _OPERATORS[predicate.operator](column, _literal(predicate.column, predicate.value))
    return found


def _literal(column: Column, value: Value) -> SparkColumn:
    if isinstance(value, datetime):
        if column.type == "timestamptz":
            moment = value if value.tzinfo is not None else value.replace(tzinfo=timezone.utc)
            delta = moment - datetime(1970, 1, 1, tzinfo=timezone.utc)
            return F.timestamp_micros(F.lit((delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds))
        return F.lit(value.isoformat(sep=" ")).cast("timestamp_ntz")
    return F.lit(value).cast(spark_type(column))
