"""Refuses, on the executors, text that DuckLake would replace in the statistics of files."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - its usual name
from pyspark.sql.types import ArrayType, BinaryType, DataType, MapType, StringType, StructType

from lakeconf.ducklake import PLACEHOLDER
from lakeconf.engines.exact_casts import placeholder_message

_NO = "false"


def without_placeholders(value: Column, found: DataType, name: str) -> Column:
    """The value; a text in it that DuckLake would replace fails the job.

    Args:
        value: The value.
        found: The type of the value.
        name: The column's name, for the message.
    """
    holds = _holds(value, found)
    if holds is None:
        return value
    return F.when(holds, F.raise_error(F.lit(placeholder_message(name))).cast(found)).otherwise(value)


def _holds(value: Column, found: DataType) -> Column | None:
    """The condition that a value contains such a text at any depth; None if its type has no text."""
    if isinstance(found, (StringType, BinaryType)):
        text = value.cast("string")
        return text.contains("{") & text.rlike(PLACEHOLDER)
    if isinstance(found, StructType):
        parts = [_holds(value.getField(field.name), field.dataType) for field in found.fields]
    elif isinstance(found, ArrayType):
        parts = [_any(value, found.elementType)]
    elif isinstance(found, MapType):
        parts = [_any(F.map_keys(value), found.keyType), _any(F.map_values(value), found.valueType)]
    else:
        return None
    conditions = [F.coalesce(part, F.expr(_NO)) for part in parts if part is not None]
    if not conditions:
        return None
    holds = conditions[0]
    for condition in conditions[1:]:
        holds = holds | condition
    return holds


def _any(values: Column, element: DataType) -> Column | None:
    """The condition that an element of a list contains such a text; None if its type has no text."""
    if _holds(F.lit(None), element) is None:
        return None

    def condition(value: Column) -> Column:
        found = _holds(value, element)
        return F.expr(_NO) if found is None else F.coalesce(found, F.expr(_NO))

    return F.exists(values, condition)
