"""A query as a tree of sqlglot, in which each value has DuckDB's type."""

from __future__ import annotations

import duckdb
from sqlglot import exp

from lakeconf.engines.spark.sql.value_types import ValueType, value_type
from lakeconf.errors import UnsupportedError

HINT = "write it with narwhals, or run it on DuckDB"
TYPE, COLUMNS, BASE = "duckdb_type", "duckdb_columns", "is_table"
# Marks the length of an interval: a BIGINT in Spark.
INTERVAL_LENGTH = "is_length"
# What can be around an aggregate.
WRAPPERS = (exp.Window, exp.Filter)


def type_of(node: exp.Expr) -> ValueType:
    """DuckDB's type of a value in a bound query.

    Raises:
        UnsupportedError: It has none.
    """
    found = node.meta.get(TYPE)
    if found is None:
        raise UnsupportedError(f"the query cannot be translated for Spark: {node.sql(dialect='duckdb')}", hint=HINT)
    return value_type(str(found))


def set_type(node: exp.Expr, name: str) -> exp.Expr:
    """Sets DuckDB's type of a value, and returns the value."""
    node.meta[TYPE] = name
    return node


def columns_of(query: exp.Expr) -> list[tuple[str, str]]:
    """The names and types of the columns of a SELECT or set operation in a bound query; names can be equal."""
    found: list[tuple[str, str]] = query.meta[COLUMNS]
    return found


def column_types(query: exp.Expr) -> list[str]:
    """The types of the columns of a SELECT or set operation in a bound query."""
    return [type_ for _, type_ in columns_of(query)]


def is_branch(node: exp.Expr) -> bool:
    """True for a branch of a CASE, and false for the function `if`."""
    return isinstance(node, exp.If) and isinstance(node.parent, exp.Case) and node.arg_key == "ifs"


def outermost(part: exp.Expr, *kinds: type[exp.Expr]) -> exp.Expr:
    """The largest part around a part, or the part itself, with only these kinds in between."""
    while part.parent is not None and isinstance(part.parent, kinds):
        part = part.parent
    return part


def reason_of(error: duckdb.Error) -> str:
    """The first paragraph of an error of DuckDB, in one line."""
    return " ".join(str(error).split("\n\n")[0].split())
