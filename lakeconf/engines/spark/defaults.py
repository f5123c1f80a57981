"""Initial defaults: what files that are older than a column hold for it, as Spark's SQL."""

from __future__ import annotations

import math
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

from lakeconf.catalog.table import Column
from lakeconf.connection import connect
from lakeconf.engines.spark.types import duckdb_type, spark_type


def default_sql(column: Column) -> str:
    """The Spark SQL of a column's initial default, which must not be None.

    It is a literal, or a cast of one, that means the same whatever Spark's settings are.

    Raises:
        UnsupportedError: It does not fit into the column's Spark type.
    """
    stored, given = duckdb_type(column, for_spark=False), duckdb_type(column, for_spark=True)
    with connect() as duckdb:
        duckdb.execute("SET TimeZone = 'UTC'")
        ((value,),) = duckdb.rows(f"SELECT CAST(CAST(? AS {stored}) AS {given})", [column.initial_default])
    return f"CAST({_literal(value)} AS {spark_type(column).simpleString()})"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        # As bytes: how Spark reads a quote or a backslash in a literal depends on a setting.
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    if isinstance(value, datetime):
        zoned = value.tzinfo is not None
        text = (value.astimezone(timezone.utc) if zoned else value).replace(tzinfo=None).isoformat(" ")
        return f"TIMESTAMP_LTZ '{text}+00:00'" if zoned else f"TIMESTAMP_NTZ '{text}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    return str(value)
