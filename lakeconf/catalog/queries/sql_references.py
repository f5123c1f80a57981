"""What a query refers to: its tables, functions and files, found by DuckDB's parser."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from lakeconf.connection.connection import Connection
from lakeconf.connection.sql_text import parse_tree
from lakeconf.errors import QueryError
from lakeconf.secret import scrub

# DuckDB's catalog views and their functions: they bind every view of the lake to list its columns.
_CATALOG_VIEW = re.compile(r"(duckdb|pg|pragma|sqlite)_")
_CATALOG_SCHEMAS = frozenset({"information_schema", "pg_catalog"})
# Functions that take the name of a relation or a query as a string, which the parser cannot resolve.
INDIRECT = frozenset({"histogram", "histogram_values", "json_execute_serialized_sql", "query", "query_table"})
# Identifiers with escaped letters.
_ESCAPED = 'u&"'
_SIGMA, _FINAL = "\N{GREEK SMALL LETTER SIGMA}", "\N{GREEK SMALL LETTER FINAL SIGMA}"


def nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields every object of a tree, each before its parts.

    The tree may be deeper than Python's limit of recursion.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield node
            waiting.extend(reversed(node.values()))
        elif isinstance(node, list):
            waiting.extend(reversed(node))


class Name(NamedTuple):
    """The name of a table or view in a query, in lower case; parts that the query omits are empty."""

    database: str
    schema: str  # the schema; or the database, if the query gives two parts and no schema has that name
    name: str

    def __str__(self) -> str:
        return ".".join(part for part in self if part)


@dataclass(frozen=True)
class References:
    """The names that a query refers to, in lower case."""

    # Tables, views and common table expressions, but also files that a query names like tables.
    relations: frozenset[Name]
    functions: frozenset[str]  # scalar functions, aggregates and scalar macros, without their schema
    table_functions: frozenset[str]  # table functions and table macros, without their schema
    local: frozenset[str]  # names of common table expressions
    everything: bool  # True if the query may refer to more than its names show, such as every view of the lake
    past: bool  # True if the query reads an earlier snapshot


@functools.lru_cache(256)
def find_references(sql: str) -> References | None:
    """The names in a query; None if the SQL is not exactly one SELECT statement that DuckDB can describe."""
    parsed = _parse(sql)
    if parsed is None or parsed["error"] or len(parsed["statements"]) != 1:
        return None
    relations: set[Name] = set()
    functions: set[str] = set()
    table_functions: set[str] = set()
    local: set[str] = set()
    everything = past = False
    for node in nodes(parsed["statements"]):
        kind = node.get("type")
        if kind == "BASE_TABLE":
            relations.add(Name(*(node[part].lower() for part in ("catalog_name", "schema_name", "table_name"))))
        elif kind == "TABLE_FUNCTION":
            table_functions.add(node["function"]["function_name"].lower())
        elif kind == "SHOW_REF":
            everything |= node["query"] is None
        if "function_name" in node:
            functions.add(node["function_name"].lower())
        if "cte_map" in node:
            local.update(entry["key"].lower() for entry in node["cte_map"]["map"])
        past |= node.get("at_clause") is not None
    everything |= any(_CATALOG_VIEW.match(name) or name in INDIRECT for name in table_functions)
    everything |= any(
        _CATALOG_VIEW.match(relation.name) or relation.schema in _CATALOG_SCHEMAS for relation in relations
    )
    return References(
        relations=frozenset(relations),
        functions=frozenset(functions - table_functions),
        table_functions=frozenset(table_functions),
        local=frozenset(local),
        everything=everything,
        past=past,
    )


def mentioned(sql: str, names: Iterable[str]) -> References:
    """Finds names in SQL that DuckDB cannot describe, such as an UPDATE: also in its strings and comments."""
    # The lower case of the Greek sigma depends on the letters around it.
    text = sql.lower().replace('""', '"').replace(_FINAL, _SIGMA)
    mentions = frozenset(name for name in names if name.replace(_FINAL, _SIGMA) in text)
    words = frozenset(re.findall(r"\w+", text))
    return References(
        relations=frozenset(Name("", "", name) for name in mentions),
        functions=mentions,
        table_functions=mentions,
        local=frozenset(),
        everything=_ESCAPED in text
        or not words.isdisjoint(INDIRECT | _CATALOG_SCHEMAS)
        or any(map(_CATALOG_VIEW.match, words)),
        past="at" in words,
    )


def check_syntax(connection: Connection, sql: str) -> None:
    """Raises the error of DuckDB's parser for SQL that it cannot read."""
    parsed = _parse(sql)
    if parsed is not None and parsed["error"] and parsed["error_type"] == "parser":
        place = _line_of(sql, int(parsed["position"])) if str(parsed.get("position")).isdecimal() else ""
        raise QueryError(scrub(f"Parser Error: {parsed['error_message']}{place}", connection.secrets))


def _line_of(sql: str, position: int) -> str:
    """The line of a place in SQL, with a caret below the place, as DuckDB shows it."""
    number, start = f"LINE {sql.count(chr(10), 0, position) + 1}: ", sql.rfind("\n", 0, position) + 1
    return f"\n\n{number}{sql[start:].partition(chr(10))[0]}\n{' ' * (len(number) + position - start)}^"


def _parse(sql: str) -> Any:
    """The tree of SQL; None if it is nested too deeply."""
    try:
        return parse_tree(sql)
    except RecursionError:
        return None
