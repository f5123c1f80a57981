"""The tables that a query names, and views in their place."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from lakeconf.catalog.table_references import point_to, table_references


def parsed(sql: str) -> exp.Query:
    found = sqlglot.parse_one(sql, dialect="duckdb")
    assert isinstance(found, exp.Query)
    return found


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM raw.a JOIN b USING (id)", ["a", "b"]),
        ("FROM a JOIN b USING (id)", ["a", "b"]),
        ("WITH c AS (SELECT * FROM a) SELECT * FROM C, raw.c", ["a", "c"]),
        ("SELECT (SELECT max(id) FROM b) FROM a", ["a", "b"]),
    ],
)
def test_tables_are_found_and_ctes_are_not(sql: str, names: list[str]) -> None:
    assert sorted(table.name for table in table_references(parsed(sql))) == names


@pytest.mark.parametrize(
    ("sql", "changed"),
    [
        ("SELECT a.id FROM lake.raw.a", 'SELECT a.id FROM "v" AS "a"'),
        ("SELECT x.id FROM raw.a AS x", 'SELECT x.id FROM "v" AS x'),
        ("SELECT x.q FROM raw.a AS x(q)", 'SELECT x.q FROM "v" AS x(q)'),
        ("FROM raw.a JOIN (SELECT 1 AS id) AS b USING (id)", 'FROM "v" AS "a" JOIN (SELECT 1 AS id) AS b USING (id)'),
    ],
)
def test_view_keeps_the_alias_and_the_joins(sql: str, changed: str) -> None:
    tree = parsed(sql)
    (table,) = table_references(tree)
    point_to(table, "v")
    assert tree.sql(dialect="duckdb") == sqlglot.parse_one(changed, dialect="duckdb").sql(dialect="duckdb")
