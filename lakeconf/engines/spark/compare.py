"""Compares the rows that Spark and DuckDB read from a table."""

from __future__ import annotations

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import DecimalType, LongType, StructField, StructType

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.catalog.types import all_types
from lakeconf.engines.checksum import ColumnCheck, Fingerprint, TableCheck, fingerprint_sql, fingerprints
from lakeconf.engines.spark.internals import active_session_kept, rebind
from lakeconf.engines.spark.read import executor_code
from lakeconf.engines.spark.read.codecs import missing_codec
from lakeconf.engines.spark.read.column_reader import quoted
from lakeconf.engines.spark.session import private_session
from lakeconf.engines.spark.types import exact_cast
from lakeconf.sql import identifier, qualified


def check(frame: DataFrame, reader: CatalogReader, table: TableInfo, snapshot_id: int) -> TableCheck:
    """Reads the table with both engines and compares the results. The driver receives one row from each.

    Args:
        frame: Spark's scan of all columns of the table.
        reader: The lake.
        table: The table at the snapshot.
        snapshot_id: The snapshot.

    Raises:
        LakeconfError: DuckDB cannot read the table or convert it to Spark's types.
        UnsupportedError: Spark lacks the codec of a file.
    """
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
    query = fingerprint_sql(len(table.columns), executor_code.ROWS)
    sums = [F.coalesce(F.sum(F.col(field.name)), F.lit(0)) for field in fields]
    spark = frame.sparkSession
    # The user's session may ignore the case of names.
    with active_session_kept(spark):
        chosen = rebind(rebind(frame, private_session(spark)).select(*values), spark)
        parts = chosen.mapInArrow(executor_code.summing(query, time_zone), StructType(fields))
        try:
            return fingerprints(parts.agg(*sums).collect()[0])
        except (PySparkException, Py4JJavaError) as error:
            raise missing_codec(error) or error from error


def _has_text(column: Column) -> bool:
    """True if DuckDB formats a value as the same text, whether it comes from DuckLake or from Spark."""
    return column.type == "geometry" or not {"variant", "geometry"} & all_types(column)


def _duckdb_value(column: Column) -> str:
    name = identifier(column.name)
    if not _has_text(column):
        return f"CASE WHEN {name} IS NOT NULL THEN '' END"
    # In Spark, a geometry is well-known binary.
    return f"ST_AsWKB({name})" if column.type == "geometry" else exact_cast(name, column)


def _spark_value(column: Column) -> SparkColumn:
    value = F.col(quoted(column.name))
    return value if _has_text(column) else F.when(value.isNotNull(), F.lit(""))
