"""Scalar functions: those of text, time and nested values, and conditions and numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql.coercion import cast, coerced, comparable, refused
from lakeconf.engines.spark.sql.nested_values import NESTED_VALUES
from lakeconf.engines.spark.sql.patterns import PATTERNS
from lakeconf.engines.spark.sql.text_functions import TEXT_FUNCTIONS
from lakeconf.engines.spark.sql.time_functions import TIME_FUNCTIONS
from lakeconf.engines.spark.sql.typed_tree import set_type, type_of
from lakeconf.engines.spark.sql.value_types import BOOLEAN, DOUBLE, NULL, call

# Above this number, every DOUBLE is an integer.
_INTEGERS_FROM = "4503599627370496D"


def _absolute(node: exp.Expr) -> exp.Expr:
    return cast(call("abs", coerced(node.this.copy(), type_of(node))), type_of(node))


def _whole(name: str) -> Callable[[exp.Expr], exp.Expr]:
    def translated(node: exp.Expr) -> exp.Expr:
        found, wanted, value = type_of(node.this), type_of(node), node.this.copy()
        if found.is_exact:
            return cast(call(name, value), wanted)
        if found.name != DOUBLE:
            raise refused(node)
        # Spark's result is a BIGINT, in which large values and NaN do not fit.
        small = exp.LT(this=call("abs", value), expression=exp.Literal.number(_INTEGERS_FROM))
        return exp.Case(ifs=[exp.If(this=small, true=cast(call(name, value.copy()), wanted))], default=value.copy())

    return translated


def _coalesce(node: exp.Expr) -> exp.Expr:
    wanted = type_of(node)
    return call("coalesce", *(coerced(item.copy(), wanted) for item in (node.this, *node.expressions)))


def _extreme(name: str) -> Callable[[exp.Expr], exp.Expr]:
    def translated(node: exp.Expr) -> exp.Expr:
        items = [coerced(item.copy(), type_of(node)) for item in (node.this, *node.expressions)]
        return call(name, *items) if len(items) > 1 else items[0]

    return translated


def _nullif(node: exp.Expr) -> exp.Expr:
    one, other = comparable(node.this.copy(), node.expression.copy())
    null = cast(exp.Null(), type_of(node))
    value = coerced(node.this.copy(), type_of(node))
    return exp.Case(ifs=[exp.If(this=exp.EQ(this=one, expression=other), true=null)], default=value)


def _case(node: exp.Expr) -> exp.Expr:
    wanted, subject = type_of(node), node.args.get("this")
    ifs = []
    for branch in node.args["ifs"]:
        when = branch.this.copy()
        if subject is not None:
            one, other = comparable(subject.copy(), when)
            when = exp.EQ(this=one, expression=other)
        elif type_of(branch.this).name != BOOLEAN:
            raise refused(branch.this, "it is not a BOOLEAN")
        ifs.append(exp.If(this=when, true=coerced(branch.args["true"].copy(), wanted)))
    default = node.args.get("default")
    other = cast(exp.Null(), wanted) if default is None else coerced(default.copy(), wanted)
    return exp.Case(ifs=ifs, default=other)


def _if(node: exp.Expr) -> exp.Expr:
    other = node.args.get("false") or set_type(exp.Null(), NULL)
    branch = exp.If(this=node.this.copy(), true=node.args["true"].copy())
    case = exp.Case(ifs=[branch], default=other.copy())
    return _case(set_type(case, type_of(node).name))


FUNCTIONS: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    **TEXT_FUNCTIONS,
    **PATTERNS,
    **TIME_FUNCTIONS,
    **NESTED_VALUES,
    exp.Abs: _absolute,
    exp.Floor: _whole("floor"),
    exp.Ceil: _whole("ceil"),
    exp.Coalesce: _coalesce,
    exp.Greatest: _extreme("greatest"),
    exp.Least: _extreme("least"),
    exp.Nullif: _nullif,
    exp.Case: _case,
    exp.If: _if,
}
