"""The schema for Spark's Parquet reader, and the expressions that convert its result to the table's columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from lakeconf.catalog.table import Column
from lakeconf.engines.spark.read.columns import FLOATS, Found
from lakeconf.engines.spark.read.defaults import default_sql
from lakeconf.engines.spark.read.primitive_types import Convert, casts_alike, leaf_reading
from lakeconf.engines.spark.types import spark_type
from lakeconf.errors import UnsupportedError

FIELD_ID = "parquet.field.id"
EXISTENCE_DEFAULT = "EXISTS_DEFAULT"


@dataclass(frozen=True)
class Reading:
    """How one column is read from a group of files.

    Attributes:
        type: The type requested from Spark's reader.
        convert: Converts the result to the column's Spark type; None if it already has that type.
    """

    type: DataType
    convert: Convert | None = None


def requested(found: Found, type_: DataType, *, default: str | None = None) -> StructField:
    """A field of the schema for Spark's reader.

    Args:
        found: Its location in the files.
        type_: The requested type.
        default: Spark SQL of its value for files that lack it.
    """
    metadata: dict[str, object] = {} if found.field_id is None else {FIELD_ID: found.field_id}
    if default is not None:
        metadata[EXISTENCE_DEFAULT] = default
    return StructField(found.name, type_, metadata=metadata)


def reading(column: Column, found: Found, *, can_filter: bool = True) -> Reading | None:
    """How to read a column; None if Spark cannot return what DuckDB returns.

    Args:
        column: The column, or a field inside a nested one.
        found: Its location in the files.
        can_filter: False inside a list or map, whose elements Spark never uses to filter row groups.
    """
    if column.type in ("struct", "list", "map"):
        if found.type != column.type:
            return None
        if column.type == "struct":
            return _struct(column, found, can_filter=can_filter)
        return {"list": _list, "map": _map}[column.type](column, found)
    leaf = leaf_reading(found.type, column)
    if leaf is None:
        return None
    asked, convert = leaf
    if can_filter and found.field_id is None and found.type in FLOATS:
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


def _struct(column: Column, found: Found, *, can_filter: bool) -> Reading | None:
    places = list(zip(column.children, found.children, strict=True))
    inner = [None if at is None else reading(child, at, can_filter=can_filter) for child, at in places]
    if any(how is None and at is not None for how, at in zip(inner, found.children, strict=True)):
        return None
    fields = [requested(at, how.type) for at, how in zip(found.children, inner, strict=True) if at and how]
    if not fields:
        type_ = None if found.witness is None else _witness_type(found.witness)
        if found.witness is None or type_ is None:
            return None
        fields = [requested(found.witness, type_)]
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


def _witness_type(found: Found) -> DataType | None:
    """The type requested for a witness; None if Spark's reader does not support it."""
    try:
        known = leaf_reading(found.type, Column(0, found.name, found.type, nullable=True, initial_default=None))
    except UnsupportedError:
        return None
    return known[0] if known else None


def _rebuilt(
    struct: SparkColumn, places: Sequence[tuple[Column, Found | None]], inner: Sequence[Reading | None]
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


def _list(column: Column, found: Found) -> Reading | None:
    inner = _places(column, found)
    if inner is None:
        return None
    (element,) = inner
    convert = element.convert
    if convert is None:
        return Reading(ArrayType(element.type))
    return Reading(ArrayType(element.type), lambda array: F.transform(array, convert))


def _map(column: Column, found: Found) -> Reading | None:
    inner = _places(column, found)
    if inner is None:
        return None
    key, item = inner
    key_convert, item_convert = key.convert, item.convert
    whole = found.children[0] is not None and casts_alike(found.children[0].type, column.children[0].type)

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


def _places(column: Column, found: Found) -> list[Reading] | None:
    """How to read the element of a list, or the key and the value of a map."""
    inner = []
    for child, at in zip(column.children, found.children, strict=False):
        how = None if at is None else reading(child, at, can_filter=False)
        if how is None:
            return None
        inner.append(how)
    return inner if len(inner) == len(column.children) else None
