"""Rows that the catalog itself holds, as a frame of Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from lakeconf.catalog.table import Column
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.types import all_types, exact_cast, spark_schema
from lakeconf.errors import SchemaError, UnsupportedError
from lakeconf.sql import identifier


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
    for column in columns:
        if "timetz" in all_types(column):
            raise UnsupportedError(
                f"the column {column.name!r} holds TIMETZ in the catalog, whose offsets are lost on the way to Spark",
                hint="move the rows to a file, CALL ducklake_flush_inlined_data(…), or leave the column out",
            )
    hidden = [sql for _, sql in virtual if sql.isidentifier() and sql not in rows.column_names]
    if hidden:
        raise UnsupportedError(
            "the catalog holds rows of the table, and a column called 'rowid' or 'snapshot_id' hides their ids",
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
    except (SchemaError, PySparkException) as error:
        raise UnsupportedError(
            f"an inlined row has a value that Spark cannot hold: {error}", hint="read it with DuckDB"
        ) from error
