"""Values of a query have the types that DuckDB gives them."""

from __future__ import annotations

import pytest

from lakeconf.engines.spark.sql.bound_query import bind
from lakeconf.engines.spark.sql.typed_tree import columns_of, type_of

TABLES = {
    "t": {"i": "INTEGER", "d": "DECIMAL(15,2)", "v": "VARCHAR", "Odd Name": "DATE"},
    "u": {"i": "BIGINT", "x": "DOUBLE"},
}


def types(sql: str) -> list[str]:
    bound = bind(sql, TABLES)
    assert len(columns_of(bound.tree)) == len(bound.columns)
    return [type_ for _, type_ in bound.columns]


@pytest.mark.parametrize(
    ("sql", "found"),
    [
        ("SELECT i + 1, d * (1 - d), v || 'a' FROM t", ["INTEGER", "DECIMAL(18,4)", "VARCHAR"]),
        ("SELECT sum(i), avg(d), count(*), max(v) FROM t", ["HUGEINT", "DOUBLE", "BIGINT", "VARCHAR"]),
        ("SELECT avg(sum(i)) OVER (PARTITION BY v ORDER BY sum(d)) FROM t GROUP BY v", ["DOUBLE"]),
        ("SELECT count(*) FILTER (WHERE i > 0), i > 0 FROM t GROUP BY i", ["BIGINT", "BOOLEAN"]),
        ("SELECT (SELECT max(x) FROM u WHERE u.i = t.i) FROM t", ["DOUBLE"]),
        ("WITH c AS (SELECT i * 2 AS j FROM u) SELECT j FROM c UNION ALL SELECT d FROM t", ["DECIMAL(21,2)"]),
        ("SELECT NULL, coalesce(NULL, i) FROM t", ["INTEGER", "INTEGER"]),
        ("SELECT grouping(v), v FROM t GROUP BY ROLLUP (v)", ["BIGINT", "VARCHAR"]),
        ("SELECT i FROM (SELECT NULL AS i) s ORDER BY i IS NULL", ["INTEGER"]),
        ("SELECT DATE '2024-01-01' - 1, 0.5, 1e3, 3000000000", ["DATE", "DECIMAL(2,1)", "DOUBLE", "BIGINT"]),
    ],
)
def test_values_have_the_types_of_duckdb(sql: str, found: list[str]) -> None:
    assert types(sql) == found


def test_parts_of_values_have_types() -> None:
    value = bind("SELECT d * (1 - d) + i FROM t", TABLES).tree.expressions[0].unalias()
    assert type_of(value).name == "DECIMAL(18,4)"
    assert type_of(value.this).name == "DECIMAL(18,4)"
    assert type_of(value.this.expression).name == "DECIMAL(16,2)"
    assert type_of(value.expression).name == "INTEGER"


def test_sides_of_a_union_keep_their_types() -> None:
    tree = bind("SELECT i FROM t UNION SELECT x FROM u", TABLES).tree
    assert columns_of(tree) == [("i", "DOUBLE")]
    assert columns_of(tree.this) == [("i", "INTEGER")]
