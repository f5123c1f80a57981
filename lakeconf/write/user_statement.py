"""Parses the INSERT, UPDATE or DELETE of a user: its table, the columns that it sets, and the names that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from lakeconf.catalog.queries.sql_references import Name, References, check_syntax, find_references
from lakeconf.catalog.tables import DEFAULT_SCHEMA, joined_name
from lakeconf.connection.connection import Connection
from lakeconf.connection.sql_text import Token, TokenKind, tokens
from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.sql import folded

Kind: TypeAlias = Literal["insert", "update", "delete"]
_HINT = "write one INSERT, UPDATE or DELETE; lake.sql(…) runs queries"
_MERGE = "call merge of the table, such as lake.table(name).merge(rows, on=key, matched=[Update(…)])"
# The words after the first word of each statement.
_SECOND = {"insert": ("into", "or"), "delete": ("from",), "update": (), "merge": ("into",)}
_QUERIES = ("select", "from", "with", "values", "table", "pivot", "unpivot", "(")


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
    parts = tokens(sql)
    while parts and parts[-1].word == ";":
        sql = sql[: parts.pop().start]
    first = _first(parts)
    if first is None or any(token.word == ";" and not token.depth for token in parts):
        raise QueryError("the SQL is not a single statement that changes rows", hint=_HINT)
    if parts[first].word == "merge":
        raise UnsupportedError("lake.execute does not run MERGE INTO", hint=_MERGE)
    kinds: dict[str, Kind] = {"insert": "insert", "update": "update", "delete": "delete"}
    _check_clauses(parts)
    return _Parts(sql, parts, first).statement(kinds[parts[first].word], alias)


class _Parts:
    """Takes a statement apart."""

    def __init__(self, sql: str, parts: Sequence[Token], first: int) -> None:
        self._text = sql
        self._tokens = [*parts, Token("", len(sql), 0, TokenKind.OTHER)]
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
        before = self._text[: self._tokens[self._first].start]
        reads = find_references(f"{before}{query}")
        if reads is None:
            raise QueryError("the statement cannot be parsed", hint=_HINT)
        return UserStatement(self._text, kind, alias, target, columns, reads)

    def _is(self, place: int, *words: str) -> bool:
        token = self._tokens[min(place, len(self._tokens) - 1)]
        return token.word in words and not token.is_quoted

    def _from(self, place: int) -> str:
        return self._text[self._tokens[min(place, len(self._tokens) - 1)].start :]

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
        columns, text, begin = set[str](), "", self._tokens[place + 1].start
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
        return frozenset(columns), text + self._text[begin:]


def _first(parts: Sequence[Token]) -> int | None:
    """The place of INSERT, UPDATE, DELETE or MERGE, which common table expressions may precede."""
    for place, token in enumerate(parts):
        if token.depth or token.is_quoted or token.word not in _SECOND:
            continue
        after = parts[place + 1] if place + 1 < len(parts) else None
        if after is None or after.word in ("as", "(", "using") or (place and parts[0].word != "with"):
            continue
        second = _SECOND[token.word]
        if not second or after.word in second:
            return place
    return None


def _check_clauses(parts: Sequence[Token]) -> None:
    words = [token.word if not (token.is_quoted or token.depth) else "" for token in parts]
    if "returning" in words:
        raise UnsupportedError(
            "DuckLake does not support RETURNING", hint="read the rows afterwards with lake.sql(…) or table.changes(…)"
        )
    pairs = list(zip(words, words[1:], words[2:], strict=False))
    conflict = any(pair[:2] == ("on", "conflict") and pair[2] in ("do", "(") for pair in pairs)
    if conflict or any(pair[:2] == ("insert", "or") for pair in pairs):
        raise UnsupportedError("DuckLake tables have no keys, so INSERT cannot detect conflicts", hint=_MERGE)
