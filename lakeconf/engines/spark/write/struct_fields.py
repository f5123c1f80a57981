"""Puts the fields of structs in a table's order: Spark casts a struct by position, and DuckDB by name."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from lakeconf.sql import folded


def in_order(value: Column, found: DataType, wanted: DataType) -> Column:
    """The value with the fields of its structs, at any depth, in the order of another type.

    Args:
        value: The value.
        found: The type of the value.
        wanted: A type whose structs have the same names of fields.
    """
    if _is_in_order(found, wanted):
        return value
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        given = {folded(field.name): field for field in found.fields}
        fields = []
        for field in wanted.fields:
            same = given[folded(field.name)]
            fields.append(in_order(value.getField(same.name), same.dataType, field.dataType).alias(field.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        items = found.elementType, wanted.elementType
        return F.transform(value, lambda item: in_order(item, *items))
    if isinstance(found, MapType) and isinstance(wanted, MapType):
        keys, values = (found.keyType, wanted.keyType), (found.valueType, wanted.valueType)
        if not _is_in_order(*keys):
            value = F.transform_keys(value, lambda key, _: in_order(key, *keys))
        if not _is_in_order(*values):
            value = F.transform_values(value, lambda _, item: in_order(item, *values))
    return value


def _is_in_order(found: DataType, wanted: DataType) -> bool:
    if isinstance(found, StructType) and isinstance(wanted, StructType):
        names = [[folded(name) for name in type_.fieldNames()] for type_ in (found, wanted)]
        pairs = zip(found.fields, wanted.fields, strict=False)
        return names[0] == names[1] and all(_is_in_order(one.dataType, other.dataType) for one, other in pairs)
    if isinstance(found, ArrayType) and isinstance(wanted, ArrayType):
        return _is_in_order(found.elementType, wanted.elementType)
    if isinstance(found, MapType) and isinstance(wanted, MapType):
        return _is_in_order(found.keyType, wanted.keyType) and _is_in_order(found.valueType, wanted.valueType)
    return True
