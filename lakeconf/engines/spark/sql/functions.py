"""Scalar functions: text, dates, conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql.case_mapping import lower, upper
from lakeconf.engines.spark.sql.coercion import cast, coerced, comparable, refused
from lakeconf.engines.spark.sql.typed_tree import set_type, type_of
from lakeconf.engines.spark.sql.value_types import BOOLEAN, DATE, DOUBLE, NULL, TIMESTAMP, VARCHAR, call, value_type

_PARTS_OF_TIME: dict[type[exp.Expr], str] = {
    exp.Year: "year",
    exp.Quarter: "quarter",
    exp.Month: "month",
    exp.Day: "day",
    exp.Hour: "hour",
    exp.Minute: "minute",
}
_TRUNCATED = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
# Above this number, every DOUBLE is an integer.
_INTEGERS_FROM = "4503599627370496D"


def _text(node: exp.Expr) -> exp.Expr:
    found = type_of(node)
    if found.name == VARCHAR:
        return node.copy()
    if found.is_integer or found.name in (BOOLEAN, NULL):
        return cast(node.copy(), value_type(VARCHAR))
    raise refused(node, "it is not text")


def _only_text(node: exp.Expr) -> exp.Expr:
    if type_of(node).name != VARCHAR:
        raise refused(node, "it is not text")
    return node.copy()


def _substring(node: exp.Expr) -> exp.Expr:
    places = [node.args.get("start"), node.args.get("length")]
    numbers = [place for place in places if place is not None]
    if not all(isinstance(place, exp.Literal) and place.name.isdigit() for place in numbers) or not numbers:
        raise refused(node, "its positions are not constants")
    if int(numbers[0].name) < 1:
        raise refused(node, "it does not start at 1 or later")
    return call("substring", _only_text(node.this), *(place.copy() for place in numbers))


def _length(node: exp.Expr) -> exp.Expr:
    return cast(call("char_length", _only_text(node.this)), type_of(node))


def _trim(node: exp.Expr) -> exp.Expr:
    # DuckDB removes all characters of the category Zs, Spark only spaces.
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
    blank = exp.Literal.string(SPACES)
    text = _only_text(node.this)
    return call(name, text, blank) if name == "btrim" else call(name, blank, text)


SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"


def _concatenation(node: exp.Expr) -> exp.Expr:
    empty = exp.Literal.string("")
    return call("concat", *(call("coalesce", _text(item), empty.copy()) for item in node.expressions))


def _joined_text(node: exp.Expr) -> exp.Expr:
    return call("concat", _text(node.this), _text(node.expression))


def _like(node: exp.Expr) -> exp.Expr:
    pattern = node.expression
    if not isinstance(pattern, exp.Literal) or not pattern.is_string:
        raise refused(node, "its pattern is not a constant")
    like: exp.Expr = exp.Like(this=_only_text(node.this), expression=pattern.copy())
    if "\\" in pattern.name:
        # Spark escapes with a backslash, DuckDB with nothing.
        unused = next(one for one in map(chr, range(1, 128)) if one not in pattern.name and one not in "%_\\")
        like = exp.Escape(this=like, expression=exp.Literal.string(unused))
    return exp.Not(this=exp.paren(like)) if node.args.get("negate") else exp.paren(like)


def _search(name: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: call(name, _only_text(node.this), _only_text(node.expression))


def _time(node: exp.Expr) -> exp.Expr:
    if type_of(node).name not in (DATE, TIMESTAMP):
        raise refused(node, "it is not a DATE or a TIMESTAMP")
    return node.copy()


def _part_of_time(node: exp.Expr) -> exp.Expr:
    return cast(call(_PARTS_OF_TIME[type(node)], _time(node.this)), type_of(node))


def _extracted(node: exp.Expr) -> exp.Expr:
    unit = node.this.name.lower()
    if unit not in _PARTS_OF_TIME.values():
        raise refused(node, f"the unit {unit}")
    return cast(call(unit, _time(node.expression)), type_of(node))


def _truncated(node: exp.Expr) -> exp.Expr:
    unit, wanted = node.args["unit"].name.upper(), type_of(node)
    if unit not in _TRUNCATED or wanted.name != TIMESTAMP:
        raise refused(node)
    value = cast(_time(node.this), wanted)
    return cast(call("date_trunc", exp.Literal.string(unit), value), wanted)


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


def _replaced(node: exp.Expr) -> exp.Expr:
    return call("replace", *(_only_text(part) for part in (node.this, node.expression, node.args["replacement"])))


FUNCTIONS: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Substring: _substring,
    exp.Length: _length,
    exp.Trim: _trim,
    exp.Concat: _concatenation,
    exp.DPipe: _joined_text,
    exp.Upper: lambda node: upper(_only_text(node.this)),
    exp.Lower: lambda node: lower(_only_text(node.this)),
    exp.Like: _like,
    exp.StartsWith: _search("startswith"),
    exp.Contains: _search("contains"),
    exp.Replace: _replaced,
    exp.Extract: _extracted,
    **dict.fromkeys(_PARTS_OF_TIME, _part_of_time),
    exp.DateTrunc: _truncated,
    exp.TimestampTrunc: _truncated,
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
