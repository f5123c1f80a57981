"""Parentheses around operands: the two engines and sqlglot give operators other precedences."""

from __future__ import annotations

from sqlglot import exp

_OPERATORS = (exp.Binary, exp.Unary, exp.Between, exp.In)


def with_parentheses(tree: exp.Query) -> exp.Query:
    """Returns a copy in which each operand that is an operation is in parentheses.

    The text of `a = b IS NULL` can be the same for two trees. With parentheses it is not.
    """
    copy = tree.copy()
    for node in list(copy.dfs()):
        if _needs_parentheses(node):
            node.replace(exp.paren(node, copy=True))
    return copy


def _needs_parentheses(node: exp.Expr) -> bool:
    parent = node.parent
    if not isinstance(node, _OPERATORS) or isinstance(node, exp.Paren):
        return False
    if not isinstance(parent, _OPERATORS) or isinstance(parent, exp.Paren):
        return False
    if isinstance(parent, exp.Escape) or (isinstance(parent, exp.In) and node.arg_key != "this"):
        return False
    # AND and OR bind less than all others. DuckDB's plan has one list for `a AND b AND c`.
    return not isinstance(parent, exp.And | exp.Or) or (
        isinstance(node, exp.And | exp.Or) and type(node) is not type(parent)
    )
