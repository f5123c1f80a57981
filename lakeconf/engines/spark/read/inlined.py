"""Inlined rows, which are stored in the catalog, as a Spark frame."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lakeconf.catalog.table import Column
from lakeconf.catalog.types import all_types
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.types import exact_cast, spark_schema
from lakeconf.errors import QueryError, SchemaError, UnsupportedError
from lakeconf.sql import identifier, literal


def inlined_frame(
    private: SparkSession, columns: Sequence[Column], rows: pa.Table, virtual: Sequence[tuple[StructField, str]]
) -> DataFrame:
    """Creates a frame of inlined rows.

    Args:
        private: The session of the scan.
        columns: The requested columns; `rows` has them under their names.
        rows: The rows as DuckDB returns them.
        virtual: Additional columns of the frame, each with its SQL over `rows`.

    Raises:
        UnsupportedError: A value does not fit the column's Spark type.
    """
    schema = StructType([*spark_schema(columns).fields, *(field for field, _ in virtual)])
    table = exact_rows(columns, rows, {field.name: sql for field, sql in virtual})
    with _refused():
        return private.createDataFrame(table, schema)


def exact_rows(
    columns: Sequence[Column],
    rows: pa.Table,
    virtual: Mapping[str, str] | None = None,
    *,
    condition: str = "true",
    time_zone: str = "UTC",
) -> pa.Table:
    """Inlined rows with the types that Spark accepts.

    Args:
        columns: The requested columns; `rows` has them under their names.
        rows: The rows as DuckDB returns them.
        virtual: Additional columns, each with its SQL over `rows`.
        condition: The condition on `rows`, in DuckDB's SQL.
        time_zone: The time zone in which the condition is evaluated.

    Raises:
        UnsupportedError: A value does not fit the column's Spark type.
    """
    refuse_timetz(columns)
    added = virtual or {}
    if any(sql.isidentifier() and sql not in rows.column_names for sql in added.values()):
        raise UnsupportedError(
            "the catalog contains rows of the table, and a column named 'rowid' or 'snapshot_id' hides their ids",
            hint="move the rows to a file: CALL ducklake_flush_inlined_data(…)",
        )
    values = [(exact_cast(identifier(column.name), column), column.name) for column in columns]
    values += [(sql, name) for name, sql in added.items()]
    selected = ", ".join(f"{sql} AS {identifier(name)}" for sql, name in values)
    with _refused(), connect() as duckdb:
        duckdb.execute(f"SET TimeZone = {literal(time_zone)}")
        duckdb.register("inlined_rows", rows)
        return duckdb.arrow(f"SELECT {selected} FROM inlined_rows WHERE {condition}")


def refuse_timetz(columns: Sequence[Column]) -> None:
    """Refuses columns of rows in the catalog whose values lose a part on the way to Spark.

    Raises:
        UnsupportedError: A column contains TIMETZ.
    """
    for column in columns:
        if "timetz" in all_types(column):
            raise UnsupportedError(
                f"the column {column.name!r} holds TIMETZ in the catalog, whose offsets would be lost in Spark",
                hint="move the rows to a file, CALL ducklake_flush_inlined_data(…), or omit the column",
            )


@contextlib.contextmanager
def _refused() -> Iterator[None]:
    """Raises the error for a value that Spark cannot hold."""
    try:
        yield
    except (QueryError, SchemaError, PySparkException) as error:
        raise UnsupportedError(
            f"an inlined row has a value that Spark cannot hold: {error}", hint="read it with DuckDB"
        ) from error
