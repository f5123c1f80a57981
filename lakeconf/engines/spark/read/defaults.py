"""Initial defaults in Spark SQL: the values of a column in files that are older than the column."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import pyarrow as pa

from lakeconf.catalog.table import Column
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.types import duckdb_type, spark_type


def default_sql(column: Column) -> str:
    """The Spark SQL of a column's initial default, which must not be None.

    It is a literal or a cast of a literal, whose meaning does not depend on Spark's settings.

    Raises:
        UnsupportedError: The default does not fit the column's Spark type.
    """
    stored, given = duckdb_type(column, for_spark=False), duckdb_type(column, for_spark=True)
    with connect() as duckdb:
        duckdb.execute("SET TimeZone = 'UTC'")
        # DuckDB casts an infinite TIMESTAMP_S or TIMESTAMP_MS to TIMESTAMP only through text.
        value = f"coalesce(TRY_CAST(v AS {given}), CAST(CAST(v AS VARCHAR) AS {given}))"
        found = duckdb.arrow(
            f"SELECT {value} AS value FROM (SELECT CAST(? AS {stored}) AS v)", [column.initial_default]
        )
    values = found.column("value").combine_chunks()
    if pa.types.is_date(values.type):
        return f"DATE '{_day(values.cast(pa.int32())[0].as_py())}'"
    if pa.types.is_timestamp(values.type):
        kind = "TIMESTAMP_NTZ" if values.type.tz is None else "TIMESTAMP_LTZ"
        zone = "" if values.type.tz is None else "+00:00"
        return f"{kind} '{_moment(values.cast(pa.int64())[0].as_py())}{zone}'"
    return f"CAST({_literal(values[0].as_py())} AS {spark_type(column).simpleString()})"


def _moment(micros: int) -> str:
    """Formats microseconds since 1970 as a Spark timestamp; Python's datetime ends with the year 9999."""
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    return f"{_day(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _day(days: int) -> str:
    """Formats days since 1970 as a Spark date. https://howardhinnant.github.io/date_algorithms.html."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    year += 400 * era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        # As bytes: the meaning of a quote or a backslash in a Spark literal depends on a setting.
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    return str(value)
