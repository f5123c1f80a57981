"""Statements are parsed into the table that they change, its columns, and the tables that they may read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import pytest
from local_stores import store_of

from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.write.execute import Statement, parse_statement

Parse: TypeAlias = Callable[[str], Statement]
PARSED = [
    ("INSERT INTO raw.t (a, b) SELECT * FROM u", "raw.t", {"a", "b"}, {"u"}),
    ('INSERT INTO t ("values", "b c") VALUES (1, DEFAULT)', "main.t", {"values", "b c"}, set()),
    ("INSERT INTO t DEFAULT VALUES", "main.t", set(), set()),
    ("INSERT INTO t BY NAME FROM u;", "main.t", set(), {"u"}),
    ("INSERT INTO t AS x (SELECT 1 FROM u)", "main.t", set(), {"u"}),
    ("WITH c AS (FROM u) INSERT INTO t WITH d AS (FROM c) FROM d", "main.t", set(), {"u", "c", "d"}),
    ("UPDATE t SET a = 1", "main.t", {"a"}, set()),
    ("UPDATE t AS x SET a = b IS DISTINCT FROM c, (d, E) = (1, 2), f = g = h FROM u, v WHERE i = j", "main.t",
     {"a", "d", "e", "f"}, {"u", "v"}),
    ('DELETE FROM dev."Raw"."my.t" AS x WHERE x.a = 1', 'raw."my.t"', set(), set()),
    ("DELETE FROM t USING u, (FROM v) AS w WHERE t.a = u.a", "main.t", set(), {"u", "v"}),
    ("WITH insert AS (FROM u) /* ; */ DELETE FROM t -- UPDATE\n WHERE a IN (FROM insert) ; ", "main.t", set(),
     {"u", "insert"}),
    ("DELETE FROM t WHERE a IN (WITH RECURSIVE t AS (SELECT 1 AS a UNION ALL FROM t) FROM t)", "main.t", set(), {"t"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def parse(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parse]:
    with store_of(tmp_path_factory.mktemp("lake")).open() as lake:
        yield lambda sql: parse_statement(lake._session.reader.connection, sql, "dev")


@pytest.mark.parametrize(("sql", "table", "columns", "reads"), PARSED)
def test_what_a_statement_changes_and_reads(
    sql: str, table: str, columns: set[str], reads: set[str], parse: Parse
) -> None:
    found: Statement = parse(sql)
    assert found.name_of(found.target) == table
    assert (set(found.columns), {str(one) for one in found.reads.relations}) == (columns, reads)


def test_names_of_the_lake_and_of_other_databases(parse: Parse) -> None:
    found: Statement = parse("INSERT INTO t FROM dev.u JOIN dev.raw.u USING (a) JOIN other.raw.u USING (a)")
    own, raw, other = sorted(found.reads.relations, key=lambda one: (one.database, one.schema))
    assert (found.name_of(own), found.name_of(raw)) == ("main.u", "raw.u")
    with pytest.raises(QueryError, match=r"other\.raw\.u is a table of another database"):
        found.name_of(other)


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("INSERT INTO t VALUES (1) RETURNING a", UnsupportedError),
        ("INSERT INTO t VALUES (1) ON CONFLICT (a) DO NOTHING", UnsupportedError),
        ("MERGE INTO t USING u USING (a) WHEN MATCHED THEN DELETE", UnsupportedError),
        ("TRUNCATE t", QueryError),
        ("WITH update AS (SELECT 1) FROM update", QueryError),
        ("DELETE FROM t; PRAGMA version", QueryError),
        ("DELETE FROM a.b.c.d", QueryError),
    ],
)
def test_other_statements_are_refused(sql: str, error: type[Exception], parse: Parse) -> None:
    with pytest.raises(error):
        parse(sql)
