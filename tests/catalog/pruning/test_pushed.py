"""Conditions of Spark: planning understands some, and no shape of a condition raises an error."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given

from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.catalog.pruning.pushed import exact_predicate, pushed_predicate
from lakeconf.catalog.tables import Column

TYPES = ("int32", "varchar", "float64", "decimal(9,2)", "date", "timestamp", "timestamptz", "boolean", "struct", "blob")
COLUMNS = [Column(number, f"c{number}", kind, nullable=True, initial_default=None) for number, kind in enumerate(TYPES)]
# As Spark describes them.
LITERALS = [("int", "5"), ("string", "a"), ("double", "NaN"), ("double", "0.5"), ("decimal(3,1)", "1.5"), ("date", "7")]
LITERALS += [("date", "2147483647"), ("timestamp", "1"), ("timestamp_ntz", "9" * 18), ("boolean", "true")]
LITERALS += [("binary", "[B@1"), ("decimal(38,10)", "1E-10"), ("void", "null")]
NAMES = ["=", "<>", "<", "<=", ">", ">=", "<=>", "IN", "AND", "OR", "NOT", "IS_NULL", "IS_NOT_NULL", "STARTS_WITH"]
NAMES += ["ENDS_WITH", "CONTAINS", "ALWAYS_TRUE", "BOOLEAN_EXPRESSION"]
LEAVES = st.one_of(
    st.sampled_from([["column", f"c{number}"] for number in range(len(TYPES) + 1)]),  # the last one is unknown
    st.sampled_from([["literal", *literal] for literal in LITERALS]),
)
OPERANDS = {"NOT": 1, "IS_NULL": 1, "IS_NOT_NULL": 1, "ALWAYS_TRUE": 0, "BOOLEAN_EXPRESSION": 1}


def _nodes(children: st.SearchStrategy[list[object]]) -> st.SearchStrategy[list[object]]:
    def node(name: str) -> st.SearchStrategy[list[object]]:
        count = OPERANDS.get(name, 2)
        most = 4 if name == "IN" else count
        return st.lists(children, min_size=count, max_size=most).map(lambda parts: [name, *parts])

    return st.sampled_from(NAMES).flatmap(node)


@given(st.recursive(LEAVES, _nodes, max_leaves=8))
def test_every_condition_is_understood_or_not(condition: list[object]) -> None:
    for predicate in (pushed_predicate([condition], COLUMNS), exact_predicate([condition], COLUMNS)):
        if predicate is not None:
            to_duckdb_sql(predicate)
