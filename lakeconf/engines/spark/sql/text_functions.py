"""Functions of text. Both engines count characters, not bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql.case_mapping import lower, upper
from lakeconf.engines.spark.sql.coercion import cast, refused
from lakeconf.engines.spark.sql.nested_values import is_list, translated_list_length
from lakeconf.engines.spark.sql.time_functions import with_four_digits
from lakeconf.engines.spark.sql.typed_tree import type_of
from lakeconf.engines.spark.sql.value_types import BOOLEAN, DATE, NULL, TIMESTAMP, VARCHAR, call, value_type

_MOST_CHARACTERS = 10_000


def as_text(node: exp.Expr) -> exp.Expr:
    """A value that DuckDB writes as text where text is expected."""
    found = type_of(node)
    if found.name == VARCHAR:
        return node.copy()
    if found.is_integer or found.name in (BOOLEAN, NULL):
        return cast(node.copy(), value_type(VARCHAR))
    if found.name in (DATE, TIMESTAMP):
        return with_four_digits(node, cast(node.copy(), value_type(VARCHAR)))
    raise refused(node, "it is not text")


def only_text(node: exp.Expr) -> exp.Expr:
    """A value that is text."""
    if type_of(node).name != VARCHAR:
        raise refused(node, "it is not text")
    return node.copy()


def constant_text(node: exp.Expr) -> str:
    """The value of a text constant.

    Raises:
        UnsupportedError: It is not a constant.
    """
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise refused(node, "it is not a constant")
    return str(node.name)


def _count(node: exp.Expr) -> exp.Expr:
    """A constant number of characters or parts."""
    if not isinstance(node, exp.Literal) or not node.name.isdigit() or int(node.name) > _MOST_CHARACTERS:
        raise refused(node, f"it is not a constant between 0 and {_MOST_CHARACTERS}")
    return node.copy()


def _substring(node: exp.Expr) -> exp.Expr:
    places = [node.args.get("start"), node.args.get("length")]
    numbers = [place for place in places if place is not None]
    if not all(isinstance(place, exp.Literal) and place.name.isdigit() for place in numbers) or not numbers:
        raise refused(node, "its positions are not constants")
    if int(numbers[0].name) < 1:
        raise refused(node, "it does not start at 1 or later")
    return call("substring", only_text(node.this), *(place.copy() for place in numbers))


def _length(node: exp.Expr) -> exp.Expr:
    if is_list(node.this):
        return translated_list_length(node)
    return cast(call("char_length", only_text(node.this)), type_of(node))


def _trim(node: exp.Expr) -> exp.Expr:
    # DuckDB removes all characters of the category Zs, Spark only spaces.
    name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or "").upper(), "btrim")
    removed = node.args.get("expression")
    blank = exp.Literal.string(SPACES) if removed is None else exp.Literal.string(constant_text(removed))
    text = only_text(node.this)
    return call(name, text, blank) if name == "btrim" else call(name, blank, text)


SPACES = " \u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u202f\u205f\u3000"


def _concatenation(node: exp.Expr) -> exp.Expr:
    empty = exp.Literal.string("")
    return call("concat", *(call("coalesce", as_text(item), empty.copy()) for item in node.expressions))


def _joined_text(node: exp.Expr) -> exp.Expr:
    return call("concat", as_text(node.this), as_text(node.expression))


def _search(name: str) -> Callable[[exp.Expr], exp.Expr]:
    return lambda node: call(name, only_text(node.this), only_text(node.expression))


def _replaced(node: exp.Expr) -> exp.Expr:
    return call("replace", *(only_text(part) for part in (node.this, node.expression, node.args["replacement"])))


def _start_of_text(node: exp.Expr) -> exp.Expr:
    return call("substring", only_text(node.this), exp.Literal.number(1), _count(node.expression))


def _end_of_text(node: exp.Expr) -> exp.Expr:
    return call("right", only_text(node.this), _count(node.expression))


def _padded(node: exp.Expr) -> exp.Expr:
    filling = node.args.get("fill_pattern")
    if filling is None or not constant_text(filling):
        raise refused(node, "it fills with no text")
    name = "lpad" if node.args.get("is_left") else "rpad"
    return call(name, only_text(node.this), _count(node.expression), filling.copy())


def _repeated(node: exp.Expr) -> exp.Expr:
    return call("repeat", only_text(node.this), _count(node.args["times"]))


def _part(node: exp.Expr) -> exp.Expr:
    delimiter, number = node.args["delimiter"], _count(node.args["part_index"])
    if not constant_text(delimiter) or number.name == "0":
        raise refused(node)
    return call("split_part", only_text(node.this), delimiter.copy(), number)


def _position(node: exp.Expr) -> exp.Expr:
    return cast(call("instr", only_text(node.this), only_text(node.args["substr"])), type_of(node))


def _with_separator(node: exp.Expr) -> exp.Expr:
    separator, *items = node.expressions
    return call("concat_ws", only_text(separator), *map(as_text, items))


TEXT_FUNCTIONS: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Substring: _substring,
    exp.Left: _start_of_text,
    exp.Right: _end_of_text,
    exp.Length: _length,
    exp.Trim: _trim,
    exp.Pad: _padded,
    exp.Repeat: _repeated,
    exp.SplitPart: _part,
    exp.StrPosition: _position,
    exp.Concat: _concatenation,
    exp.ConcatWs: _with_separator,
    exp.DPipe: _joined_text,
    exp.Upper: lambda node: upper(only_text(node.this)),
    exp.Lower: lambda node: lower(only_text(node.this)),
    exp.StartsWith: _search("startswith"),
    exp.EndsWith: _search("endswith"),
    exp.Contains: _search("contains"),
    exp.Replace: _replaced,
}
