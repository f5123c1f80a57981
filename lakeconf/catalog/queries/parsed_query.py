"""Queries with the places of their tables and parameters, so that a query can be given other ones."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from lakeconf.catalog.queries.sql_references import nodes
from lakeconf.connection.sql_text import parse_tree, tokens
from lakeconf.errors import QueryError
from lakeconf.sql import folded, identifier

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
_TABLE = re.compile(rf"(?<![\w$\"])table(?![\w$]){_BETWEEN}\Z", re.DOTALL | re.IGNORECASE)
# Views with this prefix are unique.
VIEW_PREFIX = "lakeconf_input_"


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
    try:
        tree = parse_tree(text)
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
        _parameters(text) if statement["named_param_map"] else [],
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


def _parameters(text: str) -> list[tuple[str, Span]]:
    """The parameters of a query; the parser does not tell where they are, but its tokens do."""
    parameters = []
    for token, after in itertools.pairwise(tokens(text)):
        is_sign = token.word == "$" and after.start == token.start + 1
        name = re.compile(r"\w+").match(text, after.start) if is_sign else None
        if name is not None:
            parameters.append((name[0], (token.start, name.end())))
    return parameters


def _tables(tree: Any) -> Iterator[tuple[dict[str, Any], bool]]:
    """Yields each node that names a table, and whether it is described; a CTE is not visible everywhere."""
    waiting: list[tuple[Any, frozenset[str], bool]] = [(tree, frozenset(), False)]
    while waiting:
        node, visible, described = waiting.pop()
        if isinstance(node, list):
            waiting.extend((item, visible, False) for item in node)
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
    match = re.compile(dotted, re.DOTALL).match(text, start)
    if match is None or [_unquoted(str(part)) for part in match.groups()] != parts:
        raise NotOneQuery(f"the place of the table {'.'.join(parts)} is unknown")
    end = _alias_end(text, match.end(), node["alias"], has_columns=bool(node["column_name_alias"]))
    return TablePlace(parts, match.span(), node["alias"], end, is_described, node.get("at_clause") is not None)


def _alias_end(text: str, start: int, alias: str, *, has_columns: bool) -> int:
    """The end of the alias after a name; the start if there is none, or if it precedes the name."""
    match = re.compile(rf"{_BETWEEN}(?:as(?![\w$]){_BETWEEN})?({_NAME})", re.DOTALL | re.IGNORECASE).match(text, start)
    if not alias or match is None or folded(_unquoted(match[1])) != folded(alias):
        return start
    columns = re.compile(rf"{_BETWEEN}\((?:{_QUOTED}|[^()\"])*\)", re.DOTALL).match(text, match.end())
    return columns.end() if has_columns and columns is not None else match.end()


def _unquoted(name: str) -> str:
    quote = name[0]
    return name[1:-1].replace(quote * 2, quote) if quote in "\"'" else name


def _characters(encoded: bytes, position: int) -> int:
    return len(encoded[:position].decode(errors="ignore"))


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
        len(table.parts) == 1 and folded(table.name) in names for table in parsed.tables
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
    parts, last = [], 0
    for (start, end), part in sorted(changes.items()):
        parts += [text[last:start], part]
        last = end
    return "".join([*parts, text[last:]])


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
