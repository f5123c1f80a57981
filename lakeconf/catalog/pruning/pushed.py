"""Conditions of Spark that planning understands exactly, to skip files; Spark evaluates all of them after the scan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from lakeconf.catalog.column_types import integer_bits
from lakeconf.catalog.pruning.literals import Raw, Text, compare, one_of
from lakeconf.catalog.pruning.predicates import And, IsNull, Not, Operator, Or, Predicate, StartsWith, certainly
from lakeconf.catalog.tables import Column
from lakeconf.errors import PredicateError

# A condition, a column or a literal: a list that begins with its name, as `LakeTable` describes it.
Described = Sequence[Any]
_OPERATORS: Mapping[str, Operator] = {"=": "=", "<>": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_SWAPPED: Mapping[str, Operator] = {"=": "=", "<>": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EPOCH = datetime(1970, 1, 1)
_INTEGERS = ("tinyint", "smallint", "int", "bigint")
# The Spark types of literals whose comparisons mean the same in DuckDB, by the column's type in DuckLake.
_COMPARABLE: Mapping[str, tuple[str, ...]] = {
    "boolean": ("boolean",),
    "float64": ("double",),
    "varchar": ("string",),
    "date": ("date",),
    "timestamp": ("timestamp_ntz",),
    "timestamptz": ("timestamp",),
}


def pushed_predicate(conditions: Sequence[Described], columns: Sequence[Column]) -> Predicate | None:
    """The conditions that planning understands, as one; None if it understands none."""
    understood = [predicate for predicate in _predicates(conditions, columns) if predicate is not None]
    return _all_of(understood) if understood else None


def exact_predicate(conditions: Sequence[Described], columns: Sequence[Column]) -> Predicate | None:
    """All the conditions as one; None if planning does not understand one of them."""
    predicates = list(_predicates(conditions, columns))
    understood = [predicate for predicate in predicates if predicate is not None]
    return _all_of(understood) if len(understood) == len(predicates) else None


def _predicates(conditions: Sequence[Described], columns: Sequence[Column]) -> Iterator[Predicate | None]:
    """Each condition as a predicate; None for those that planning does not understand."""
    by_name = {column.name: column for column in columns}
    for condition in conditions:
        try:
            yield _predicate(condition, by_name)
        except (PredicateError, OverflowError, KeyError):
            yield None


def _all_of(predicates: Sequence[Predicate]) -> Predicate:
    return predicates[0] if len(predicates) == 1 else And(tuple(predicates))


def _predicate(node: Described, columns: Mapping[str, Column]) -> Predicate:
    kind, *operands = node
    if kind in ("AND", "OR"):
        parts = tuple(_predicate(operand, columns) for operand in operands)
        return And(parts) if kind == "AND" else Or(parts)
    if kind == "NOT":
        return Not(_predicate(operands[0], columns))
    if kind in ("IS_NULL", "IS_NOT_NULL"):
        is_null = IsNull(_column(operands[0], columns))
        return is_null if kind == "IS_NULL" else Not(is_null)
    if kind == "<=>":  # the constant is not NULL
        return certainly(_predicate(["=", *operands], columns), value=True)
    return _comparison(kind, operands, columns)


def _comparison(kind: str, operands: Sequence[Described], columns: Mapping[str, Column]) -> Predicate:
    if kind in _OPERATORS:
        left, right = operands
        if left[0] == "column":
            return compare(_column(left, columns), _OPERATORS[kind], _constant(right, _column(left, columns)))
        return compare(_column(right, columns), _SWAPPED[kind], _constant(left, _column(right, columns)))
    if kind == "IN":
        column = _column(operands[0], columns)
        return one_of(column, [_constant(value, column) for value in operands[1:]])
    if kind == "STARTS_WITH":
        column = _column(operands[0], columns)
        text = _constant(operands[1], column)
        if isinstance(text, Text):
            return StartsWith(column, text.value)
    raise PredicateError(f"planning does not understand {kind}")


def _column(node: Described, columns: Mapping[str, Column]) -> Column:
    if node[0] != "column":
        raise PredicateError("a side of a condition is not a column")
    return columns[node[1]]


def _constant(node: Described, column: Column) -> Raw:
    if node[0] != "literal":
        raise PredicateError("a side of a condition is not a constant")
    _, spark_type, text = node
    comparable: tuple[str, ...] = _COMPARABLE.get(column.type, ())
    is_number = integer_bits(column.type) or column.type.startswith("decimal")
    if is_number and column.type not in ("int128", "uint128"):
        comparable = (*_INTEGERS, spark_type if spark_type.startswith("decimal") else "")
    if spark_type not in comparable:
        raise PredicateError(f"planning does not compare {column.type} with {spark_type}")
    if is_number:
        return Decimal(text)
    if spark_type == "boolean":
        return bool(text == "true")
    if spark_type == "double":
        return _finite(float(text))
    if spark_type == "date":
        return date(1970, 1, 1) + timedelta(days=int(text))
    if spark_type == "string":
        return Text(text)
    moment = _EPOCH + timedelta(microseconds=int(text))
    return moment.replace(tzinfo=UTC) if spark_type == "timestamp" else moment


def _finite(number: float) -> float:
    if number != number or number in (float("inf"), float("-inf")):
        raise PredicateError("planning does not compare with infinities")
    return number
