"""Compares the rows of a table as Spark and DuckDB read them: their number, NULLs and hashes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from lakeconf.catalog.column_types import Fact, all_types, has
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.engines.fingerprints import ColumnCheck, Fingerprint, TableCheck, fingerprint_sql, fingerprints
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.sessions import private_session
from lakeconf.engines.spark.spark_types import exact_cast
from lakeconf.engines.spark.write.storage import missing_codec
from lakeconf.sql import identifier, qualified

# The name of the rows in the query of `_summing`.
_ROWS = "lakeconf_rows"


def check(frame: DataFrame, reader: CatalogReader, table: TableInfo, snapshot_id: int) -> TableCheck:
    """Reads the table with both engines and compares the results. The driver receives one row from each."""
    spark_rows, by_spark = _by_spark(frame, table, reader.time_zone)
    duckdb_rows, by_duckdb = _by_duckdb(reader, table, snapshot_id)
    columns = tuple(
        ColumnCheck(column.name, column.type, ours, theirs, is_hashed=_has_text(column))
        for column, ours, theirs in zip(table.columns, by_duckdb, by_spark, strict=True)
    )
    return TableCheck(duckdb_rows, spark_rows, columns)


def _by_duckdb(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> tuple[int, list[Fingerprint]]:
    values = ", ".join(f"{_duckdb_value(column)} AS c{index}" for index, column in enumerate(table.columns))
    name = qualified(reader.alias, table.schema_name, table.name)
    source = f"(SELECT {values} FROM {name} AT (VERSION => {snapshot_id}))"
    with reader.lake_cursor() as cursor:
        return fingerprints(cursor.rows(fingerprint_sql(len(table.columns), source))[0])


def _by_spark(frame: DataFrame, table: TableInfo, time_zone: str) -> tuple[int, list[Fingerprint]]:
    fields = [StructField("row_count", LongType())]
    for index in range(len(table.columns)):
        fields += [StructField(f"values{index}", LongType()), StructField(f"hash{index}", DecimalType(38, 0))]
    values = [_spark_value(column).alias(f"c{index}") for index, column in enumerate(table.columns)]
    query = fingerprint_sql(len(table.columns), _ROWS)
    sums = [F.coalesce(F.sum(F.col(field.name)), F.lit(0)) for field in fields]
    spark = frame.sparkSession
    # The user's session may ignore the case of names.
    with active_session_kept(spark):
        chosen = rebind(rebind(frame, private_session(spark)).select(*values), spark)
        parts = chosen.mapInArrow(_summing(query, time_zone), StructType(fields))
        try:
            return fingerprints(parts.agg(*sums).collect()[0])
        except (PySparkException, Py4JJavaError) as error:
            raise missing_codec(error) or error from error


def _summing(query: str, time_zone: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function with which an executor runs DuckDB's SQL over each batch of rows."""
    name = _ROWS

    # Spark sends this function by value: executors need no lakeconf.
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            import duckdb
        except ImportError:
            raise RuntimeError(
                f"lakeconf: verify needs the package duckdb inside Spark's executors, and their Python "
                f"{sys.executable} has none; install it there"
            ) from None
        with duckdb.connect() as connection:
            connection.execute(f"SET TimeZone = '{time_zone}'")
            for batch in batches:
                connection.register(name, pa.Table.from_batches([batch]))
                yield from connection.execute(query).to_arrow_table().to_batches()

    return run


def _has_text(column: Column) -> bool:
    """True if DuckDB formats a value as the same text, whether it comes from DuckLake or from Spark."""
    return column.type == "geometry" or not any(has(kind, Fact.OPAQUE) for kind in all_types(column))


def _duckdb_value(column: Column) -> str:
    name = identifier(column.name)
    if not _has_text(column):
        return f"CASE WHEN {name} IS NOT NULL THEN '' END"
    # In Spark, a geometry is well-known binary.
    return f"ST_AsWKB({name})" if column.type == "geometry" else exact_cast(name, column)


def _spark_value(column: Column) -> SparkColumn:
    value = F.col(quoted(column.name))
    return value if _has_text(column) else F.when(value.isNotNull(), F.lit(""))
