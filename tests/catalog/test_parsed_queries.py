"""The tables, functions and parameters of a query, and their places in its text."""

from __future__ import annotations

import pytest

from lakeconf.catalog.sql_references import NotOneQuery, original_offset, parse_query, query_over_views, replaced
from lakeconf.errors import QueryError


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("SELECT * FROM raw.a JOIN b USING (id)", ["raw.a", "b"]),
        ("FROM a JOIN b USING (id)", ["a", "b"]),
        ("WITH c AS (SELECT * FROM a) SELECT * FROM C, raw.c", ["a", "raw.c"]),
        ("SELECT (SELECT max(id) FROM b) FROM a", ["b", "a"]),
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
        ("FROM (UNPIVOT a ON x, y)", ["a"]),
        ("PIVOT raw.a ON x IN (1, 2) USING sum(y)", ["raw.a"]),
        ("FROM a AT (VERSION => 3)", ["a"]),
    ],
)
def test_tables_are_found_and_ctes_are_not(sql: str, names: list[str]) -> None:
    assert [table.name for table in parse_query(sql).tables] == names


@pytest.mark.parametrize(
    ("sql", "changed"),
    [
        ("SELECT t.a = b IS NOT NULL FROM t;", 'SELECT t.a = b IS NOT NULL FROM v AS "t";'),
        ("SELECT x.q FROM t AS x(q)", "SELECT x.q FROM v AS x(q)"),
        ("FROM k : t, t k2", "FROM k : v, v k2"),
        ("SELECT 'é' -- FROM t\nFROM t, main.t", "SELECT 'é' -- FROM t\nFROM v AS \"t\", main.t"),
        ('FROM "T" JOIN t AS "x""; y" USING (a)', 'FROM v AS "T" JOIN v AS "x""; y" USING (a)'),
        ("DESCRIBE t", "DESCRIBE v"),
        ("SUMMARIZE t", "SUMMARIZE v"),
        ("DESCRIBE SELECT t.a FROM t", 'DESCRIBE SELECT t.a FROM v AS "t"'),
        ("FROM 'x.csv', 日本, t", "FROM 'x.csv', 日本, v AS \"t\""),
    ],
)
def test_only_the_names_of_views_change(sql: str, changed: str) -> None:
    assert query_over_views(sql, {"t": "v"}) == changed


def test_a_name_of_several_parts_is_one_place() -> None:
    text = 'FROM lake /* a */ . "ra""w"\n. -- b\n t AS x, y'
    first, _ = parse_query(text).tables
    assert (first.parts, first.alias) == (["lake", 'ra"w', "t"], "x")
    assert replaced(text, {first.span: "v"}) == "FROM v AS x, y"


def test_functions_and_parameters_have_places() -> None:
    text = "SELECT 'ü$start', $start FROM range(2), Read_CSV('x') -- $start\nWHERE a$b = $end"
    found = parse_query(text)
    assert [text[offset : offset + len(name)].lower() for name, offset in found.functions] == ["range", "read_csv"]
    assert [(name, text[start:end]) for name, (start, end) in found.parameters] == [
        ("start", "$start"),
        ("end", "$end"),
    ]


@pytest.mark.parametrize(
    ("sql", "message", "offset"),
    [
        ("SELECT 'é',\n 1 AS a b", "syntax error", 20),
        ("SELECT 1; SELECT 2", "there are several", None),
        ("-- nothing", "there is none", None),
        ("DELETE FROM t", "it is no SELECT", None),
        ("PIVOT t ON x USING sum(y)", "must list its values", None),
        ("SELECT 1\0 FROM t", "it contains a NUL", None),
        ("FROM e'x'", "the place of the table x is unknown", None),
    ],
)
def test_other_text_is_no_query(sql: str, message: str, offset: int | None) -> None:
    with pytest.raises(NotOneQuery, match=message) as caught:
        parse_query(sql)
    assert caught.value.offset == offset
    with pytest.raises(QueryError, match="the names of frames cannot be found"):
        query_over_views(sql, {"t": "v"})


def test_an_offset_in_the_new_text_has_one_in_the_old_text() -> None:
    text, changes = "a b c", {(2, 3): "longer"}
    new = replaced(text, changes)
    assert [original_offset(changes, new.index(word)) for word in ("a", "longer", "nger", "c")] == [0, 2, 2, 4]
