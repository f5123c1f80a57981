"""SQL as DuckDB's parser reads it, without running it: its tokens and its tree."""

from __future__ import annotations

import functools
import json
from enum import Enum, auto
from typing import Any, NamedTuple

from lakeconf.connection.connection import closed_connection
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.sql import literal


class TokenKind(Enum):
    """What a token is."""

    WORD = auto()  # a name or a keyword
    QUOTED_NAME = auto()  # a name in quotes, which is not a keyword
    OTHER = auto()  # a sign or a constant


class Token(NamedTuple):
    """A word, a sign or a constant of a statement."""

    word: str  # a word in lower case, a name without its quotes; of other tokens the first character
    start: int  # where it begins, in characters
    depth: int  # the number of brackets around it
    kind: TokenKind

    @property
    def is_quoted(self) -> bool:
        """True if it is a name in quotes."""
        return self.kind is TokenKind.QUOTED_NAME


def tokens(sql: str) -> list[Token]:
    """Returns the tokens of SQL without its comments."""
    import duckdb

    names = (duckdb.token_type.identifier, duckdb.token_type.keyword)
    with translated_errors():
        places = [(start, kind) for start, kind in duckdb.tokenize(sql) if kind != duckdb.token_type.comment]
    encoded, start, depth, made = sql.encode(), 0, 0, list[Token]()
    for number, (offset, kind) in enumerate(places):
        before = places[number - 1][0] if number else 0
        start += len(encoded[before:offset].decode(errors="ignore"))  # the offsets count bytes
        end = places[number + 1][0] if number + 1 < len(places) else len(encoded)
        raw = encoded[offset:end].decode(errors="ignore")
        if raw.startswith('"'):
            token = Token(raw[1 : raw.rindex('"')].replace('""', '"'), start, depth, TokenKind.QUOTED_NAME)
        elif kind in names:
            word = raw.split()[0].split("--")[0].split("/*")[0].lower()
            token = Token(word, start, depth, TokenKind.WORD)
        else:
            token = Token(raw[:1], start, depth - (raw[:1] in (")", "]", "}")), TokenKind.OTHER)
            depth = token.depth + (token.word in ("(", "[", "{"))
        made.append(token)
    return made


def parse_tree(sql: str) -> Any:
    """Returns what DuckDB's parser makes of queries, or its error: `statements` and `error`.

    duckdb's `extract_statements` runs some PRAGMA statements, which read files; this runs nothing.

    Raises:
        RecursionError: The SQL is nested too deeply.
    """
    return json.loads(_serialized(sql))


@functools.lru_cache(64)
def _serialized(sql: str) -> str:
    with closed_connection() as connection:
        ((text,),) = connection.execute(f"SELECT json_serialize_sql({literal(sql)})").fetchall()
    return str(text)
