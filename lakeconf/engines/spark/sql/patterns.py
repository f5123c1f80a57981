"""LIKE, and regular expressions that RE2, which DuckDB uses, and Java read in the same way."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from lakeconf.engines.spark.sql.case_mapping import lower
from lakeconf.engines.spark.sql.coercion import refused
from lakeconf.engines.spark.sql.text_functions import constant_text, only_text
from lakeconf.engines.spark.sql.typed_tree import type_of
from lakeconf.engines.spark.sql.value_types import call

_ESCAPED = r"\\[.\\+*?()\[\]{}|^$/-]"
_ITEM = rf"(?:[A-Za-z0-9]-[A-Za-z0-9]|[A-Za-z0-9 _.,:;@#%/+=]|\\[dw]|{_ESCAPED})"
_TOKEN = re.compile(
    rf"(?P<atom>[A-Za-z0-9 _,:;@#%&=<>!~\"'/`-]|{_ESCAPED}|\\[dw]|\.|\[\^?-?{_ITEM}+-?\])"
    r"(?P<many>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})\??)?"
    r"|(?P<sign>\((?:\?:)?|[)|^$])"
)
# What is before `^` and after `$`.
_BEFORE_START, _AFTER_END = ("", "(", "(?:", "|"), ("", ")", "|")


def _like(node: exp.Expr) -> exp.Expr:
    return _matched(node, only_text(node.this), constant_text(node.expression))


def _like_in_any_case(node: exp.Expr) -> exp.Expr:
    pattern = constant_text(node.expression)
    if not pattern.isascii():
        raise refused(node, "its pattern has other characters than those of ASCII")
    return _matched(node, lower(only_text(node.this)), pattern.lower())


def _matched(node: exp.Expr, text: exp.Expr, pattern: str) -> exp.Expr:
    like: exp.Expr = exp.Like(this=text, expression=exp.Literal.string(pattern))
    if "\\" in pattern:
        # Spark escapes with a backslash, DuckDB with nothing.
        unused = next(one for one in map(chr, range(1, 128)) if one not in pattern and one not in "%_\\")
        like = exp.Escape(this=like, expression=exp.Literal.string(unused))
    return exp.Not(this=exp.paren(like)) if node.args.get("negate") else exp.paren(like)


def _found(node: exp.Expr) -> exp.Expr:
    return call("regexp_like", only_text(node.this), exp.Literal.string(_java(node)[0]))


def _found_whole(node: exp.Expr) -> exp.Expr:
    return call("regexp_like", only_text(node.this), exp.Literal.string(rf"\A(?:{_java(node)[0]})\z"))


def _extracted(node: exp.Expr) -> exp.Expr:
    group = node.args.get("group") or exp.Literal.number(0)
    if type_of(node).name != "VARCHAR" or not isinstance(group, exp.Literal) or not group.name.isdigit():
        raise refused(node, "its group is not a number")
    pattern, _, groups = _java(node)
    if int(group.name) > groups:
        raise refused(node, "there is no such group")
    return call("regexp_extract", only_text(node.this), exp.Literal.string(pattern), group.copy())


def _replaced(node: exp.Expr) -> exp.Expr:
    modifiers = node.args.get("modifiers")
    if modifiers is None or constant_text(modifiers) != "g":
        raise refused(node, "only the option 'g' is translated")
    pattern, least, _ = _java(node)
    replacement = node.args["replacement"]
    if least == 0 or re.search(r"[\\$]", constant_text(replacement)):
        raise refused(node, "its pattern matches the empty text, or the replacement has \\ or $")
    return call("regexp_replace", only_text(node.this), exp.Literal.string(pattern), replacement.copy())


def _java(node: exp.Expr) -> tuple[str, int, int]:
    """The pattern of a function for Java, the length of its shortest match, and the number of its groups.

    Raises:
        UnsupportedError: Java may read it in another way.
    """
    pattern = constant_text(node.expression)
    written, place, groups = "", 0, 0
    # The shortest matches of the branches so far and of the current one, in each open group.
    open_groups: list[tuple[list[int], int]] = []
    branches, least = list[int](), 0
    sign: str | None = ""
    while place < len(pattern):
        token = _TOKEN.match(pattern, place)
        if token is None:
            raise refused(node, f"Java may read the pattern in another way from character {place + 1}")
        last, place, sign = sign, token.end(), token["sign"]
        if sign is None:
            written += ("[^\\n]" if token["atom"] == "." else token["atom"]) + (token["many"] or "")
            least += _is_needed(token["many"])
            continue
        # DuckDB finds `$a` where there is `a`.
        if (sign == "^" and last not in _BEFORE_START) or (
            sign == "$" and pattern[place : place + 1] not in _AFTER_END
        ):
            raise refused(node, f"its {sign} is not at the start or the end")
        written += {"^": r"\A", "$": r"\z"}.get(sign, sign)
        if sign.startswith("("):
            groups += sign == "("
            open_groups.append((branches, least))
            branches, least = [], 0
        elif sign == "|":
            branches, least = [*branches, least], 0
        elif sign == ")":
            if not open_groups or pattern[place : place + 1] in ("*", "+", "?", "{"):
                raise refused(node, "it repeats a group")
            inner = min([*branches, least])
            branches, least = open_groups.pop()
            least += inner
    if open_groups or not pattern:
        raise refused(node, "its pattern is not complete")
    return written, min([*branches, least]), groups


def _is_needed(many: str | None) -> bool:
    return not (many or "1").startswith(("*", "?", "{0"))


PATTERNS: Mapping[type[exp.Expr], Callable[[exp.Expr], exp.Expr]] = {
    exp.Like: _like,
    exp.ILike: _like_in_any_case,
    exp.RegexpLike: _found,
    exp.RegexpFullMatch: _found_whole,
    exp.RegexpExtract: _extracted,
    exp.RegexpReplace: _replaced,
}
