"""Conditions in DuckDB's SQL that planning does not understand, and what in them depends on the session.

Two sessions would scan or delete other rows with the same condition.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import duckdb

from lakeconf.catalog.column_types import sql_type
from lakeconf.catalog.pruning.predicates import Expression, parse_timestamp
from lakeconf.catalog.queries.sql_references import nodes
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import closed_connection
from lakeconf.connection.sql_text import parse_tree, tokens
from lakeconf.errors import PredicateError, suggestion
from lakeconf.sql import folded, identifier, literal

_ZONED = ("TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE")

# These do not use the session's time zone for a TIMESTAMPTZ.
_SAFE = (
    *("array_extract", "epoch", "epoch_ms", "epoch_ns", "epoch_us", "greatest", "hash", "least", "list_contains"),
    *("list_extract", "list_value", "row", "struct_extract", "struct_pack", "timetz_byte_comparable", "to_timestamp"),
)
_SELECT = "SELECT 1 WHERE "
_PARTS = (
    *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF"),
    *("COMPARISON", "CONJUNCTION", "CONSTANT", "FUNCTION", "OPERATOR"),
)
# DuckDB calls these consistent, although they depend on the session or on the plan, or bind a query.
_NOT_OF_ROW = (
    *("current_localtime", "current_localtimestamp", "current_setting", "getenv", "getvariable"),
    *("json_serialize_plan", "vector_type"),
)
# DuckDB's parser writes these with the schema: `[1, 2]` is `main.list_value(1, 2)`.
_WITH_SCHEMA = (
    *("date_part", "ilike_escape", "like_escape", "list_value", "ltrim", "map", "not_ilike_escape", "not_like_escape"),
    *("overlay", "position", "row", "rtrim", "struct_pack", "substring", "timezone", "trim"),
)
# DuckDB's errors for `a = 1; DROP TABLE t`, and for very deep expressions.
_OTHER_STATEMENT = "Only SELECT statements"
_DEPTH = "Max expression depth"
_PLACE = {"alias": "", "query_location": 0}
_ALLOWED = "use columns, constants, operators and DuckDB's scalar functions"


def check_bound(plan: Any) -> None:
    """Checks a condition in which each function has its overload, and each cast is written."""
    if plan["error"]:
        raise unsuitable("this condition")
    for node in nodes(plan["plans"]):
        kind, name = node.get("expression_class"), node.get("name")
        if kind == "BOUND_CAST" and _depends_on_zone(node):
            raise _zoned(f"a cast to {node['return_type']['id']}")
        if kind == "BOUND_AGGREGATE" and name == "reservoir_quantile":
            raise unsuitable(f"the function {name!r}")
        if kind != "BOUND_FUNCTION":
            continue
        if name == "age" and len(node["children"]) == 1:
            raise unsuitable("the function 'age' with one argument")
        if _is_zoned([node["arguments"], node["return_type"]]) and not _is_safe(node):
            raise _zoned(f"the function {name!r}")


def unsuitable(part: str) -> PredicateError:
    """The error for a part of a condition whose value is not a function of one row."""
    return PredicateError(
        f"a `where` does not support {part}: its value does not depend on the row only",
        hint="compute the value first, and write it as a constant",
    )


def _zoned(part: str) -> PredicateError:
    return PredicateError(
        f"a `where` does not support {part}: its value depends on the time zone of the session",
        hint="name the time zone: t AT TIME ZONE 'UTC', or TIMESTAMPTZ '2026-01-31 00:00:00+00'",
    )


def _is_safe(function: dict[str, Any]) -> bool:
    # With two arguments, the first one is the time zone.
    arguments = [argument["id"] for argument in function["arguments"]]
    is_named = function["name"] == "timezone" and arguments[0] == "VARCHAR" and arguments[1].startswith("TIMESTAMP")
    return function["name"] in _SAFE or is_named


def _depends_on_zone(cast: dict[str, Any]) -> bool:
    child = cast["child"]
    constant = child.get("value") or {}
    before, after = child.get("return_type") or constant.get("type"), cast["return_type"]
    if before == after or not _is_zoned([before, after]) or constant.get("is_null"):
        return False
    return not (after["id"] == _ZONED[0] and _has_offset(constant.get("value")))


def _has_offset(text: object) -> bool:
    try:
        return isinstance(text, str) and parse_timestamp(text).tzinfo is not None
    except PredicateError:
        return False


def _is_zoned(type_tree: Any) -> bool:
    if isinstance(type_tree, dict):
        return type_tree.get("id") in _ZONED or any(map(_is_zoned, type_tree.values()))
    return isinstance(type_tree, list) and any(map(_is_zoned, type_tree))


class NotUnderstoodError(PredicateError):
    """The planner does not know the syntax; an engine may."""


def conjuncts(connection: duckdb.DuckDBPyConnection, text: str) -> list[str]:
    """Splits a condition into conditions that must all be true, as DuckDB's parser understands it."""
    parsed = _parsed(text)
    where = parsed["statements"][0]["node"]["where_clause"]
    _check_parts(where)
    is_and = where["type"] == "CONJUNCTION_AND"
    parts = _unambiguous(where["children"] if is_and else [where])
    texts = [_text(connection, parsed, part) for part in parts]
    if None not in texts:
        return [part for part in texts if part is not None]
    if any(len(node["column_names"]) > 1 for node in _nodes(where) if node["class"] == "COLUMN_REF"):
        raise PredicateError(f"{text!r} names a field after a point", hint="write (s).a instead of s.a")
    # The line ends a comment at the end of the text.
    if parse_tree(f"{_SELECT}({text}\n)")["error"]:
        raise PredicateError(f"{text!r} is not a single condition", hint="omit the semicolon")
    written = _split_as_written(text, where["children"]) if is_and else None
    return (
        [f"{text}\n"] if written is None else [condition or own for condition, own in zip(texts, written, strict=True)]
    )


