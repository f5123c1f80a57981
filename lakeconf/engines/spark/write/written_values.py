"""The values that Spark writes, in the types of a table. A value that a cast or DuckLake would change fails the job."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    DoubleType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
)

from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.duckdb_errors import REFUSED_VALUE
from lakeconf.ducklake import PLACEHOLDER
from lakeconf.engines.lossless import placeholder_message
from lakeconf.engines.schema_check import not_null_violation
from lakeconf.engines.spark.read.column_reader import FIELD_ID, quoted
from lakeconf.engines.spark.spark_types import is_shared, spark_type
from lakeconf.sql import folded

_NO = "false"
# Prefix of the error message that a job raises for a NULL in a NOT NULL column.
NULL_FOUND = "LAKECONF_NOT_NULL"


def written_value(frame: DataFrame, name: str, column: Column, table: TableInfo) -> SparkColumn:
    """A column as it is written, with the table's type, name and field ids."""
    value, data_type = F.col(quoted(name)), frame.schema[name].dataType
    # The type of each value is known here: Spark would analyse the frame again for each column.
    if is_shared(column):
        target = _stored(column)
        if data_type != target:  # the types of nested fields have their field ids
            value, data_type = in_order(value, data_type, target).cast(target), target
    elif isinstance(data_type, NullType):
        # Parquet has no null type; DuckDB casts text to every type.
        value, data_type = value.cast("string"), StringType()
    value = without_placeholders(value, data_type, column.name)
    if not column.nullable:
        message = f"{NULL_FOUND} {not_null_violation(column.name, table.full_name).message}"
        value = F.coalesce(value, F.raise_error(F.lit(message)).cast(data_type))
    return value.alias(column.name, metadata={FIELD_ID: column.field_id})


def _stored(column: Column) -> DataType:
    """The type of a column with the field ids of its fields."""
    if column.type == "struct":
        fields = [
            StructField(child.name, _stored(child), metadata={FIELD_ID: child.field_id}) for child in column.children
        ]
        return StructType(fields)
    if column.type == "list":
        return ArrayType(_stored(column.children[0]))
    if column.type == "map":
        return MapType(_stored(column.children[0]), _stored(column.children[1]))
    return spark_type(column)


def in_order(value: SparkColumn, source: DataType, target: DataType) -> SparkColumn:
    """The value with the fields of its structs, in another order; decimals that a DOUBLE holds, as such."""
    if _is_in_order(source, target):
        return value
    if isinstance(source, DecimalType):
        cast = value.cast(target)
        message = F.lit(f"{REFUSED_VALUE} a DECIMAL has values that DOUBLE would round")
        return F.when(cast.try_cast(source).eqNullSafe(value), cast).otherwise(F.raise_error(message).cast(target))
    if isinstance(source, StructType) and isinstance(target, StructType):
        source_fields = {folded(field.name): field for field in source.fields}
        fields = []
        for field in target.fields:
            same = source_fields[folded(field.name)]
            fields.append(in_order(value.getField(same.name), same.dataType, field.dataType).alias(field.name))
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        items = source.elementType, target.elementType
        return F.transform(value, lambda item: in_order(item, *items))
    if isinstance(source, MapType) and isinstance(target, MapType):
        keys, values = (source.keyType, target.keyType), (source.valueType, target.valueType)
        if not _is_in_order(*keys):
            value = F.transform_keys(value, lambda key, _: in_order(key, *keys))
        if not _is_in_order(*values):
            value = F.transform_values(value, lambda _, item: in_order(item, *values))
    return value


def _is_in_order(source: DataType, target: DataType) -> bool:
    if isinstance(source, StructType) and isinstance(target, StructType):
        names = [[folded(name) for name in type_.fieldNames()] for type_ in (source, target)]
        pairs = zip(source.fields, target.fields, strict=False)
        return names[0] == names[1] and all(_is_in_order(left.dataType, right.dataType) for left, right in pairs)
    if isinstance(source, ArrayType) and isinstance(target, ArrayType):
        return _is_in_order(source.elementType, target.elementType)
    if isinstance(source, MapType) and isinstance(target, MapType):
        return _is_in_order(source.keyType, target.keyType) and _is_in_order(source.valueType, target.valueType)
    return not (isinstance(source, DecimalType) and isinstance(target, DoubleType))


def without_placeholders(value: SparkColumn, data_type: DataType, name: str) -> SparkColumn:
    """The value; a string in it that DuckLake would replace fails the job."""
    holds = _holds(value, data_type)
    if holds is None:
        return value
    return F.when(holds, F.raise_error(F.lit(placeholder_message(name)))).otherwise(value)


def _holds(value: SparkColumn, data_type: DataType) -> SparkColumn | None:
    """The condition that a value contains such a string at any depth; None if its type has no string."""
    if isinstance(data_type, (StringType, BinaryType)):
        text = value if data_type == StringType() else value.cast("string")
        return text.contains("{") & text.rlike(PLACEHOLDER)
    if isinstance(data_type, StructType):
        parts = [_holds(value.getField(field.name), field.dataType) for field in data_type.fields]
    elif isinstance(data_type, ArrayType):
        parts = [_any(value, data_type.elementType)]
    elif isinstance(data_type, MapType):
        parts = [_any(F.map_keys(value), data_type.keyType), _any(F.map_values(value), data_type.valueType)]
    else:
        return None
    conditions = [F.coalesce(part, F.expr(_NO)) for part in parts if part is not None]
    if not conditions:
        return None
    holds = conditions[0]
    for condition in conditions[1:]:
        holds = holds | condition
    return holds


def _any(values: SparkColumn, element: DataType) -> SparkColumn | None:
    """The condition that an element of a list contains such a string; None if its type has no string."""
    if _holds(F.lit(None), element) is None:
        return None

    def condition(value: SparkColumn) -> SparkColumn:
        holds = _holds(value, element)
        return F.expr(_NO) if holds is None else F.coalesce(holds, F.expr(_NO))

    return F.exists(values, condition)
