"""Columns of PySpark as expressions of narwhals, which conditions and values are: those that mean the same in both."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import narwhals as nw

from lakeconf.catalog.pruning.where import Where
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    import pyspark.sql

SparkColumn: TypeAlias = "pyspark.sql.Column"
Condition: TypeAlias = "Where | SparkColumn"
_HINT = "write it as an expression of narwhals, such as nw.col('price') / 2, or a condition as a SQL string"
# The functions of Spark that compute the same as those of narwhals, for all values.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "not": operator.invert,
    "!": operator.invert,
    "negative": operator.neg,
    "isnull": lambda value: value.is_null(),
    "isnotnull": lambda value: ~value.is_null(),
    "isnan": lambda value: value.is_nan(),
    "in": lambda value, *values: value.is_in(values),
    "startswith": lambda value, prefix: value.str.starts_with(prefix),
    "coalesce": lambda *values: nw.coalesce(*map(_expression, values)),
}


def as_narwhals(value: Any) -> Any:
    """Converts a column of PySpark, and returns every other value as it is.

    Raises:
        UnsupportedError: The column uses a function that narwhals lacks, or that may return something else there.
    """
    pyspark = sys.modules.get("pyspark.sql")
    if pyspark is None or not isinstance(value, pyspark.Column):
        return value
    from lakeconf.engines.spark.internals import Call, column_tree

    def converted(node: Any) -> Any:
        if not isinstance(node, Call):
            return node  # a constant
        if node.function == "column":
            return reduce(lambda outer, field: outer.struct.field(field), node.operands[1:], nw.col(node.operands[0]))
        operands = [converted(operand) for operand in node.operands]
        if node.function == "case":
            return _case(operands)
        function = _FUNCTIONS.get(node.function.lower())
        if function is None or not any(isinstance(operand, nw.Expr) for operand in operands):
            raise UnsupportedError(f"lakeconf cannot convert Spark's {node.function}", hint=_HINT)
        return function(*operands)

    return converted(column_tree(value))


def _case(operands: list[Any]) -> Any:
    """The value of `when(…).otherwise(…)`: pairs of conditions and values, and the other value."""
    *pairs, other = operands
    for start in range(len(pairs) - 2, -1, -2):
        other = nw.when(pairs[start]).then(_expression(pairs[start + 1])).otherwise(_expression(other))
    return other


def _expression(value: Any) -> nw.Expr:
    return value if isinstance(value, nw.Expr) else nw.lit(value)
