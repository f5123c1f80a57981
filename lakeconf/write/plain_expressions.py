"""Recognizes expressions of merges and updates that have the same value in every engine.

Only column references, constants, comparisons of equal types, NULL tests, and their combinations by `&`, `|` and `~`
are recognized. Everything else may differ: overflow, division, casts, text functions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import narwhals as nw

from lakeconf.catalog.table import Column
from lakeconf.engines.small_merges import is_matched_alike
from lakeconf.sql import folded
from lakeconf.write.merge_clauses import Clauses, Update

_COMPARISONS = ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__")
_CONNECTIVES = ("__and__", "__or__")
_INTEGERS = ("int8", "int16", "int32", "int64")
_FLOATS = ("float32", "float64")
# Two nested types with the same name may differ.
_NESTED = ("struct", "list", "map")
_NULL = "null"
# The DuckLake types of constants that both engines understand alike.
_CONSTANTS: dict[type, str] = {bool: "boolean", int: "int32", str: "varchar", type(None): _NULL}
_MOST = 2**31


def are_plain(clauses: Clauses, columns: Sequence[Column]) -> bool:
    """True if all conditions and values of a merge have the same result in every engine.

    Args:
        clauses: The clauses of the merge.
        columns: The columns of the table.
    """
    types = {f"{side}_{column.name}": column.type for column in columns for side in ("source", "target")}
    single = (clauses.not_matched, clauses.not_matched_by_source)
    conditions = [clause.when for clause in (*clauses.matched, *single) if clause is not None]
    updates = [clause.values for clause in clauses.matched if isinstance(clause, Update) and clause.values is not None]
    return all(when is None or _type_of(when, types) == "boolean" for when in conditions) and all(
        has_plain_values(values, columns, types) for values in updates
    )


def has_plain_values(values: Mapping[str, object], columns: Sequence[Column], types: Mapping[str, str]) -> bool:
    """True if values for columns have the same result in every engine.

    Args:
        values: The values by the names of the columns to set: constants or expressions.
        columns: The columns of the table.
        types: The DuckLake types of the columns that expressions may refer to.
    """
    wanted = {folded(column.name): column.type for column in columns}
    return all(_fits(_type_of(value, types), wanted.get(folded(name))) for name, value in values.items())


def _fits(found: str | None, wanted: str | None) -> bool:
    if found is None or wanted is None or found in _NESTED:
        return False
    return found in (wanted, _NULL) or (found == "int32" and wanted == "int64")


def _type_of(value: object, types: Mapping[str, str]) -> str | None:
    """The DuckLake type of an expression or a constant; None if its result is not certain."""
    if not isinstance(value, nw.Expr):
        return _type_of_constant(value)
    # A private attribute of narwhals, pinned by a test. Without it no expression is plain.
    first, *rest = getattr(value, "_nodes", None) or (None,)
    found = None if first is None else _type_of_root(first, types)
    for node in rest:
        found = None if found is None else _type_of_call(found, node, types)
    return found


def _type_of_constant(value: object) -> str | None:
    if type(value) is int and not -_MOST <= value < _MOST:
        return None
    return _CONSTANTS.get(type(value))


def _type_of_root(node: Any, types: Mapping[str, str]) -> str | None:
    if node.name == "col" and not node.exprs and len(node.kwargs["names"]) == 1:
        return types.get(node.kwargs["names"][0])
    if node.name == "lit" and not node.exprs and node.kwargs["dtype"] is None:
        return _type_of_constant(node.kwargs["value"])
    return None


def _type_of_call(found: str, node: Any, types: Mapping[str, str]) -> str | None:
    """The type after a method of an expression whose type is known."""
    if node.kwargs:
        return None
    if node.name == "is_null" and not node.exprs:
        return "boolean"
    if node.name == "__invert__" and not node.exprs:
        return "boolean" if found == "boolean" else None
    if len(node.exprs) != 1:
        return None
    other = _type_of(node.exprs[0], types)
    if node.name in _CONNECTIVES:
        return "boolean" if found == other == "boolean" else None
    return "boolean" if node.name in _COMPARISONS and _are_compared_alike(found, other) else None


def _are_compared_alike(found: str, other: str | None) -> bool:
    if found in _INTEGERS:
        return other in _INTEGERS
    return found == other and (is_matched_alike(found) or found in _FLOATS)
