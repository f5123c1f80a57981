"""Aggregate and window functions: DuckDB's types of results, and averages of exact sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import cast, coerced, refused
from lakeconf.engines.spark.sql.typed_tree import WRAPPERS, type_of
from lakeconf.engines.spark.sql.value_types import DOUBLE, FLOATS, call, value_type

# Adds FILTER and OVER to an aggregate.
_Around = Callable[[exp.Expr], exp.Expr]


def translated_aggregate(node: exp.Expr) -> exp.Expr:
    """Translates an aggregate or window function, with its FILTER and OVER.

    Args:
        node: The outermost of OVER, FILTER and the function. Its arguments are already translated.

    Raises:
        UnsupportedError: The result may differ.
    """
    wrappers, function = [], node
    while isinstance(function, WRAPPERS):
        wrappers.append(function)
        function = function.this

    def around(found: exp.Expr) -> exp.Expr:
        for wrapper in reversed(wrappers):
            parts = {name: _copied(value) for name, value in wrapper.args.items() if name != "this"}
            found = type(wrapper)(this=found, **parts)
        return found

    name, translate = _TRANSLATIONS[type(function)]
    return cast(translate(function, name, around), type_of(function))


def _copied(value: Any) -> Any:
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value.copy() if isinstance(value, exp.Expr) else value


def _rank(_node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    return around(call(name))


def _buckets(node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    if not isinstance(node.this, exp.Literal) or not node.this.name.isdigit():
        raise refused(node)
    return around(call(name, exp.Literal.number(node.this.name)))


def _argument(node: exp.Expr) -> exp.Expr:
    """The single argument of an aggregate, without DISTINCT."""
    argument: exp.Expr = node.this
    if not isinstance(argument, exp.Distinct):
        return argument
    if len(argument.expressions) != 1:
        raise refused(node)
    only: exp.Expr = argument.expressions[0]
    return only


def _called(node: exp.Expr, name: str, argument: exp.Expr) -> exp.Expr:
    if isinstance(node.this, exp.Distinct):
        return call(name, exp.Distinct(expressions=[argument]))
    return call(name, argument)


def _count(node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    if isinstance(node.this, exp.Star) or node.this is None:
        return around(call(name, exp.Star()))
    argument = _argument(node)
    if isinstance(node.this, exp.Distinct) and not type_of(argument).is_known:
        raise refused(node)
    return around(_called(node, name, argument.copy()))


def _sum(node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    argument = _argument(node)
    if not type_of(argument).is_number:
        raise refused(node)
    return around(_called(node, name, argument.copy()))


def _average(node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    argument = _argument(node)
    if type_of(argument).name in FLOATS:
        return around(_called(node, name, argument.copy()))
    # DuckDB divides the exact sum.
    count = call("nullif", around(_called(node, "count", argument.copy())), exp.Literal.number(0))
    return exp.paren(exp.Div(this=cast(_sum(node, "sum", around), value_type(DOUBLE)), expression=count))


def _statistic(node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    argument = _argument(node)
    if not type_of(argument).is_number:
        raise refused(node)
    return around(_called(node, name, cast(argument.copy(), value_type(DOUBLE))))


def _extreme(node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    argument = _argument(node)
    if not type_of(argument).is_known:
        raise refused(node)
    return around(_called(node, name, coerced(argument.copy(), type_of(node))))


def _offset(node: exp.Expr, name: str, around: _Around) -> exp.Expr:
    arguments = [coerced(node.this.copy(), type_of(node))]
    offset, default = node.args.get("offset"), node.args.get("default")
    if offset is not None:
        if not isinstance(offset, exp.Literal):
            raise refused(node)
        arguments.append(exp.Literal.number(offset.name))
    if default is not None:
        arguments.append(coerced(default.copy(), type_of(node)))
    return around(call(name, *arguments))


_TRANSLATIONS: dict[type[exp.Expr], tuple[str, Callable[[exp.Expr, str, _Around], exp.Expr]]] = {
    exp.Count: ("count", _count),
    exp.Sum: ("sum", _sum),
    exp.Avg: ("avg", _average),
    exp.RowNumber: ("row_number", _rank),
    exp.Rank: ("rank", _rank),
    exp.DenseRank: ("dense_rank", _rank),
    exp.PercentRank: ("percent_rank", _rank),
    exp.CumeDist: ("cume_dist", _rank),
    exp.Ntile: ("ntile", _buckets),
    exp.StddevSamp: ("stddev_samp", _statistic),
    exp.Stddev: ("stddev_samp", _statistic),
    exp.StddevPop: ("stddev_pop", _statistic),
    exp.Variance: ("var_samp", _statistic),
    exp.VariancePop: ("var_pop", _statistic),
    exp.Min: ("min", _extreme),
    exp.Max: ("max", _extreme),
    exp.LogicalAnd: ("bool_and", _extreme),
    exp.LogicalOr: ("bool_or", _extreme),
    exp.FirstValue: ("first_value", _extreme),
    exp.LastValue: ("last_value", _extreme),
    exp.Lag: ("lag", _offset),
    exp.Lead: ("lead", _offset),
}
AGGREGATES = tuple(_TRANSLATIONS)
