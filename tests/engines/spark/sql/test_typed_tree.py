"""Values keep DuckDB's types."""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp

from lakeconf.engines.spark.sql.bound_query import bind
from lakeconf.engines.spark.sql.typed_tree import column_types, columns_of, is_branch, reason_of, set_type, type_of
from lakeconf.errors import UnsupportedError


def test_type_can_be_set() -> None:
    assert type_of(set_type(exp.column("a"), "DECIMAL(4,2)")).scale == 2
    assert type_of(set_type(exp.column("a"), "DECIMAL(4,2)").copy()).digits == 4


def test_value_without_a_type_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="cannot be translated for Spark: a"):
        type_of(exp.column("a"))


def test_columns_can_have_equal_names() -> None:
    tree = bind("SELECT 1 AS a, 'x' AS a", {}).tree
    assert columns_of(tree) == [("a", "INTEGER"), ("a", "VARCHAR")]
    assert column_types(tree) == ["INTEGER", "VARCHAR"]


def test_branches_of_a_case_are_not_calls_of_if() -> None:
    tree = bind("SELECT CASE WHEN true THEN 1 ELSE if(false, 2, 3) END", {}).tree
    assert sorted(is_branch(node) for node in tree.find_all(exp.If)) == [False, True]


def test_reason_is_one_line() -> None:
    error = duckdb.BinderException("Binder Error: first\nsecond\n\nLINE 1: SELECT")
    assert reason_of(error) == "Binder Error: first second"
