"""Splits the text of a MERGE INTO into its parts, which keep the words of the user.

sqlglot drops some of DuckDB's syntax, such as BY NAME, and prints other expressions than it has read. So only DuckDB's
own tokens decide where a part begins and ends.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import duckdb

from lakeconf.errors import UnsupportedError
from lakeconf.sql import folded

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_OPEN, _CLOSE = frozenset({"(", "[", "{", "case"}), frozenset({")", "]", "}", "end"})

# The first words of a query, which is not a list of values.
_QUERY = frozenset({"select", "with", "from", "values", "table", "pivot", "unpivot", "describe", "show", "summarize"})


@dataclass(frozen=True)
class Token:
    """A token.

    Attributes:
        text: Its text, with the spaces and comments that follow it.
        word: Its text alone, in lower case, unless it is quoted.
        depth: The number of parentheses and CASE around it; those of a parenthesis itself do not count.
    """

    text: str
    word: str
    depth: int


@dataclass(frozen=True)
class Clause:
    """A clause of a MERGE INTO.

    Attributes:
        side: `matched`, `target` for NOT MATCHED, or `source` for NOT MATCHED BY SOURCE.
        condition: Its condition; None means always.
        kind: `update`, `delete`, `insert` or `nothing`.
        columns: The columns that it sets; None if it does not list them.
        values: The values of these columns, or those of an INSERT without columns; None if it does not list them.
        by_name: True if an INSERT matches columns by name.
        defaults: True for INSERT DEFAULT VALUES.
    """

    side: str
    condition: str | None
    kind: str
    columns: tuple[str, ...] | None = None
    values: tuple[str, ...] | None = None
    by_name: bool = False
    defaults: bool = False


@dataclass(frozen=True)
class MergeText:
    """The parts of a MERGE INTO.

    Attributes:
        with_: Its WITH clause; empty if it has none.
        target: The table, with its alias.
        source: The source, with its alias.
        join: Its ON or USING.
        clauses: Its clauses.
    """

    with_: str
    target: str
    source: str
    join: str
    clauses: tuple[Clause, ...]


def tokens(sql: str) -> list[Token]:
    """The tokens of SQL, as DuckDB reads it, without the comments before the first."""
    encoded = sql.encode()
    starts = [start for start, kind in duckdb.tokenize(sql) if kind != duckdb.token_type.comment]
    found, depth = [], 0
    for start, end in zip(starts, [*starts[1:], len(encoded)], strict=True):
        text = encoded[start:end].decode()
        word = _word(text)
        depth -= word in _CLOSE
        found.append(Token(text, word, depth))
        depth += word in _OPEN
    return found


def _word(text: str) -> str:
    if text[0] in "\"'":
        return text
    end = next((index for index, letter in enumerate(text) if letter.isspace() or letter in "-/"), len(text))
    return folded(text[:end] or text[0])


def split_merge(sql: str) -> MergeText:
    """Splits a MERGE INTO that DuckDB and sqlglot can parse.

    Raises:
        UnsupportedError: A part is not supported.
    """
    words = tokens(sql)
    if words and words[-1].word == ";":
        words.pop()
    try:
        begin = _find(words, {"merge"})
        using = _find(words, {"using"}, begin)
        starts = [
            index
            for index in range(using, len(words) - 1)
            if words[index].depth == 0 and words[index].word == "when" and words[index + 1].word in ("matched", "not")
        ]
        join = max(index for index in range(using + 1, starts[0]) if _is(words[index], {"on", "using"}))
    except (IndexError, ValueError):
        raise UnsupportedError("the parts of the MERGE INTO are not recognized", hint="write it more simply") from None
    ends = [*starts[1:], len(words)]
    clauses = tuple(_clause(words[start:end]) for start, end in zip(starts, ends, strict=True))
    parts = (words[:begin], words[begin + 2 : using], words[using + 1 : join], words[join : starts[0]])
    with_, target, source, on = map(_text, parts)
    return MergeText(with_, target, source, on, clauses)


def _clause(words: Sequence[Token]) -> Clause:
    then = _find(words, {"then"})
    condition = next((index for index in range(then) if _is(words[index], {"and"})), then)
    head = [token.word for token in words[1:condition]]
    side = {"matched": "matched", "not matched by source": "source"}.get(" ".join(head), "target")
    found = _text(words[condition + 1 : then]) if condition < then else None
    kind, *rest = words[then + 1 :]
    action = [kind.word, *(token.word for token in rest)]
    if action in (["delete"], ["do", "nothing"]):
        return Clause(side, found, "delete" if action == ["delete"] else "nothing")
    if kind.word == "update" and side != "target":
        if action in (["update"], ["update", "set", "*"]):
            return Clause(side, found, "update")
        return Clause(side, found, "update", *_settings(rest[1:]))
    if kind.word == "insert" and side == "target":
        return _insert(found, rest)
    raise UnsupportedError(
        f"the action {_text(words[then + 1 :]).strip()} of the MERGE INTO is not supported",
        hint="write UPDATE, DELETE, INSERT or DO NOTHING; use an audit to refuse rows",
    )


def _settings(words: Sequence[Token]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The columns and values of an UPDATE."""
    columns: list[str] = []
    values: list[str] = []
    for setting in _split(words, 0):
        equal = _find(setting, {"="})
        left, right = setting[:equal], setting[equal + 1 :]
        if not _in_parentheses(left):
            columns.append(_name(left))
            values.append(_text(right))
            continue
        columns += map(_name, _split(left[1:-1], 1))
        is_row = _in_parentheses(right) and right[1].word not in _QUERY
        values += map(_text, _split(right[1:-1], 1)) if is_row else ()
        if len(columns) != len(values):
            raise UnsupportedError("an UPDATE sets several columns to one value", hint="set each column")
    return tuple(columns), tuple(values)


