"""The parts of queries that are translated. All others are refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql import aggregates
from lakeconf.engines.spark.sql.coercion import refused
from lakeconf.engines.spark.sql.functions import FUNCTIONS
from lakeconf.engines.spark.sql.qualify import check_qualify
from lakeconf.engines.spark.sql.typed_tree import columns_of, outermost, type_of
from lakeconf.engines.spark.sql.value_types import BOOLEAN, value_type

# The parts of each kind of expression that are translated.
_WRITTEN: dict[type[exp.Expr], str] = {
    exp.Select: "expressions from_ joins where group having distinct with_ order limit offset qualify",
    exp.Qualify: "this",
    exp.Values: "expressions alias",
    exp.Union: "this expression distinct with_ order limit offset",
    exp.Except: "this expression distinct with_ order limit offset",
    exp.Intersect: "this expression distinct with_ order limit offset",
    exp.With: "expressions",
    exp.CTE: "this alias",
    exp.Subquery: "this alias",
    exp.TableAlias: "this columns",
    exp.From: "this",
    exp.Join: "this on kind side",
    exp.Where: "this",
    exp.Group: "expressions rollup cube grouping_sets all",
    exp.Rollup: "expressions",
    exp.Cube: "expressions",
    exp.GroupingSets: "expressions",
    exp.Tuple: "expressions",
    exp.Having: "this",
    exp.Order: "expressions",
    exp.Ordered: "this desc nulls_first",
    exp.Limit: "expression",
    exp.Offset: "expression",
    exp.Distinct: "expressions",
    exp.Table: "this alias",
    exp.Identifier: "this quoted",
    exp.Column: "this table",
    exp.Star: "",
    exp.Alias: "this alias",
    exp.Literal: "this is_string",
    exp.Null: "",
    exp.Boolean: "this",
    exp.Var: "this",
    exp.Paren: "this",
    exp.Neg: "this",
    exp.And: "this expression",
    exp.Or: "this expression",
    exp.Not: "this",
    **dict.fromkeys((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), "this expression"),
    **dict.fromkeys((exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is), "this expression"),
    exp.Between: "this low high",
    exp.In: "this expressions query",
    exp.Exists: "this",
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv), "this expression"),
    exp.Div: "this expression safe typed",
    exp.Interval: "this unit",
    exp.Round: "this decimals",
    exp.Cast: "this to",
    exp.TryCast: "this to safe",
    exp.DataType: "this expressions nested",
    exp.DataTypeParam: "this",
    exp.Case: "this ifs default",
    exp.If: "this true false",
    exp.Window: "this partition_by order spec over",
    exp.WindowSpec: "kind start start_side end end_side",
    exp.Filter: "this expression",
    exp.Count: "this big_int",
    exp.Lag: "this offset default",
    exp.Lead: "this offset default",
    exp.Grouping: "expressions",
    exp.Dot: "this expression",
    exp.Bracket: "this expressions offset",
    exp.StructExtract: "this expression",
    exp.Ntile: "this",
    exp.Substring: "this start length",
    exp.Trim: "this position expression",
    exp.Left: "this expression",
    exp.Right: "this expression",
    exp.Pad: "this expression fill_pattern is_left",
    exp.Repeat: "this times",
    exp.SplitPart: "this delimiter part_index",
    exp.StrPosition: "this substr",
    exp.ConcatWs: "expressions safe coalesce",
    exp.EndsWith: "this expression",
    exp.ILike: "this expression negate",
    exp.RegexpLike: "this expression",
    exp.RegexpFullMatch: "this expression",
    exp.RegexpExtract: "this expression group null_if_pos_overflow",
    exp.RegexpReplace: "this expression replacement modifiers single_replace",
    exp.Concat: "expressions safe coalesce",
    exp.DPipe: "this expression safe",
    exp.Like: "this expression negate",
    exp.StartsWith: "this expression",
    exp.Contains: "this expression",
    exp.Replace: "this expression replacement",
    exp.Extract: "this expression",
    exp.DateTrunc: "this unit",
    exp.TimestampTrunc: "this unit",
    exp.DateDiff: "this expression unit",
    exp.TimeToStr: "this format",
    exp.Coalesce: "this expressions",
    exp.Greatest: "this expressions ignore_nulls",
    exp.Least: "this expressions ignore_nulls",
    exp.Nullif: "this expression",
}
_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {kind: frozenset(parts.split()) for kind, parts in _WRITTEN.items()}
_ONE_ARGUMENT = frozenset(("this",))
_WHOLE = re.compile(r"\d+")
_LIMIT = 2**31


def check(node: exp.Expr) -> None:
    """Checks a node of a bound query.

    Raises:
        UnsupportedError: It is not translated.
    """
    kind = type(node)
    parts = _PARTS.get(kind)
    if parts is None and (kind in FUNCTIONS or kind in aggregates.AGGREGATES):
        parts = _ONE_ARGUMENT
    if parts is None or any(part not in parts for part, value in node.args.items() if value):
        raise refused(node)
    more = _CHECKS.get(kind)
    if more is not None:
        more(node)


def _boolean(*parts: str) -> Callable[[exp.Expr], None]:
    def check(node: exp.Expr) -> None:
        for part in parts:
            value = node.args.get(part)
            if value is not None and type_of(value).name != BOOLEAN:
                raise refused(value, "it is not a BOOLEAN")

    return check


def _ordered(node: exp.Expr) -> None:
    if not type_of(node.this).is_known:
        raise refused(node.this, f"Spark may order a {type_of(node.this).name} in another way")


def _equatable(node: exp.Expr) -> None:
    """The values of GROUP BY."""
    for value in (node.this, *node.expressions):
        if isinstance(value, exp.Condition) and not isinstance(value, exp.Tuple) and not type_of(value).is_equatable:
            raise refused(value, f"Spark may compare a {type_of(value).name} in another way")


def _group(node: exp.Expr) -> None:
    _equatable(node)
    if node.args.get("all") and node.parent is not None:
        _all_equatable(node.parent)


def _distinct(node: exp.Expr) -> None:
    if isinstance(node.parent, exp.Select):
        if node.expressions:
            raise refused(node)
        _all_equatable(node.parent)


def _all_equatable(query: exp.Expr) -> None:
    for name, type_name in columns_of(query):
        if not value_type(type_name).is_equatable:
            raise refused(query, f"Spark may compare {name} in another way")


def _set_operation(node: exp.Expr) -> None:
    if not isinstance(node, exp.Union) or node.args.get("distinct"):
        _all_equatable(node)


def _number(node: exp.Expr) -> None:
    value = node.expression
    if not isinstance(value, exp.Literal) or not _WHOLE.fullmatch(value.name) or int(value.name) >= _LIMIT:
        raise refused(node, "it is not a constant")


def _join(node: exp.Expr) -> None:
    if node.args.get("kind", "") not in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI"):
        raise refused(node)
    _boolean("on")(node)


def _one_of(node: exp.Expr) -> None:
    """Spark's `IN (SELECT …)` is FALSE instead of NULL, so it must be where this makes no difference."""
    if not node.args.get("query"):
        return
    part = outermost(node, exp.Paren)
    if isinstance(part.parent, exp.Not):
        part = part.parent
    part = outermost(part, exp.Paren, exp.And, exp.Or)
    is_condition = isinstance(part.parent, exp.Where | exp.Having | exp.Join)
    if not is_condition and not (
        isinstance(part.parent, exp.If) and part.arg_key == "this" and _is_searched(part.parent)
    ):
        raise refused(node, "the subquery is not in a condition of its own")


