"""What a query refers to: its tables, functions and files, found by DuckDB's parser."""

from __future__ import annotations

import itertools
import json
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import duckdb

from lakeconf.connection.connection import Connection, closed_connection
from lakeconf.errors import QueryError
from lakeconf.secret import scrub
from lakeconf.sql import folded, identifier, literal


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


# DuckDB's catalog views and their functions: they bind every view of the lake to list its columns.
_CATALOG_VIEW = re.compile(r"(duckdb|pg|pragma|sqlite)_")
_CATALOG_SCHEMAS = frozenset({"information_schema", "pg_catalog"})
# Functions that take the name of a relation or a query as a string, which the parser cannot resolve.
INDIRECT = frozenset({"histogram", "histogram_values", "json_execute_serialized_sql", "query", "query_table"})
# Identifiers with escaped letters.
_ESCAPED = 'u&"'
_SIGMA, _FINAL = "\N{GREEK SMALL LETTER SIGMA}", "\N{GREEK SMALL LETTER FINAL SIGMA}"


class Name(NamedTuple):
    """The name of a table or view in a query, in lower case; parts that the query omits are empty."""

    database: str  # the database
    schema: str  # the schema; or the database, if the query gives two parts and no schema has that name
    name: str  # the name itself

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


def find_references(connection: Connection, sql: str) -> References | None:
    """The names in a query; None if the SQL is not exactly one SELECT statement that DuckDB can describe."""
    parsed = _parse(connection, sql)
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
    everything |= any(_CATALOG_VIEW.match(found.name) or found.schema in _CATALOG_SCHEMAS for found in relations)
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
    found = frozenset(name for name in names if name.replace(_FINAL, _SIGMA) in text)
    words = frozenset(re.findall(r"\w+", text))
    return References(
        relations=frozenset(Name("", "", name) for name in found),
        functions=found,
        table_functions=found,
        local=frozenset(),
        everything=_ESCAPED in text
        or not words.isdisjoint(INDIRECT | _CATALOG_SCHEMAS)
        or any(map(_CATALOG_VIEW.match, words)),
        past="at" in words,
    )


def check_syntax(connection: Connection, sql: str) -> None:
    """Parses SQL without running it; duckdb's `extract_statements` runs some PRAGMA statements, which read files."""
    parsed = _parse(connection, sql)
    if parsed is not None and parsed["error"] and parsed["error_type"] == "parser":
        place = _line_of(sql, int(parsed["position"])) if str(parsed.get("position")).isdecimal() else ""
        raise QueryError(scrub(f"Parser Error: {parsed['error_message']}{place}", connection.secrets))


def _line_of(sql: str, position: int) -> str:
    """The line of a place in SQL, with a caret below the place, as DuckDB shows it."""
    number, start = f"LINE {sql.count(chr(10), 0, position) + 1}: ", sql.rfind("\n", 0, position) + 1
    return f"\n\n{number}{sql[start:].partition(chr(10))[0]}\n{' ' * (len(number) + position - start)}^"


def _parse(connection: Connection, sql: str) -> Any:
    """Returns the result of DuckDB's parser; None if it is nested too deeply."""
    with connection.cursor() as cursor:
        ((text,),) = cursor.rows(f"SELECT json_serialize_sql({literal(sql)})")
    try:
        return json.loads(text)
    except RecursionError:
        return None


# Where a part of a string begins and ends, in characters.
Span = tuple[int, int]
# DuckDB's number for a place that it does not know.
_UNKNOWN = 2**64 - 1
_QUOTED = r'"(?:[^"]|"")*"'
# Comments can have comments in them: up to two levels, so that each text matches in one way only, in linear time.
_INNER = r"/\*(?:[^*/]|\*(?!/)|/(?!\*))*\*/"
_COMMENT = rf"/\*(?:[^*/]|\*(?!/)|/(?!\*)|{_INNER})*\*/"
_BETWEEN = rf"(?:\s|--[^\n]*(?:\n|\Z)|{_COMMENT})*"
# DuckDB takes a string for the name of a file.
_NAME = rf"(?:{_QUOTED}|'(?:[^']|'')*'|[\w$\x80-\U0010ffff]+)"


class NotOneQuery(QueryError):  # noqa: N818 - callers say what the text is
    """DuckDB's parser finds no query, or several statements."""

    offset: int | None = None  # the place of a syntax error, in characters; None if it is unknown


class TablePlace(NamedTuple):
    """A place in a query that names a table or a view, and not a common table expression that is visible there."""

    parts: Sequence[str]  # the parts of the name
    span: Span  # where the name is
    alias: str  # the alias; empty without one
    end: int  # the end of the name, or of the alias that follows it, with the names of its columns
    is_described: bool  # True in `DESCRIBE t` and `SUMMARIZE t`, where no alias may follow
    has_snapshot: bool  # True if `AT (…)` follows

    @property
    def name(self) -> str:
        return ".".join(self.parts)

    def named_as(self, view: str) -> str:
        """What to write in place of the name to read a view, which columns can name like the table."""
        return view if self.alias or self.is_described else f"{view} AS {identifier(self.parts[-1])}"