def _split_as_written(text: str, conditions: Sequence[Any]) -> list[str] | None:
    """The text of each condition as it was written, in parentheses; None if they cannot be found."""
    parts: list[str] = []
    begin = 0
    for end in (*_ends(text), len(text)):
        if len(parts) == len(conditions):
            return None
        part = f"({text[begin:end].strip()}\n)"
        try:
            tree = _parsed(part)["statements"][0]["node"]["where_clause"]
        except PredicateError:
            continue  # an AND of BETWEEN or CASE
        if _without_places(tree) == _without_places(conditions[len(parts)]):
            parts.append(part)
            begin = end + len("AND")
    return parts if len(parts) == len(conditions) and begin > len(text) else None


def _ends(text: str) -> Iterator[int]:
    """The places of AND outside parentheses."""
    for token in tokens(text):
        if token.word == "and" and not token.is_quoted and not token.depth:
            yield token.start


def is_condition_of(text: str, select: str) -> bool:
    """True if a condition is that of a SELECT, as DuckDB parses both."""
    conditions = [parse_tree(sql) for sql in (_SELECT + text, select)]
    if any(parsed["error"] for parsed in conditions):
        return False
    condition_tree, select_tree = (parsed["statements"][0]["node"]["where_clause"] for parsed in conditions)
    return bool(_without_places(condition_tree) == _without_places(select_tree))


def parsed_condition(text: str) -> dict[str, Any]:
    """DuckDB's tree of a condition."""
    where: dict[str, Any] = _parsed(text)["statements"][0]["node"]["where_clause"]
    return where


def shown(connection: duckdb.DuckDBPyConnection, where: Any) -> str:
    """The SQL of a part of a condition, for a message."""
    return _text(connection, _parsed("true"), where) or str(where["type"]).lower()


def typed(connection: duckdb.DuckDBPyConnection, conditions: Sequence[str], columns: Sequence[Column]) -> Expression:
    """Types conditions that must all be true."""
    text = " AND ".join(conditions)
    used = _columns(parsed_condition(text), {folded(column.name): column for column in columns})
    _check_types(connection, conditions, used)
    if not used:
        raise without_columns(text)
    return Expression(text, used)


