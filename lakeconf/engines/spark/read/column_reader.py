"""How Spark reads each column: the type that it requests, and what converts the values to the type of the table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lakeconf.catalog.column_types import NESTED, Fact, has
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import connect
from lakeconf.engines.spark.read.column_places import ColumnPlace
from lakeconf.engines.spark.read.primitive_types import Convert, casts_alike, leaf_reading
from lakeconf.engines.spark.spark_types import duckdb_type, spark_type
from lakeconf.errors import UnsupportedError

FIELD_ID = "parquet.field.id"
EXISTENCE_DEFAULT = "EXISTS_DEFAULT"


def default_sql(column: Column) -> str:
    """The Spark SQL of a column's initial default, which must not be None.

    It is a literal or a cast of a literal, whose meaning does not depend on Spark's settings.
    """
    stored, returned = duckdb_type(column, for_spark=False), duckdb_type(column, for_spark=True)
    with connect() as duckdb:
        duckdb.execute("SET TimeZone = 'UTC'")
        # DuckDB casts an infinite TIMESTAMP_S or TIMESTAMP_MS to TIMESTAMP only through text.
        value = f"coalesce(TRY_CAST(v AS {returned}), CAST(CAST(v AS VARCHAR) AS {returned}))"
        table = duckdb.arrow(
            f"SELECT {value} AS value FROM (SELECT CAST(? AS {stored}) AS v)", [column.initial_default]
        )
    values = table.column("value").combine_chunks()
    if pa.types.is_date(values.type):
        return f"DATE '{_day(values.cast(pa.int32())[0].as_py())}'"
    if pa.types.is_timestamp(values.type):
        kind = "TIMESTAMP_NTZ" if values.type.tz is None else "TIMESTAMP_LTZ"
        zone = "" if values.type.tz is None else "+00:00"
        return f"{kind} '{_moment(values.cast(pa.int64())[0].as_py())}{zone}'"
    return f"CAST({_literal(values[0].as_py())} AS {spark_type(column).simpleString()})"


def _moment(micros: int) -> str:
    """Formats microseconds since 1970 as a Spark timestamp; Python's datetime ends with the year 9999."""
    days, rest = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(rest, 1_000_000)
    return f"{_day(days)} {seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:06}"


def _day(days: int) -> str:
    """Formats days since 1970 as a Spark date. https://howardhinnant.github.io/date_algorithms.html."""
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month += 3 if month < 10 else -9
    year += 400 * era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{month:02}-{day:02}"


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, str):
        # As bytes: the meaning of a quote or a backslash in a Spark literal depends on a setting.
        return f"CAST(X'{value.encode().hex()}' AS STRING)"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    if isinstance(value, float):
        return f"{value!r}D" if math.isfinite(value) else f"CAST('{value}' AS DOUBLE)"
    if isinstance(value, Decimal):
        return f"{value:f}BD"
    return str(value)


@dataclass(frozen=True)
class Reading:
    """How one column is read from a group of files."""

    type: DataType  # the type requested from Spark's reader
    convert: Convert | None = None  # converts the result to the column's Spark type; None if it already has that type


def requested(place: ColumnPlace, type_: DataType, *, default: str | None = None) -> StructField:
    """A field of the schema for Spark's reader."""
    metadata: dict[str, object] = {} if place.field_id is None else {FIELD_ID: place.field_id}
    if default is not None:
        metadata[EXISTENCE_DEFAULT] = default
    return StructField(place.name, type_, metadata=metadata)


def reading(column: Column, place: ColumnPlace, *, can_filter: bool = True) -> Reading | None:
    """How to read a column; None if Spark cannot return what DuckDB returns."""
    if column.type in NESTED:
        if place.type != column.type:
            return None
        if column.type == "struct":
            return _struct(column, place, can_filter=can_filter)
        return {"list": _list, "map": _map}[column.type](column, place)
    leaf = leaf_reading(place.type, column)
    if leaf is None:
        return None
    asked, convert = leaf
    if can_filter and place.field_id is None and has(place.type, Fact.FLOAT):
        return Reading(asked, _unfiltered(asked, convert))
    return Reading(asked, convert)


def _unfiltered(asked: DataType, convert: Convert | None) -> Convert:
    """Multiplies a float by one, so that Spark does not push a filter on it down to the statistics in files.

    Statistics distinguish -0.0 from 0.0. For files read by field id, `read_name` does this without a computation.
    """

    def product(value: SparkColumn) -> SparkColumn:
        same = value * F.lit(1.0).cast(asked)
        return same if convert is None else convert(same)

    return product