@dataclass(frozen=True)
class ParsedQuery:
    """A query as DuckDB's parser reads it."""

    tables: Sequence[TablePlace]  # the places that name tables, in the order of the text
    functions: Sequence[tuple[str, int]]  # the table functions and their places
    # Named parameters such as `$start`: the name, and where they are with their sign.
    parameters: Sequence[tuple[str, Span]]
    describes: bool  # True if it describes tables, as `DESCRIBE t` and `SHOW TABLES` do
    tree: Any = field(repr=False)  # what the parser makes of it


def parse_query(text: str) -> ParsedQuery:
    """Parses a query with DuckDB, without a lake."""
    if "\0" in text:
        raise NotOneQuery("it contains a NUL, at which DuckDB's parser ends")
    encoded = text.encode()
    with closed_connection() as connection:
        ((found,),) = connection.execute(f"SELECT json_serialize_sql({literal(text)})").fetchall()
    try:
        tree = json.loads(found)
    except RecursionError:
        raise NotOneQuery("it is nested too deeply") from None
    if tree["error"]:
        raise _parser_error(tree, len(text))
    if len(tree["statements"]) != 1:
        raise NotOneQuery("there are several" if tree["statements"] else "there is none")
    (statement,) = tree["statements"]
    kinds = [(node.get("type"), node) for node in nodes(statement)]
    functions = [
        (node["function"]["function_name"], _characters(encoded, node["query_location"]))
        for kind, node in kinds
        if kind == "TABLE_FUNCTION"
    ]
    tables = [_place(text, encoded, node, described) for node, described in _tables(statement["node"])]
    return ParsedQuery(
        sorted(tables, key=lambda table: table.span),
        functions,
        _parameters(text, encoded) if statement["named_param_map"] else [],
        any(kind == "SHOW_REF" for kind, _ in kinds),
        statement["node"],
    )


def _parser_error(tree: Mapping[str, Any], length: int) -> NotOneQuery:
    if tree["error_type"] != "parser":
        return NotOneQuery("it is no SELECT, and a PIVOT must list its values: ON … IN (…)")
    # DuckDB quotes the text from the error to its end after these words.
    error = NotOneQuery(tree["error_message"].partition(" at or near ")[0])
    if "position" in tree:
        # Unlike the places of tables, it counts characters.
        error.offset = min(int(tree["position"]), length)
    return error


def _parameters(text: str, encoded: bytes) -> list[tuple[str, Span]]:
    """The parameters of a query; the parser does not tell where they are, but its tokens do."""
    found = []
    for sign, offset in itertools.pairwise(one for one, _ in duckdb.tokenize(text)):
        if encoded[sign:offset] == b"$":
            start = _characters(encoded, sign)
            name = re.compile(r"\w+").match(text, start + 1)
            if name is not None:
                found.append((name[0], (start, name.end())))
    return found


