"""Rows that the catalog itself holds, as a frame of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lakeconf.catalog.table import Column
from lakeconf.connection import connect
from lakeconf.engines.spark.types import duckdb_type, spark_schema
from lakeconf.errors import SchemaError, UnsupportedError
from lakeconf.sql import identifier, literal


def inlined_frame(
    private: SparkSession, columns: Sequence[Column], rows: pa.Table, virtual: Sequence[tuple[StructField, str]]
) -> DataFrame:
    """A frame of rows that came from the catalog.

    Args:
        private: The session of the scan.
        columns: The wanted columns, which `rows` has under their names.
        rows: The rows as DuckDB gives them.
        virtual: Further columns of the frame, and the SQL over `rows` that gives each.

    Raises:
        UnsupportedError: A value does not fit into the column's Spark type.
    """
    wanted = [f"{_exact(column)} AS {identifier(column.name)}" for column in columns]
    added = [f"{sql} AS {identifier(field.name)}" for field, sql in virtual]
    with connect() as duckdb:
        duckdb.native.register("inlined_rows", rows)
        try:
            table = duckdb.arrow(f"SELECT {', '.join(wanted + added)} FROM inlined_rows")
        except SchemaError as error:
            raise UnsupportedError(
                f"an inlined row has a value that Spark cannot hold: {error.message}", hint="read it with DuckDB"
            ) from error
    schema = StructType([*spark_schema(columns).fields, *(field for field, _ in virtual)])
    return private.createDataFrame(table, schema)


def _exact(column: Column) -> str:
    """The cast of a column to what Spark takes over; fails where it would lose something."""
    name = identifier(column.name)
    cast = f"CAST({name} AS {duckdb_type(column, for_spark=True)})"
    if "timestamp_ns" not in _all_types(column):
        return cast
    # The cast drops digits without a word.
    lossless = f"to_json(CAST({name} AS VARCHAR)) IS NOT DISTINCT FROM to_json(CAST({cast} AS VARCHAR))"
    message = literal(f"{column.name}: a TIMESTAMP_NS has more digits than Spark's microseconds")
    return f"CASE WHEN {lossless} THEN {cast} ELSE error({message}) END"


def _all_types(column: Column) -> Iterator[str]:
    yield column.type
    for child in column.children:
        yield from _all_types(child)