def is_always_true(connection: duckdb.DuckDBPyConnection, condition: str) -> bool:
    """True for `true` and `1 = 1`, with which programs begin a list of conditions."""
    if {node["class"] for node in _nodes(parsed_condition(condition))} - {"CAST", "COMPARISON", "CONSTANT"}:
        return False
    try:
        return connection.execute(f"SELECT CAST(({condition}) AS BOOLEAN)").fetchone() == (True,)
    except duckdb.Error:
        return False


def without_columns(text: str) -> PredicateError:
    """The error for a condition that is the same for all rows."""
    return PredicateError(
        f"the condition {text} uses no column",
        hint="name a column. To read or overwrite all rows, omit the condition; to change or delete all rows, use SQL: "
        'lake.execute("DELETE FROM …")',
    )


def _parsed(text: str) -> Any:
    """DuckDB's tree of the statement that has only this condition."""
    if "\0" in text:
        raise PredicateError("a condition must not contain the character NUL", hint="write chr(0)")
    parsed = parse_tree(_SELECT + text)
    if parsed["error"]:
        if not tokens(text) or parsed["error_message"].startswith(_OTHER_STATEMENT):
            raise PredicateError(f"{text!r} is not a single condition", hint=_ALLOWED)
        if parsed["error_message"].startswith(_DEPTH):
            raise too_deep()
        raise PredicateError(f"{text!r} is not valid SQL: {parsed['error_message']}", hint=_ALLOWED)
    node = parsed["statements"][0]["node"]
    parts = {key: value for key, value in node.items() if key not in ("select_list", "where_clause")}
    if len(parsed["statements"]) != 1 or node["type"] != "SELECT_NODE" or parts != _empty_parts():
        raise PredicateError(f"{text!r} is not a single condition", hint=_ALLOWED)
    return parsed


def too_deep() -> PredicateError:
    """The error for a condition that is nested too deeply to be read."""
    return PredicateError("the condition is nested too deeply", hint="use IN instead of many ORs")


@functools.cache
def _empty_parts() -> dict[str, Any]:
    """The other parts of a statement that has only a condition."""
    node = parse_tree(f"{_SELECT}true")["statements"][0]["node"]
    return {key: value for key, value in node.items() if key not in ("select_list", "where_clause")}


def _check_parts(where: Any) -> None:
    functions = set()
    for node in _nodes(where):
        if node["class"] not in _PARTS:
            raise PredicateError(f"a `where` does not support {node['class'].lower()} expressions", hint=_ALLOWED)
        if node["class"] == "FUNCTION":
            name = str(node["function_name"]).lower()
            is_named = node["catalog"] or (node["schema"] and name not in _WITH_SCHEMA)
            functions.add((name, bool(is_named)))
    described = _functions()
    for name, is_named in sorted(functions):
        if is_named or name not in described:
            raise PredicateError(f"a `where` does not support the function {name!r}: it is not built in", hint=_ALLOWED)
        if described[name]:
            raise PredicateError(f"a `where` does not support the function {name!r}: it is a macro", hint=_ALLOWED)
        if name in _NOT_OF_ROW or described[name] is None:
            raise unsuitable(f"the function {name!r}")


@functools.cache
def _functions() -> dict[str, str | None]:
    """DuckDB's own functions: `macro` for macros, and None if the value is not a function of the arguments."""
    with closed_connection() as connection:
        return dict(
            connection.execute(
                "SELECT function_name, CASE WHEN bool_and(function_type = 'macro') THEN 'macro' "
                "WHEN bool_and(function_type = 'scalar' AND stability = 'CONSISTENT') THEN '' END "
                "FROM duckdb_functions() WHERE database_name = 'system' GROUP BY ALL"
            ).fetchall()
        )