def _tables(tree: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yields each node that names a table, and whether it is described; a CTE is not visible everywhere."""
    waiting: list[tuple[Any, frozenset[str], bool]] = [(tree, frozenset(), False)]
    while waiting:
        node, visible, described = waiting.pop()
        if isinstance(node, list):
            waiting.extend((one, visible, False) for one in node)
        if not isinstance(node, dict):
            continue
        for entry in node.get("cte_map", {}).get("map", ()):
            waiting.append((entry["value"], visible, False))
            visible |= {folded(entry["key"])}
        kind = node.get("type")
        if kind == "BASE_TABLE" and (node["schema_name"] or folded(node["table_name"]) not in visible):
            yield node, described
        inside = visible | {folded(node["cte_name"])} if kind == "RECURSIVE_CTE_NODE" else visible
        below = kind == "SHOW_REF" and _is_bare(node["query"])
        for key, value in node.items():
            if key == "from_table":
                waiting.append((value, visible, described))
            elif key != "cte_map":
                waiting.append((value, inside if key == "right" else visible, below and key == "query"))


def _is_bare(query: Any) -> bool:
    """True for the query that DuckDB makes of the name in `DESCRIBE t`."""
    selected: list[Any] = query.get("select_list", []) if isinstance(query, dict) else []
    return len(selected) == 1 and selected[0]["query_location"] == _UNKNOWN


def _place(text: str, encoded: bytes, node: Mapping[str, Any], is_described: bool) -> TablePlace:  # noqa: FBT001
    parts: list[str] = [node[part] for part in ("catalog_name", "schema_name", "table_name") if node[part]]
    dotted = rf"{_BETWEEN}\.{_BETWEEN}".join(f"({_NAME})" for _ in parts)
    start = _characters(encoded, node["query_location"]) if node["query_location"] != _UNKNOWN else len(text)
    found = re.compile(dotted, re.DOTALL).match(text, start)
    if found is None or [_unquoted(str(one)) for one in found.groups()] != parts:
        raise NotOneQuery(f"the place of the table {'.'.join(parts)} is unknown")
    end = _alias_end(text, found.end(), node["alias"], has_columns=bool(node["column_name_alias"]))
    return TablePlace(parts, found.span(), node["alias"], end, is_described, node.get("at_clause") is not None)


def _alias_end(text: str, start: int, alias: str, *, has_columns: bool) -> int:
    """The end of the alias after a name; the start if there is none, or if it precedes the name."""
    found = re.compile(rf"{_BETWEEN}(?:as(?![\w$]){_BETWEEN})?({_NAME})", re.DOTALL | re.IGNORECASE).match(text, start)
    if not alias or found is None or folded(_unquoted(found[1])) != folded(alias):
        return start
    columns = re.compile(rf"{_BETWEEN}\((?:{_QUOTED}|[^()\"])*\)", re.DOTALL).match(text, found.end())
    return columns.end() if has_columns and columns is not None else found.end()


def _unquoted(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in "\"'" else name


def _characters(encoded: bytes, position: int) -> int:
    return len(encoded[:position].decode(errors="ignore"))


_TABLE = re.compile(rf"(?<![\w$\"])table(?![\w$]){_BETWEEN}\Z", re.DOTALL | re.IGNORECASE)
# Views with this prefix are unique.
VIEW_PREFIX = "lakeconf_input_"


def unique_view() -> str:
    """A name that no other view has."""
    return f"{VIEW_PREFIX}{uuid.uuid4().hex}"


def reads_only(sql: str, frames: Iterable[str]) -> bool:
    """True if a query certainly reads nothing but frames."""
    names = {folded(name) for name in frames}
    try:
        parsed = parse_query(sql)
    except NotOneQuery:
        return False
    return not (parsed.functions or parsed.describes) and all(
        len(one.parts) == 1 and folded(one.name) in names for one in parsed.tables
    )


def query_over_views(sql: str, views: Mapping[str, str]) -> str:
    """A query with views in place of tables; the rest of its text stays."""
    try:
        tables = parse_query(sql).tables
    except NotOneQuery as error:
        raise QueryError(
            f"the names of frames cannot be found in the query: {error.message}",
            hint="use other syntax, or write the frames to tables and use lake.sql(…)",
        ) from None
    named = [table for table in tables if len(table.parts) == 1 and folded(table.name) in views]
    return replaced(sql, {table.span: table.named_as(views[folded(table.name)]) for table in named})


def query_over_tables(sql: str, changes: Iterable[tuple[TablePlace, str]]) -> str:
    """A query with subqueries in place of tables."""
    made = {table.span: table.named_as(subquery) for table, subquery in changes}
    keywords = (_TABLE.search(sql, 0, start) for start, _ in list(made))
    # After `TABLE`, no subquery may follow.
    return replaced(sql, made | {keyword.span(): "FROM " for keyword in keywords if keyword is not None})


def query_at(sql: str, snapshot_id: int, frames: Iterable[str]) -> str:
    """A query that reads its tables and views at a snapshot, except for frames and where it names a snapshot."""
    names, changes, at = set(map(folded, frames)), dict[Span, str](), f" AT (VERSION => {snapshot_id})"
    for table in parse_query(sql).tables:
        is_frame = len(table.parts) == 1 and folded(table.name) in names
        if is_frame or table.has_snapshot:
            continue
        (start, end), keyword = table.span, _TABLE.search(sql, 0, table.span[0])
        if table.is_described:
            changes[table.span] = f"(FROM {sql[start:end]}{at})"
        else:
            changes[table.end, table.end] = at
        if keyword is not None:  # after `TABLE t`, no snapshot may follow
            changes[keyword.span()] = "FROM "
    return replaced(sql, changes)


def replaced(text: str, changes: Mapping[Span, str]) -> str:
    """A string with other parts."""
    made, last = [], 0
    for (start, end), part in sorted(changes.items()):
        made += [text[last:start], part]
        last = end
    return "".join([*made, text[last:]])


def original_offset(changes: Mapping[Span, str], offset: int) -> int:
    """The offset in a string of an offset in the text that `replaced` makes of it; the start of a replaced part."""
    shift = 0
    for (start, end), part in sorted(changes.items()):
        if offset < start + shift:
            break
        if offset < start + shift + len(part):
            return start
        shift += len(part) - (end - start)
    return offset - shift
