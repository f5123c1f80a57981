"""Schemas of Spark as JSON: those of tables by name with their defaults, and those of statements that create tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pyspark.sql.types import DataType, StructField, StructType

from lakeconf.catalog.column_types import Fact, duckdb_name, has
from lakeconf.catalog.table_options import Default
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.engines.spark.spark_types import duckdb_types, exact_cast, spark_schema
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.sql import literal

_LENGTH = re.compile(r"\b(var)?char\(\d+\)")
# A text that means the same whatever settings Spark's parser has.
_PLAIN = re.compile(r"[A-Za-z0-9_ .,:/+-]*")
_ZONE = re.compile(r"(?:Z|[+-]\d\d(?::?\d\d)?)")
_DATE = r"\d{4}-\d\d-\d\d"
_TIME = rf"{_DATE} \d\d:\d\d:\d\d(?:\.\d{{1,6}})?"
# What DuckDB's text of a value looks like where Spark reads it as the same value; other texts are those of numbers.
_TEXTS = {
    "date": re.compile(_DATE),
    "timestamp": re.compile(rf"{_TIME}\+00"),
    "timestamp_ntz": re.compile(_TIME),
}
_NUMBER = re.compile(r"true|false|nan|-?inf|-?[0-9.]+(?:e[+-]?[0-9]+)?")
_SHOWN = 200  # characters of a default in an error
# Spark's keys of the default of a column: for new rows, and for rows of files without the column, which lakeconf reads.
_NEW_ROWS, _OLD_ROWS = "CURRENT_DEFAULT", "EXISTS_DEFAULT"


def described_table(
    table: TableInfo, comments: Mapping[str, str], defaults: Mapping[str, Default], connection: Connection
) -> StructType:
    """The columns of a table, with their comments and defaults as Spark has them."""
    columns = {column.name: column for column in table.columns}
    fields = []
    for field in spark_schema(table.columns).fields:
        metadata = {"comment": comments[field.name]} if field.name in comments else {}
        if field.name in defaults:
            default = defaults[field.name]
            value = _constant(field.dataType, columns[field.name], default, connection) or _refused(default)
            metadata |= {_NEW_ROWS: value, _OLD_ROWS: "NULL"}
        fields.append(StructField(field.name, field.dataType, field.nullable, metadata))
    return StructType(fields)


def _constant(kind: DataType, column: Column, default: Default, connection: Connection) -> str | None:
    """The constant in Spark's SQL, which means the same with all settings; None if there is none."""
    text, own = default.constant, duckdb_name(column.type)
    if text is None or own is None or any(has(column.type, fact) for fact in (Fact.OPAQUE, Fact.INEXACT)):
        return None
    if column.type == "timestamptz" and not _ZONE.search(text[10:]):
        return None  # its time is that of a session's time zone
    value = exact_cast(f"CAST({literal(text)} AS {own})", column)
    shown = f"hex({value})" if column.type == "blob" else f"CAST({value} AS VARCHAR)"
    try:
        with connection.cursor() as cursor:
            cursor.execute("SET TimeZone = 'UTC'")
            ((canonical,),) = cursor.rows(f"SELECT {shown}")
    except LakeconfError:  # a text that is no value of the type
        return None
    return None if canonical is None else _spark_literal(kind.simpleString(), str(canonical))


def _spark_literal(kind: str, text: str) -> str | None:
    if kind == "binary":
        return f"X'{text}'"
    if kind == "string":
        return f"'{text}'" if _PLAIN.fullmatch(text) else f"CAST(X'{text.encode().hex()}' AS STRING)"
    if not _TEXTS.get(kind, _NUMBER).fullmatch(text):
        return None
    # A setting decides what TIMESTAMP means.
    return f"CAST('{text}' AS {'timestamp_ltz' if kind == 'timestamp' else kind})"


def _refused(default: Default) -> str:
    """A column that does not exist: Spark's error has its name, where a statement needs the default."""
    text = f"UnsupportedError: Spark has no constant for {default.sql[:_SHOWN]}; give the column a value, or use DuckDB"
    return f"`{text.replace('`', '``')}`"


def described_columns(text: str) -> tuple[dict[str, str], dict[str, str]]:
    """The DuckDB types of the columns, with NOT NULL, and the comments of those that have one."""
    if length := _LENGTH.search(text):
        raise UnsupportedError(f"a column is {length[0]}, and DuckLake checks no lengths", hint="write STRING")
    schema = StructType.fromJson(json.loads(text))
    types = duckdb_types(schema)
    comments = {}
    for field in schema.fields:
        if comment := (field.metadata or {}).get("comment"):
            comments[field.name] = str(comment)
        if not field.nullable:
            types[field.name] += " NOT NULL"
    return types, comments


def described_type(text: str) -> str:
    """The DuckDB name of a type."""
    schema = json.dumps({"type": "struct", "fields": [_field(json.loads(text))]})
    ((_, kind),) = described_columns(schema)[0].items()
    return kind


def _field(kind: object) -> Mapping[str, object]:
    return {"name": "column", "type": kind, "nullable": True, "metadata": {}}