def _columns(where: Any, by_name: Mapping[str, Column]) -> tuple[Column, ...]:
    used: dict[int, Column] = {}
    for node in _nodes(where):
        if node["class"] == "COLUMN_REF":
            name = node["column_names"][0]
            column = by_name.get(folded(name))
            if column is None:
                names = [column.name for column in by_name.values()]
                hint = suggestion(name, names, f"use one of its columns: {', '.join(names)}")
                raise PredicateError(f"the table has no column {name!r}", hint=hint)
            used[column.field_id] = column
    return tuple(used.values())


def _check_types(connection: duckdb.DuckDBPyConnection, conditions: Sequence[str], used: Iterable[Column]) -> None:
    listed = ", ".join(f"{identifier(column.name)} {sql_type(column)}" for column in used)
    try:
        connection.execute(f"CREATE TEMP TABLE rows ({listed or 'nothing INTEGER'})")
    except duckdb.Error as error:
        raise _refused(" AND ".join(conditions), error) from error
    for condition in conditions:
        try:
            (result_type,) = connection.table("rows").project(condition).types
            query = f"FROM rows WHERE {condition}"
            ((plan,),) = connection.execute("SELECT json_serialize_plan(?)", [query]).fetchall()
        except duckdb.Error as error:
            raise _refused(condition, error) from error
        if str(result_type) != "BOOLEAN":
            raise PredicateError(f"{condition} is a {result_type} and not a BOOLEAN", hint="write a comparison")
        check_bound(json.loads(plan))


def _refused(condition: str, error: duckdb.Error) -> PredicateError:
    reason = " ".join(str(error).split("\n\n")[0].split())
    return PredicateError(f"DuckDB rejects the condition {condition}: {reason}")


def _text(connection: duckdb.DuckDBPyConnection, parsed: Any, where: Any) -> str | None:
    """DuckDB's SQL of a part of the condition; None if it would parse it as something else."""
    statement = dict(parsed["statements"][0])
    statement["node"] = {**statement["node"], "where_clause": where}
    tree = json.dumps({**parsed, "statements": [statement]})
    try:
        ((sql,),) = connection.execute(f"SELECT json_deserialize_sql({literal(tree)}::JSON)").fetchall()
    except duckdb.Error:
        return None  # JSON has no infinity
    text = str(sql).removeprefix(_SELECT)
    again = _parsed(text)["statements"][0]["node"]["where_clause"]
    return text if _without_places(again) == _without_places(where) else None


def _unambiguous(tree: Any) -> Any:
    """The tree with DuckDB's own functions, and with fields of columns.

    A statement could read `a.b` as the column b of a table a, and `main.trim` as a macro of the lake.
    """
    if isinstance(tree, list):
        return [_unambiguous(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("class") != "COLUMN_REF":
        rewritten = {key: _unambiguous(value) for key, value in tree.items()}
        return {**rewritten, "schema": ""} if tree.get("class") == "FUNCTION" else rewritten
    first, *fields = tree["column_names"]
    rewritten = {**tree, "column_names": [first]}
    for field in fields:
        name = {"type": {"id": "VARCHAR", "type_info": None}, "is_null": False, "value": field}
        constant = {**_PLACE, "class": "CONSTANT", "type": "VALUE_CONSTANT", "value": name}
        rewritten = {**_PLACE, "class": "OPERATOR", "type": "STRUCT_EXTRACT", "children": [rewritten, constant]}
    return rewritten


def _without_places(tree: Any) -> Any:
    """The tree without places in the text, and without the schema of DuckDB's own functions."""
    if isinstance(tree, dict):
        kept = {key: _without_places(value) for key, value in tree.items() if not key.startswith("query_location")}
        return {**kept, "schema": ""} if kept.get("schema") == "main" else kept
    return [_without_places(item) for item in tree] if isinstance(tree, list) else tree


def _nodes(tree: Any) -> Iterator[dict[str, Any]]:
    """The expressions in DuckDB's tree."""
    return (node for node in nodes(tree) if "class" in node)
