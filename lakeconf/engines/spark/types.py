"""The Spark type of each DuckLake type, and the DuckDB type that turns into it on its way through Arrow."""

from __future__ import annotations

import re
from collections.abc import Sequence

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

from lakeconf.catalog.table import Column
from lakeconf.errors import UnsupportedError
from lakeconf.sql import identifier, literal

_TEXT = (StringType(), "VARCHAR")
_NAIVE = (TimestampNTZType(), "TIMESTAMP")
_TO_38_DIGITS = (DecimalType(38, 0), "DECIMAL(38, 0)")
# DuckLake's type: its name in DuckDB, the Spark type, and the type of DuckDB whose values Spark takes over unchanged.
_TYPES: dict[str, tuple[str, DataType, str]] = {
    "boolean": ("BOOLEAN", BooleanType(), "BOOLEAN"),
    "int8": ("TINYINT", ByteType(), "TINYINT"),
    "int16": ("SMALLINT", ShortType(), "SMALLINT"),
    "int32": ("INTEGER", IntegerType(), "INTEGER"),
    "int64": ("BIGINT", LongType(), "BIGINT"),
    "int128": ("HUGEINT", *_TO_38_DIGITS),
    "uint8": ("UTINYINT", ShortType(), "SMALLINT"),
    "uint16": ("USMALLINT", IntegerType(), "INTEGER"),
    "uint32": ("UINTEGER", LongType(), "BIGINT"),
    "uint64": ("UBIGINT", DecimalType(20, 0), "DECIMAL(20, 0)"),
    "uint128": ("UHUGEINT", *_TO_38_DIGITS),
    "float32": ("FLOAT", FloatType(), "FLOAT"),
    "float64": ("DOUBLE", DoubleType(), "DOUBLE"),
    "varchar": ("VARCHAR", *_TEXT),
    "json": ("JSON", *_TEXT),
    "uuid": ("UUID", *_TEXT),
    "blob": ("BLOB", BinaryType(), "BLOB"),
    "date": ("DATE", DateType(), "DATE"),
    "time": ("TIME", *_TEXT),
    "timetz": ("TIMETZ", *_TEXT),
    "interval": ("INTERVAL", *_TEXT),
    "timestamp": ("TIMESTAMP", *_NAIVE),
    "timestamp_s": ("TIMESTAMP_S", *_NAIVE),
    "timestamp_ms": ("TIMESTAMP_MS", *_NAIVE),
    "timestamp_ns": ("TIMESTAMP_NS", *_NAIVE),
    "timestamptz": ("TIMESTAMPTZ", TimestampType(), "TIMESTAMPTZ"),
    "variant": ("VARIANT", VariantType(), "VARIANT"),
    # Arrow has it as well-known binary.
    "geometry": ("GEOMETRY", BinaryType(), "GEOMETRY"),
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")


def spark_type(column: Column) -> DataType:
    """The Spark type of a column.

    Args:
        column: The column, or a field inside a nested one.

    Raises:
        UnsupportedError: There is none that holds all its values.
    """
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
    """The Spark type of a DuckLake type that is not nested; the name of its column is for the error."""
    return _leaf(type_name, column_name)[1]


def spark_schema(columns: Sequence[Column]) -> StructType:
    """The schema of a frame with these columns.

    Raises:
        UnsupportedError: A column has no Spark type.
    """
    return StructType([StructField(column.name, spark_type(column)) for column in columns])


def duckdb_type(column: Column, *, for_spark: bool) -> str:
    """A column's type in DuckDB's SQL.

    Args:
        column: The column, or a field inside a nested one.
        for_spark: False for the type that DuckDB gives the column; True for the type to which DuckDB must cast it so
            that it is, as Arrow, what `spark_type` says.

    Raises:
        UnsupportedError: The column has no Spark type.
    """
    inner = [duckdb_type(child, for_spark=for_spark) for child in column.children]
    if column.type == "list":
        return f"{inner[0]}[]"
    if column.type == "map":
        return f"MAP({inner[0]}, {inner[1]})"
    if column.type == "struct":
        names = [identifier(child.name) for child in column.children]
        return f"STRUCT({', '.join(f'{name} {type_}' for name, type_ in zip(names, inner, strict=True))})"
    native, _, taken_over = _leaf(column.type, column.name)
    return taken_over if for_spark else native


def exact_cast(sql: str, column: Column) -> str:
    """The SQL by which DuckDB casts a value of a column to what Spark takes over; fails where digits would be lost."""
    cast = f"CAST({sql} AS {duckdb_type(column, for_spark=True)})"
    if column.type in ("timestamp_s", "timestamp_ms"):
        # Of infinity only the text becomes a TIMESTAMP.
        return f"coalesce(TRY_CAST({sql} AS TIMESTAMP), CAST(CAST({sql} AS VARCHAR) AS TIMESTAMP))"
    if "timestamp_ns" not in all_types(column):
        return cast
    lossless = f"CAST({sql} AS VARCHAR) IS NOT DISTINCT FROM CAST({cast} AS VARCHAR)"
    message = literal(f"{column.name}: a TIMESTAMP_NS has more digits than Spark's microseconds; read it with DuckDB")
    return f"CASE WHEN {lossless} THEN {cast} ELSE error({message}) END"


def all_types(column: Column) -> set[str]:
    """The types of a column and of everything in it."""
    return {column.type}.union(*map(all_types, column.children))


def decimal_digits(type_name: str) -> tuple[int, int] | None:
    """Precision and scale of a `decimal(p,s)`; None for another type."""
    found = _DECIMAL.fullmatch(type_name)
    return (int(found[1]), int(found[2])) if found else None


def _leaf(type_name: str, column_name: str) -> tuple[str, DataType, str]:
    digits = decimal_digits(type_name)
    if digits:
        text = f"DECIMAL({digits[0]}, {digits[1]})"
        return text, DecimalType(*digits), text
    if type_name in _TYPES:
        return _TYPES[type_name]
    raise UnsupportedError(
        f"the column {column_name!r} is of DuckLake's type {type_name!r}, which has no Spark type",
        hint="leave the column out with scan(columns=…), or read it with DuckDB",
    )
