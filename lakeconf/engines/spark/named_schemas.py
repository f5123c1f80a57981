"""Schemas of Spark as JSON: those of tables by name, and those of statements that create tables."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from pyspark.sql.types import StructField, StructType

from lakeconf.engines.spark.spark_types import duckdb_types
from lakeconf.errors import UnsupportedError

_LENGTH = re.compile(r"\b(var)?char\(\d+\)")


def commented(schema: StructType, comments: Mapping[str, str]) -> StructType:
    """A schema with comments of its columns."""
    fields = (
        StructField(field.name, field.dataType, field.nullable, {"comment": comments[field.name]})
        if field.name in comments
        else field
        for field in schema.fields
    )
    return StructType(list(fields))


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
