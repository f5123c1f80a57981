"""Operands have parentheses, so that a text means the same tree in each engine."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from lakeconf.engines.spark.sql.bound_query import bind
from lakeconf.engines.spark.sql.parentheses import with_parentheses
from lakeconf.errors import UnsupportedError


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a + b * c", "a + (b * c)"),
        ("a IN (1, 2) = c", "(a IN (1, 2)) = c"),
        ("NOT a BETWEEN b AND c", "NOT (a BETWEEN b AND c)"),
        ("a = 1 AND b = 2 AND c", "a = 1 AND b = 2 AND c"),
        ("a AND b OR c", "(a AND b) OR c"),
        ("(a + b) * c", "(a + b) * c"),
        ("-a + b", "(-a) + b"),
    ],
)
def test_operands_that_are_operations_have_parentheses(written: str, expected: str) -> None:
    tree = sqlglot.parse_one(f"SELECT {written}", dialect="duckdb")
    assert isinstance(tree, exp.Query)
    assert with_parentheses(tree).sql(dialect="duckdb") == f"SELECT {expected}"


def test_tree_that_sqlglot_nests_in_another_way_than_duckdb_is_refused() -> None:
    """DuckDB reads `(o = p) IS NULL`, sqlglot `o = (p IS NULL)`."""
    table = {"x": {"o": "BOOLEAN", "p": "BOOLEAN"}}
    with pytest.raises(UnsupportedError, match="unknown"):
        bind("SELECT o = p IS NULL FROM x", table)
    bind("SELECT (o = p) IS NULL, o = (p IS NULL) FROM x", table)
