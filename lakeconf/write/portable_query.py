"""Finds the queries whose rows are the same on DuckDB and, translated, on Spark.

Many expressions return other values on Spark: a cast to an integer truncates, sums wrap or lose digits, `LIKE` knows a
backslash, and `*` of a join with USING has another order. So every part of a query must be listed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

# The parts of each kind of expression whose meaning is the same on both.
_PARTS: Mapping[type[exp.Expr], frozenset[str]] = {
    kind: frozenset(parts.split())
    for kind, parts in {
        exp.Select: "expressions from_ joins where group having distinct with_ order operation_modifiers",
        exp.Union: "this expression distinct with_",
        exp.Except: "this expression distinct with_",
        exp.Intersect: "this expression distinct with_",
        exp.With: "expressions",
        exp.CTE: "this alias",
        exp.Subquery: "this alias",
        exp.TableAlias: "this columns",
        exp.From: "this",
        exp.Join: "this on kind side",
        exp.Where: "this",
        exp.Group: "expressions",
        exp.Having: "this",
        exp.Order: "expressions",
        exp.Ordered: "this desc nulls_first",
        exp.Distinct: "",
        exp.Table: "this db catalog alias",
        exp.Identifier: "this quoted",
        exp.Column: "this table",
        exp.Star: "",
        exp.Alias: "this alias",
        exp.Literal: "this is_string",
        exp.Null: "",
        exp.Boolean: "this",
        exp.Neg: "this",
        exp.Paren: "this",
        exp.And: "this expression",
        exp.Or: "this expression",
        exp.Not: "this",
        exp.EQ: "this expression",
        exp.NEQ: "this expression",
        exp.LT: "this expression",
        exp.LTE: "this expression",
        exp.GT: "this expression",
        exp.GTE: "this expression",
        exp.Between: "this low high",
        exp.In: "this expressions query",
        exp.Is: "this expression",
        exp.Exists: "this",
        exp.Case: "ifs default",
        exp.If: "this true",
        exp.Coalesce: "this expressions",
        exp.Count: "this big_int",
        exp.Min: "this",
        exp.Max: "this",
        exp.Cast: "this to",
        exp.DataType: "this nested",
    }.items()
}
_NUMBER, _DATE = re.compile(r"\d+(\.\d+)?"), re.compile(r"\d{4}-\d\d-\d\d")


def is_portable(query: exp.Expr) -> bool:
    """True if a query returns the same rows on DuckDB and on Spark."""
    return all(map(_is_portable, query.walk()))


def _is_portable(node: exp.Expr) -> bool:
    parts = _PARTS.get(type(node))
    if parts is None or any(part not in parts for part, value in node.args.items() if value):
        return False
    check = _CHECKS.get(type(node))
    return check is None or check(node)


def _literal(node: exp.Expr) -> bool:
    return "\\" not in node.name if node.args["is_string"] else _NUMBER.fullmatch(node.name) is not None


def _join(node: exp.Expr) -> bool:
    return node.args.get("kind", "") in ("", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")


def _cast(node: exp.Expr) -> bool:
    """Only a date such as DATE '2024-03-01'."""
    is_date = isinstance(node.this, exp.Literal) and _DATE.fullmatch(node.this.name) is not None
    return is_date and node.args["to"].this == exp.DType.DATE


def _operands(node: exp.Expr) -> bool:
    """DuckDB and sqlglot read `a = b IS NOT NULL` in different ways, unless there are parentheses."""
    return not any(isinstance(part, (*_COMPARISONS, exp.Not)) for part in node.iter_expressions())


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Is, exp.Between, exp.In)
_CHECKS: Mapping[type[exp.Expr], Callable[[exp.Expr], bool]] = {
    exp.Literal: _literal,
    exp.Join: _join,
    exp.Cast: _cast,
    **dict.fromkeys(_COMPARISONS, _operands),
}
