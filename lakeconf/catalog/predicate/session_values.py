"""Finds what depends on the session in a condition that DuckDB has bound: its time zone, and the current date.

Two sessions would scan or delete other rows with the same condition.
"""

from __future__ import annotations

from typing import Any

from lakeconf.catalog.parse_tree import nodes
from lakeconf.catalog.predicate.datetimes import parse_timestamp
from lakeconf.errors import PredicateError

_ZONED = ("TIMESTAMP WITH TIME ZONE", "TIME WITH TIME ZONE")
# These do not use the session's time zone for a TIMESTAMPTZ.
_SAFE = (
    *("array_extract", "epoch", "epoch_ms", "epoch_ns", "epoch_us", "greatest", "hash", "least", "list_contains"),
    *("list_extract", "list_value", "row", "struct_extract", "struct_pack", "timetz_byte_comparable", "to_timestamp"),
)


def check_bound(plan: Any) -> None:
    """Checks a condition in which each function has its overload, and each cast is written.

    Args:
        plan: DuckDB's plan of a query with the condition, as JSON.

    Raises:
        PredicateError: The condition may have another value in another session.
    """
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
