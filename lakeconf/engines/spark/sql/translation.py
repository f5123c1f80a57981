"""Translates a bound query to Spark's SQL. Each kind of expression must be listed here; all others are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql import aggregates
from lakeconf.engines.spark.sql.aggregates import translated_aggregate
from lakeconf.engines.spark.sql.allowed_parts import check
from lakeconf.engines.spark.sql.arithmetic import (
    translated_arithmetic,
    translated_division,
    translated_integer_division,
    translated_modulo,
    translated_negation,
    translated_round,
)
from lakeconf.engines.spark.sql.bound_query import BoundQuery
from lakeconf.engines.spark.sql.casts import translated_cast
from lakeconf.engines.spark.sql.coercion import cast, coerced, comparable, refused
from lakeconf.engines.spark.sql.functions import FUNCTIONS
from lakeconf.engines.spark.sql.grand_totals import keep_grand_total
from lakeconf.engines.spark.sql.intervals import translated_interval
from lakeconf.engines.spark.sql.parentheses import with_parentheses
from lakeconf.engines.spark.sql.qualify import without_qualify
from lakeconf.engines.spark.sql.typed_tree import WRAPPERS, column_types, is_branch, set_type, type_of
from lakeconf.engines.spark.sql.value_types import BOOLEAN, DOUBLE, FLOATS, VARCHAR, call, value_type

_Rule = Callable[[exp.Expr], exp.Expr]


def translated(query: BoundQuery) -> str:
    """Returns the query in Spark's SQL. Its columns have DuckDB's types.

    Raises:
        UnsupportedError: A part of the query may have another result in Spark.
    """
    return _text(_translated(query))


def translated_condition(query: BoundQuery) -> str:
    """Returns the WHERE of a query in Spark's SQL.

    Raises:
        UnsupportedError: A part of the query may have another result in Spark.
    """
    return _text(_translated(query).args["where"].this)


def _text(tree: exp.Expr) -> str:
    return tree.sql(dialect="spark", identify=True, comments=False)


def _translated(query: BoundQuery) -> exp.Expr:
    tree = query.tree.copy()
    nodes = list(tree.dfs())
    for node in nodes:
        check(node)
    for select in list(tree.find_all(exp.Select)):
        if select.args.get("distinct"):
            _order_by_columns(select)
        if select.args.get("group"):
            _without_empty_groups(select)
            keep_grand_total(select)
    nodes = list(tree.dfs())
    for node in reversed(nodes):
        rule = _rule(node)
        if rule is not None:
            made = rule(node)
            if made is not node:
                node.replace(set_type(made, type_of(node).name))
    return without_qualify(with_parentheses(tree))


def _order_by_columns(select: exp.Select) -> None:
    """Orders distinct rows by the names of their columns: Spark does not find the columns that these are made of."""
    order = select.args.get("order")
    for key in () if order is None else order.expressions:
        for item in select.expressions:
            if item.unalias().unnest() == key.this.unnest():
                column = exp.column(item.alias_or_name, quoted=True)
                key.this.replace(set_type(column, type_of(key.this).name))
                break


def _without_empty_groups(select: exp.Select) -> None:
    """Removes a GROUP BY ALL that groups by nothing: DuckDB does not group by constants, Spark does."""
    if select.args["group"].args.get("all"):
        if any(item.find(exp.Query) for item in select.expressions):
            raise refused(select.args["group"], "with a subquery")
        found = [item for item in select.expressions if not item.find(*aggregates.AGGREGATES)]
        if not any(item.find(exp.Column) for item in found):
            select.set("group", None)


def _rule(node: exp.Expr) -> _Rule | None:
    kind = type(node)
    if isinstance(node, (*aggregates.AGGREGATES, *WRAPPERS)):
        inner = isinstance(node.parent, WRAPPERS) and node.arg_key == "this"
        return None if inner else translated_aggregate
    if is_branch(node):
        return None
    return _RULES.get(kind) or FUNCTIONS.get(kind)


def _literal(node: exp.Expr) -> exp.Expr:
    found = type_of(node)
    if found.name == VARCHAR or found.name in ("INTEGER", "BIGINT"):
        return node
    if found.name == DOUBLE and math.isfinite(float(node.name)):
        return exp.Literal.number(f"{float(node.name)!r}D")
    if found.is_decimal:
        return cast(exp.Literal.number(f"{node.name}BD"), found)
    raise refused(node)


def _connective(node: exp.Expr) -> exp.Expr:
    wanted = value_type(BOOLEAN)
    parts = {name: coerced(part.copy(), wanted) for name, part in node.args.items() if isinstance(part, exp.Expr)}
    return type(node)(**parts)


def _comparison(node: exp.Expr) -> exp.Expr:
    equality = isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ)
    one, other = comparable(node.this.copy(), node.expression.copy(), for_equality=equality)
    return type(node)(this=one, expression=other)


def _between(node: exp.Expr) -> exp.Expr:
    value, types = node.this, {type_of(node.args[name]).name for name in ("this", "low", "high")}
    if types & set(FLOATS):
        # DuckDB converts all three to one type: a limit can make the others inexact.
        common = value_type(DOUBLE if DOUBLE in types else "FLOAT")
        return exp.Between(**{name: coerced(node.args[name].copy(), common) for name in ("this", "low", "high")})
    low = comparable(value.copy(), node.args["low"].copy())
    high = comparable(value.copy(), node.args["high"].copy())
    if low[0] == high[0]:
        return exp.Between(this=low[0], low=low[1], high=high[1])
    return exp.paren(exp.and_(exp.GTE(this=low[0], expression=low[1]), exp.LTE(this=high[0], expression=high[1])))


def _one_of(node: exp.Expr) -> exp.Expr:
    query = node.args.get("query")
    if query is not None:
        found, *others = column_types(query.unnest())
        if others:
            raise refused(node)
        column = set_type(exp.column("x"), found)
        if comparable(node.this, column) != (node.this, column):
            raise refused(node)
        return node
    pairs = [comparable(node.this.copy(), item.copy()) for item in node.expressions]
    if any(one != pairs[0][0] for one, _ in pairs):
        raise refused(node)
    return exp.In(this=pairs[0][0], expressions=[item for _, item in pairs])


def _is(node: exp.Expr) -> exp.Expr:
    if isinstance(node.expression, exp.Null):
        return node
    if not isinstance(node.expression, exp.Boolean) or type_of(node.this).name != BOOLEAN:
        raise refused(node)
    return node


def _grouping(node: exp.Expr) -> exp.Expr:
    if len(node.expressions) != 1:
        raise refused(node)
    return cast(call("grouping", node.expressions[0].copy()), type_of(node))


def _combined(node: exp.Expr) -> exp.Expr:
    """Casts the columns of both sides of a set operation to their common types."""
    wanted = column_types(node)
    for side in (node.this.unnest(), node.expression.unnest()):
        found = column_types(side)
        if found == wanted:
            continue
        if not isinstance(side, exp.Select):
            raise refused(node, "its sides have other types")
        for item, before, after in zip(list(side.expressions), found, wanted, strict=True):
            if before != after:
                value = set_type(item.unalias().copy(), before)
                item.replace(exp.alias_(coerced(value, value_type(after)), item.alias_or_name, quoted=True))
    return node


def _constants(node: exp.Expr) -> exp.Expr:
    """Casts the constants of VALUES to the types of their columns."""
    for row in node.expressions:
        for value, wanted in zip(list(row.expressions), column_types(node), strict=True):
            value.replace(coerced(value.copy(), value_type(wanted)))
    return node


_RULES: Mapping[type[exp.Expr], _Rule] = {
    exp.Literal: _literal,
    exp.And: _connective,
    exp.Or: _connective,
    exp.Not: _connective,
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), _comparison),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ), _comparison),
    exp.Between: _between,
    exp.In: _one_of,
    exp.Is: _is,
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), translated_arithmetic),
    exp.Div: translated_division,
    exp.Mod: translated_modulo,
    exp.IntDiv: translated_integer_division,
    exp.Interval: translated_interval,
    exp.Neg: translated_negation,
    exp.Round: translated_round,
    exp.Cast: translated_cast,
    exp.TryCast: translated_cast,
    exp.Values: _constants,
    exp.Grouping: _grouping,
    **dict.fromkeys((exp.Union, exp.Except, exp.Intersect), _combined),
}