def missing(column: Column) -> SparkColumn:
    """The value of a column for files that lack it."""
    if column.initial_default is None:
        return F.lit(None).cast(spark_type(column))
    return F.expr(default_sql(column))


def quoted(name: str) -> str:
    """Quotes a column's name for Spark's `col`."""
    return "`" + name.replace("`", "``") + "`"


def _field(column: Column, place: ColumnPlace, *, can_filter: bool) -> Reading | None:
    return reading(column, replace(place, witness=None), can_filter=can_filter)


def _struct(column: Column, place: ColumnPlace, *, can_filter: bool) -> Reading | None:
    places = list(zip(column.children, place.children, strict=True))
    inner = [None if at is None else _field(child, at, can_filter=can_filter) for child, at in places]
    if any(how is None and at is not None for how, at in zip(inner, place.children, strict=True)):
        return None
    fields = [requested(at, how.type) for at, how in zip(place.children, inner, strict=True) if at and how]
    if not fields:
        type_ = None if place.witness is None else _witness_type(place.witness)
        if place.witness is None or type_ is None:
            return None
        fields = [requested(place.witness, type_)]
    stored = StructType(fields)
    if all(how is not None and how.convert is None for how in inner):
        target = spark_type(column)
        if stored.fieldNames() == [child.name for child in column.children]:
            return Reading(stored)
        # A cast renames the fields of a struct, at no cost at run time.
        return Reading(stored, lambda struct: struct.cast(target))
    # The cast changes only the nullability, so that the schema does not depend on the fields that a file lacks.
    return Reading(stored, lambda struct: _rebuilt(_whole(struct, stored), places, inner).cast(spark_type(column)))


def _whole(struct: SparkColumn, stored: StructType) -> SparkColumn:
    """Renames the fields of a struct with a cast, at no cost at run time.

    If Spark sees that a query uses single fields of a relation's struct, it may request only those from its reader and
    lose their field ids: they would all be NULL. The cast hides the use of single fields.
    """
    return struct.cast(StructType([StructField(_inner_name(at.name), at.dataType) for at in stored.fields]))


def _inner_name(name: str) -> str:
    return f"__lakeconf_{name}"


def _witness_type(witness: ColumnPlace) -> DataType | None:
    """The type requested for a witness; None if Spark's reader does not support it."""
    try:
        leaf = leaf_reading(witness.type, Column(0, witness.name, witness.type, nullable=True, initial_default=None))
    except UnsupportedError:
        return None
    return leaf[0] if leaf else None


def _rebuilt(
    struct: SparkColumn, places: Sequence[tuple[Column, ColumnPlace | None]], inner: Sequence[Reading | None]
) -> SparkColumn:
    fields = []
    for (child, at), how in zip(places, inner, strict=True):
        if at is None or how is None:
            value = missing(child)
        else:
            value = struct.getField(_inner_name(at.name))
            value = how.convert(value) if how.convert else value
        fields.append(value.alias(child.name))
    return F.when(struct.isNotNull(), F.struct(*fields))


def _list(column: Column, place: ColumnPlace) -> Reading | None:
    inner = _places(column, place)
    if inner is None:
        return None
    (element,) = inner
    convert = element.convert
    if convert is None:
        return Reading(ArrayType(element.type))
    return Reading(ArrayType(element.type), lambda array: F.transform(array, convert))


def _map(column: Column, place: ColumnPlace) -> Reading | None:
    inner = _places(column, place)
    if inner is None:
        return None
    key, item = inner
    key_convert, item_convert = key.convert, item.convert
    whole = place.children[0] is not None and casts_alike(place.children[0].type, column.children[0].type)

    def convert(value: SparkColumn) -> SparkColumn:
        if key_convert is not None and whole:
            # Unlike `transform_keys`, a cast accepts keys that become equal, as DuckDB does.
            value = value.cast(MapType(spark_type(column.children[0]), item.type))
        elif key_convert is not None:
            value = F.transform_keys(value, lambda k, _: key_convert(k))
        if item_convert is not None:
            value = F.transform_values(value, lambda _, v: item_convert(v))
        return value

    return Reading(MapType(key.type, item.type), convert if key_convert or item_convert else None)


def _places(column: Column, place: ColumnPlace) -> list[Reading] | None:
    """How to read the element of a list, or the key and the value of a map."""
    inner = []
    for child, at in zip(column.children, place.children, strict=False):
        how = None if at is None else _field(child, at, can_filter=False)
        if how is None:
            return None
        inner.append(how)
    return inner if len(inner) == len(column.children) else None
