"""The Spark type of each DuckLake type, and the DuckDB type that converts to it through Arrow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    VariantType,
)

from lakeconf.catalog.column_types import (
    TYPES,
    Fact,
    all_types,
    decimal_digits,
    duckdb_name,
    has,
    has_throughout,
    names_with,
    nested_sql,
)
from lakeconf.catalog.tables import Column
from lakeconf.engines.lossless import checked_cast
from lakeconf.engines.schema_check import check_distinct
from lakeconf.errors import SchemaError, SparkError, UnsupportedError
from lakeconf.sql import identifier

_SPARK_TYPES: tuple[DataType, ...] = (
    *(BooleanType(), ByteType(), ShortType(), IntegerType(), LongType(), DecimalType(20, 0), DecimalType(38, 0)),
    *(FloatType(), DoubleType(), StringType(), BinaryType(), DateType(), TimestampType(), TimestampNTZType()),
    VariantType(),
)
_BY_NAME = {spark_type.simpleString(): spark_type for spark_type in _SPARK_TYPES}
# DuckDB types by their names in Spark; void is the null type.
_DUCKDB = {
    "void": '"NULL"',
    **{TYPES[name].spark: TYPES[name].duckdb for name in names_with(Fact.AS_SPARK) if TYPES[name].spark},
}


def is_shared(column: Column) -> bool:
    """True if DuckLake can register a file of Spark for the column's type, without a conversion."""
    return has_throughout(column, Fact.AS_SPARK)


def spark_type(column: Column) -> DataType:
    """The Spark type of a column."""
    inner = [spark_type(child) for child in column.children]
    if column.type == "list":
        return ArrayType(inner[0])
    if column.type == "map":
        return MapType(inner[0], inner[1])
    if column.type == "struct":
        names = [child.name for child in column.children]
        return StructType([StructField(name, type_) for name, type_ in zip(names, inner, strict=True)])
    return leaf_type(column.type, column.name)


def leaf_type(type_name: str, column_name: str) -> DataType:
    """The Spark type of a DuckLake type that is not nested; the error names the column."""
    digits = decimal_digits(type_name)
    if digits:
        return DecimalType(*digits)
    if type_name in TYPES and TYPES[type_name].spark:
        return _BY_NAME[TYPES[type_name].spark]
    raise UnsupportedError(
        f"the column {column_name!r} has the DuckLake type {type_name!r}, for which Spark has no type",
        hint="omit the column with scan(columns=…), or read it with DuckDB",
    )


def spark_schema(columns: Sequence[Column]) -> StructType:
    """The schema of a frame with these columns."""
    return StructType([StructField(column.name, spark_type(column)) for column in columns])


def duckdb_type(column: Column, *, for_spark: bool) -> str:
    """A column's type in DuckDB's SQL."""
    return nested_sql(column, lambda leaf: _leaf(leaf.type, leaf.name, for_spark=for_spark))


def exact_cast(sql: str, column: Column) -> str:
    """DuckDB SQL that casts a value of a column to a type that Spark accepts; fails if digits would be lost."""
    if column.type in ("timestamp_s", "timestamp_ms"):
        # DuckDB casts infinity to TIMESTAMP only from text.
        return f"coalesce(TRY_CAST({sql} AS TIMESTAMP), CAST(CAST({sql} AS VARCHAR) AS TIMESTAMP))"
    target = duckdb_type(column, for_spark=True)
    if "timestamp_ns" not in all_types(column):
        return f"CAST({sql} AS {target})"
    message = f"{column.name}: a TIMESTAMP_NS has more digits than Spark's microseconds; read it with DuckDB"
    return checked_cast(sql, duckdb_type(column, for_spark=False), target, message)


def duckdb_schema(frame: DataFrame) -> dict[str, str]:
    """The columns of a frame and the DuckDB names of their types."""
    return duckdb_types(frame.schema)


def duckdb_types(schema: StructType) -> dict[str, str]:
    """Like `duckdb_schema`, for the schema of a frame."""
    check_distinct(schema.fieldNames())
    return {field.name: _of_spark(field.name, field.dataType) for field in schema.fields}


def _of_spark(name: str, data_type: DataType) -> str:
    """DuckDB's name of a Spark type; the error names the column."""
    if isinstance(data_type, StructType):
        fields = (f"{identifier(field.name)} {_of_spark(name, field.dataType)}" for field in data_type.fields)
        return f"STRUCT({', '.join(fields)})"
    if isinstance(data_type, ArrayType):
        return f"{_of_spark(name, data_type.elementType)}[]"
    if isinstance(data_type, MapType):
        return f"MAP({_of_spark(name, data_type.keyType)}, {_of_spark(name, data_type.valueType)})"
    text = data_type.simpleString()
    if text.startswith("decimal("):
        return text.upper()
    if text.startswith(("varchar(", "char(")):
        return "VARCHAR"
    if text not in _DUCKDB:
        raise SchemaError(
            f"the frame's column {name!r} has the Spark type {text}, which DuckLake does not support",
            hint="cast the column to another type",
        )
    return _DUCKDB[text]


def _leaf(type_name: str, column_name: str, *, for_spark: bool) -> str:
    """DuckDB's type of a column that is not nested; see `duckdb_type`."""
    spark = leaf_type(type_name, column_name)
    if for_spark and not has(type_name, Fact.OPAQUE):
        return _of_spark(column_name, spark)
    return str(duckdb_name(type_name))


def collected(frame: DataFrame) -> Any:
    """The rows of a frame as an Arrow table in this process."""
    try:
        return frame.toArrow()
    except Exception as error:  # also of py4j and gRPC, if the session was stopped
        raise SparkError(f"the Spark job that computes the frame failed: {first_line(error)}") from error


def first_line(error: BaseException) -> str:
    """The first line of an error of Spark, without py4j's about its call; the others are a Java stack trace."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[1].lstrip(": ") if hasattr(error, "java_exception") and len(lines) > 1 else lines[0]
