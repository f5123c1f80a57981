"""Inlined rows, which are stored in the catalog, as a Spark frame."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lakeconf.catalog.table import Column
from lakeconf.catalog.types import all_types
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.types import exact_cast, spark_schema
from lakeconf.errors import QueryError, SchemaError, UnsupportedError
from lakeconf.sql import identifier


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
    for column in columns:
        if "timetz" in all_types(column):
            raise UnsupportedError(
                f"the column {column.name!r} holds TIMETZ in the catalog, whose offsets would be lost in Spark",
                hint="move the rows to a file, CALL ducklake_flush_inlined_data(…), or omit the column",
            )
    hidden = [sql for _, sql in virtual if sql.isidentifier() and sql not in rows.column_names]
    if hidden:
        raise UnsupportedError(
            "the catalog contains rows of the table, and a column named 'rowid' or 'snapshot_id' hides their ids",
            hint="move the rows to a file: CALL ducklake_flush_inlined_data(…)",
        )
    wanted = [f"{exact_cast(identifier(column.name), column)} AS {identifier(column.name)}" for column in columns]
    added = [f"{sql} AS {identifier(field.name)}" for field, sql in virtual]
    schema = StructType([*spark_schema(columns).fields, *(field for field, _ in virtual)])
    try:
        with connect() as duckdb:
            duckdb.register("inlined_rows", rows)
            table = duckdb.arrow(f"SELECT {', '.join(wanted + added)} FROM inlined_rows")
        return private.createDataFrame(table, schema)
    except (QueryError, SchemaError, PySparkException) as error:
        raise UnsupportedError(
            f"an inlined row has a value that Spark cannot hold: {error}", hint="read it with DuckDB"
        ) from error
