"""Parses the INSERT, UPDATE or DELETE of a user: its table, the columns that it sets, and the names that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import duckdb

from lakeconf.catalog.queries.sql_references import Name, References, check_syntax, find_references
from lakeconf.catalog.tables import DEFAULT_SCHEMA, joined_name
from lakeconf.connection.connection import Connection
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.sql import folded

Kind: TypeAlias = Literal["insert", "update", "delete"]
_HINT = "write one INSERT, UPDATE or DELETE; lake.sql(…) runs queries"
_MERGE = "call merge of the table, such as lake.table(name).merge(rows, on=key, matched=[Update(…)])"
# The words after the first word of each statement.
_SECOND = {"insert": ("into", "or"), "delete": ("from",), "update": (), "merge": ("into",)}
_QUERIES = ("select", "from", "with", "values", "table", "pivot", "unpivot", "(")


class _Token(NamedTuple):
    """A word, a sign or a constant."""

    word: str  # the word in lower case, without quotes; a sign as it is
    start: int  # its offset in bytes
    depth: int  # the number of parentheses around it
    is_quoted: bool  # True if it is a name in quotes, which is not a keyword


@dataclass(frozen=True)
class UserStatement:
    """A statement of the user that changes rows."""

    text: str  # the SQL, as the user wrote it
    kind: Kind  # what it does
    alias: str  # the alias of the lake
    target: Name  # the table that it changes
    columns: frozenset[str]  # the columns that it sets, in lower case; empty if it may set all
    # The names in the rest of the statement. Those of common table expressions are among the relations, because a table
    # of the lake may have the same name.
    reads: References

    def name_of(self, table: Name) -> str:
        """The full name of a table of the lake."""
        if table.database and table.database != folded(self.alias):
            raise QueryError(
                f"{table} is a table of another database, and a statement uses one lake",
                hint=f"use tables of {self.alias}, the name of this lake; pass rows from elsewhere as a frame",
            )
        return joined_name(DEFAULT_SCHEMA if self.is_in_default_schema(table) else table.schema, table.name)

    def is_in_default_schema(self, table: Name) -> bool:
        """True if a name has no schema: neither `t` nor `dev.t` for the lake `dev` does."""
        return not table.schema or (not table.database and table.schema == folded(self.alias))


def parse_statement(connection: Connection, sql: str, alias: str) -> UserStatement:
    """Parses a statement."""
    check_syntax(connection, sql)
    tokens = _tokens(sql)
    while tokens and tokens[-1].word == ";":
        sql = sql.encode()[: tokens.pop().start].decode()
    first = _first(tokens)
    if first is None or any(token.word == ";" and not token.depth for token in tokens):
        raise QueryError("the SQL is not a single statement that changes rows", hint=_HINT)
    if tokens[first].word == "merge":
        raise UnsupportedError("lake.execute does not run MERGE INTO", hint=_MERGE)
    kinds: dict[str, Kind] = {"insert": "insert", "update": "update", "delete": "delete"}
    _check_clauses(tokens)
    return _Parts(connection, sql, tokens, first).statement(kinds[tokens[first].word], alias)


class _Parts:
    """Takes a statement apart."""

    def __init__(self, connection: Connection, sql: str, tokens: Sequence[_Token], first: int) -> None:
        self._connection = connection
        self._text = sql.encode()
        self._tokens = [*tokens, _Token("", len(self._text), 0, is_quoted=False)]
        self._first = first

    def statement(self, kind: Kind, alias: str) -> UserStatement:
        place = self._first + 1
        while self._is(place, "into", "from", "or", "replace", "ignore"):
            place += 1
        target, place = self._name(place)
        place = self._after_alias(place)
        columns: frozenset[str] = frozenset()
        if kind == "insert":
            columns, place = self._columns(place)
            query = "SELECT 1" if self._is(place, "default") else f"SELECT * FROM (\n{self._from(place)}\n)"
        elif kind == "update":
            columns, values = self._set(place)
            query = f"SELECT {values}"
        else:
            where = self._from(place)
            query = f"SELECT 1 FROM {self._from(place + 1)}" if self._is(place, "using") else f"SELECT 1 {where}"
        before = self._text[: self._tokens[self._first].start].decode()
        reads = find_references(self._connection, f"{before}{query}")
        if reads is None:
            raise QueryError("the statement cannot be parsed", hint=_HINT)
        return UserStatement(self._text.decode(), kind, alias, target, columns, reads)

    def _is(self, place: int, *words: str) -> bool:
        token = self._tokens[min(place, len(self._tokens) - 1)]
        return token.word in words and not token.is_quoted

    def _from(self, place: int) -> str:
        return self._text[self._tokens[min(place, len(self._tokens) - 1)].start :].decode()

    def _name(self, place: int) -> tuple[Name, int]:
        """The name of the table, and the place after it."""
        parts = [self._tokens[place].word]
        while self._is(place + 1, "."):
            place += 2
            parts.append(self._tokens[place].word)
        if len(parts) > 3 or not all(parts):
            raise QueryError("the statement does not name the table that it changes", hint=_HINT)
        return Name(*["", "", *map(folded, parts)][-3:]), place + 1

    def _after_alias(self, place: int) -> int:
        if self._is(place, "as"):
            return place + 2
        ends = ("set", "using", "where", "default", "by", "overriding", "", *_QUERIES)
        return place if self._is(place, *ends) else place + 1

    def _columns(self, place: int) -> tuple[frozenset[str], int]:
        """The columns that an INSERT lists, and the place of its query."""
        columns: frozenset[str] = frozenset()
        if self._is(place, "(") and not self._is(place + 1, *_QUERIES):
            end = place
            while end < len(self._tokens) - 1 and not (self._is(end, ")") and not self._tokens[end].depth):
                end += 1
            columns = frozenset(folded(token.word) for token in self._tokens[place + 1 : end] if token.word != ",")
            place = end + 1
        if self._is(place, "by"):
            columns, place = frozenset(), place + 2
        return columns, place

    def _set(self, place: int) -> tuple[frozenset[str], str]:
        """The columns that an UPDATE sets, and its text after SET without them: `a = 1, (b, c) = (2, 3) FROM t`."""
        if not self._is(place, "set"):
            raise QueryError("the statement cannot be parsed: SET is missing", hint=_HINT)
        columns, text, begin = set[str](), b"", self._tokens[place + 1].start
        for index in range(place + 1, len(self._tokens) - 1):
            if not self._is(index - 1, "set", ",") or self._tokens[index].depth:
                continue
            end = index
            if self._is(index, "("):
                end = next(i for i in range(index, len(self._tokens)) if self._is(i, ")") and not self._tokens[i].depth)
            if self._is(end + 1, "="):
                named = self._tokens[index : end + 1]
                columns |= {folded(token.word) for token in named if token.word not in (*"(),",)}
                text += self._text[begin : self._tokens[index].start]
                begin = self._tokens[end + 1].start + 1
        return frozenset(columns), (text + self._text[begin:]).decode()


def _first(tokens: Sequence[_Token]) -> int | None:
    """The place of INSERT, UPDATE, DELETE or MERGE, which common table expressions may precede."""
    for place, token in enumerate(tokens):
        if token.depth or token.is_quoted or token.word not in _SECOND:
            continue
        after = tokens[place + 1] if place + 1 < len(tokens) else None
        if after is None or after.word in ("as", "(", "using") or (place and tokens[0].word != "with"):
            continue
        second = _SECOND[token.word]
        if not second or after.word in second:
            return place
    return None


def _check_clauses(tokens: Sequence[_Token]) -> None:
    words = [token.word if not (token.is_quoted or token.depth) else "" for token in tokens]
    if "returning" in words:
        raise UnsupportedError(
            "DuckLake does not support RETURNING", hint="read the rows afterwards with lake.sql(…) or table.changes(…)"
        )
    pairs = list(zip(words, words[1:], words[2:], strict=False))
    conflict = any(pair[:2] == ("on", "conflict") and pair[2] in ("do", "(") for pair in pairs)
    if conflict or any(pair[:2] == ("insert", "or") for pair in pairs):
        raise UnsupportedError("DuckLake tables have no keys, so INSERT cannot detect conflicts", hint=_MERGE)


def _tokens(sql: str) -> list[_Token]:
    text, tokens, depth = sql.encode(), list[_Token](), 0
    with translated_errors():
        places = [(start, kind) for start, kind in duckdb.tokenize(sql) if kind != duckdb.token_type.comment]
    for number, (start, kind) in enumerate(places):
        end = places[number + 1][0] if number + 1 < len(places) else len(text)
        raw = text[start:end].decode(errors="ignore")
        is_quoted = raw.startswith('"')
        if is_quoted:
            word = raw[1 : raw.rindex('"')].replace('""', '"')
        elif kind in (duckdb.token_type.identifier, duckdb.token_type.keyword):
            word = raw.split()[0].split("--")[0].split("/*")[0].lower()
        else:
            word = raw[:1]
        depth -= word in (")", "]", "}") and not is_quoted
        tokens.append(_Token(word, start, depth, is_quoted))
        depth += word in ("(", "[", "{") and not is_quoted
    return tokens