def _is_searched(branch: exp.Expr) -> bool:
    """True for `if` and for `CASE WHEN condition`, false for `CASE value WHEN other`."""
    return branch.parent is None or not isinstance(branch.parent, exp.Case) or branch.parent.args.get("this") is None


def _partitions(node: exp.Expr) -> None:
    for value in node.args.get("partition_by") or ():
        if not type_of(value).is_equatable:
            raise refused(value)


def _frame(node: exp.Expr) -> None:
    for part in ("start", "end"):
        bound = node.args.get(part)
        is_name = bound is None or isinstance(bound, str)
        is_rows = node.args.get("kind") == "ROWS" and isinstance(bound, exp.Literal)
        if not is_name and not is_rows:
            raise refused(node)


def _qualify(node: exp.Expr) -> None:
    _boolean("this")(node)
    check_qualify(node)


_CHECKS: Mapping[type[exp.Expr], Callable[[exp.Expr], None]] = {
    exp.Where: _boolean("this"),
    exp.Having: _boolean("this"),
    exp.Qualify: _qualify,
    exp.Join: _join,
    exp.In: _one_of,
    exp.Group: _group,
    exp.Rollup: _equatable,
    exp.Cube: _equatable,
    exp.Ordered: _ordered,
    exp.Window: _partitions,
    exp.WindowSpec: _frame,
    exp.Distinct: _distinct,
    exp.Union: _set_operation,
    exp.Except: _set_operation,
    exp.Intersect: _set_operation,
    exp.Limit: _number,
    exp.Offset: _number,
}