def _insert(condition: str | None, words: Sequence[Token]) -> Clause:
    by_name = [token.word for token in words[:2]] == ["by", "name"]
    if by_name or [token.word for token in words[:2]] == ["by", "position"]:
        words = words[2:]
    if [token.word for token in words] in ([], ["*"]):
        return Clause("target", condition, "insert", by_name=by_name)
    if [token.word for token in words] == ["default", "values"]:
        return Clause("target", condition, "insert", defaults=True)
    at = _find(words, {"values"})
    listed, given = words[:at], words[at + 1 :]
    if by_name or not _in_parentheses(given) or (listed and not _in_parentheses(listed)):
        raise UnsupportedError("an INSERT of the MERGE INTO is not recognized", hint="write INSERT (a) VALUES (s.a)")
    columns = tuple(map(_name, _split(listed[1:-1], 1))) if listed else None
    values = tuple(map(_text, _split(given[1:-1], 1)))
    if columns is not None and len(columns) != len(values):
        raise UnsupportedError(
            f"an INSERT sets {len(columns)} columns to {len(values)} values", hint="write one value for each column"
        )
    return Clause("target", condition, "insert", columns, values)


def _is(token: Token, words: Collection[str]) -> bool:
    return token.depth == 0 and token.word in words


def _find(words: Sequence[Token], wanted: Collection[str], start: int = 0) -> int:
    """The position of the first of some words outside parentheses.

    Raises:
        UnsupportedError: There is none.
    """
    for index in range(start, len(words)):
        if _is(words[index], wanted):
            return index
    raise UnsupportedError(f"the MERGE INTO has no {' or '.join(wanted).upper()}", hint="write it more simply")


def _split(words: Sequence[Token], depth: int) -> list[Sequence[Token]]:
    """The parts between the commas."""
    commas = [index for index, token in enumerate(words) if token.depth == depth and token.word == ","]
    return [words[start + 1 : end] for start, end in zip([-1, *commas], [*commas, len(words)], strict=True)]


def _in_parentheses(words: Sequence[Token]) -> bool:
    """True if one pair of parentheses contains all words."""
    closing = [index for index, token in enumerate(words) if token.word == ")" and token.depth == 0]
    return bool(words) and words[0].word == "(" and closing == [len(words) - 1]


def _name(words: Sequence[Token]) -> str:
    """The name of a column."""
    if len(words) != 1:
        raise UnsupportedError(
            f"the MERGE INTO sets {_text(words).strip()!r}, which is not a column", hint="set columns of the table"
        )
    quoted = _QUOTED.match(words[0].text)
    return quoted[1].replace('""', '"') if quoted else words[0].word


def _text(words: Sequence[Token]) -> str:
    # The line break ends a comment.
    return "".join(token.text for token in words) + "\n" if words else ""
