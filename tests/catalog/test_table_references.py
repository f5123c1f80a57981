"""The tables that a query names, and views in their place."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from lakeconf.catalog.query_text import (
    named_as,
    original_offset,
    point_to,
    replaced,
    semicolons,
    span_of,
    table_references,
)


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
        ("SELECT * FROM a, (WITH a AS (SELECT 1) SELECT * FROM a)", ["a"]),
        ("(WITH a AS (SELECT 1) SELECT * FROM a) UNION ALL SELECT * FROM a", ["a"]),
        ("WITH a AS (SELECT 1) SELECT * FROM a UNION ALL (SELECT * FROM a)", []),
        ("WITH a AS (SELECT 1) (SELECT * FROM a) UNION ALL (SELECT * FROM a)", []),
        ("WITH a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM b", ["b"]),
        ("WITH a AS (SELECT 1) SELECT * FROM (WITH b AS (SELECT * FROM a) SELECT * FROM b)", []),
        ("WITH RECURSIVE a AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        ("WITH RECURSIVE a AS (SELECT * FROM a EXCEPT SELECT * FROM a) SELECT * FROM a", ["a", "a"]),
        ("WITH RECURSIVE a AS (SELECT * FROM a UNION SELECT 2 UNION (SELECT * FROM a)) SELECT * FROM a", ["a"]),
        ("WITH RECURSIVE a AS ((SELECT 1 UNION SELECT * FROM a)) SELECT * FROM a", []),
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


def test_the_name_of_a_table_is_replaced_in_the_text() -> None:
    text = '/* raw.a */ FROM raw . "a" JOIN b AS k USING (id) WHERE x = y IS NOT NULL;'
    changes = {span_of(table): named_as("v", table) for table in table_references(parsed(text))}
    made = replaced(text, {**changes, **semicolons(sqlglot.tokenize(text, read="duckdb"))})
    assert made == '/* raw.a */ FROM v AS "a" JOIN v AS k USING (id) WHERE x = y IS NOT NULL'


def test_an_offset_in_the_new_text_has_one_in_the_old_text() -> None:
    text, changes = "a long, b, c;", {(2, 6): "x", (8, 9): "longer", (12, 13): ""}
    new = replaced(text, changes)
    assert new == "a x, longer, c"
    assert {word: text[original_offset(changes, new.index(word)) :] for word in ("a", "x", "longer", "c")} == {
        "a": text,
        "x": "long, b, c;",
        "longer": "b, c;",
        "c": "c;",
    }
    assert original_offset(changes, new.index("ger")) == 8
