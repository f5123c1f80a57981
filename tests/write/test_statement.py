"""Statements are parsed into the table that they change and the tables that they read."""

from __future__ import annotations

import pytest

from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.write.statement import parse_statement

TARGETS = [
    ("INSERT INTO raw.t (a, b) SELECT * FROM u", "raw.t", ["a", "b"]),
    ("UPDATE t SET a = 1", "main.t", []),
    ('DELETE FROM dev."Raw"."my.t" AS x WHERE x.a = 1', 'Raw."my.t"', []),
    ("MERGE INTO t AS x USING u ON x.a = u.a WHEN MATCHED THEN DELETE", "main.t", []),
]


@pytest.mark.parametrize(("sql", "table", "columns"), TARGETS)
def test_changed_table_and_columns(sql: str, table: str, columns: list[str]) -> None:
    statement = parse_statement(sql, "dev")
    assert (statement.name_of(statement.target), statement.columns) == (table, columns)


def test_read_tables_are_neither_frames_nor_common_table_expressions() -> None:
    sql = (
        "WITH c AS (SELECT * FROM a) MERGE INTO t USING (SELECT * FROM c JOIN Staged USING (id)) AS s ON t.id = s.id "
        "WHEN MATCHED AND EXISTS (SELECT 1 FROM raw.staged) THEN DELETE"
    )
    statement = parse_statement(sql, "dev")
    assert set(statement.read_tables({"staged"})) == {"main.a", "raw.staged"}
    assert set(statement.read_tables(set())) == {"main.a", "main.Staged", "raw.staged"}


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("WITH c AS (FROM c) INSERT INTO t FROM c", {"main.c"}),
        ("INSERT INTO t WITH c AS (FROM c) FROM c", {"main.c"}),
        ("INSERT INTO t SELECT * FROM c, (WITH c AS (SELECT 1) FROM c)", {"main.c"}),
        ("WITH a AS (FROM b), b AS (FROM a) DELETE FROM t WHERE x IN (FROM b)", {"main.b"}),
        ("WITH c AS (WITH d AS (FROM e) FROM d) UPDATE t SET x = (SELECT max(x) FROM d)", {"main.d", "main.e"}),
        (
            "WITH RECURSIVE c AS (SELECT 1 UNION FROM c) MERGE INTO t USING c ON t.x = c.x WHEN MATCHED THEN DELETE",
            set(),
        ),
        ("INSERT INTO t FROM dev.u", {"main.u"}),
        ("INSERT INTO t FROM dev.raw.u", {"raw.u"}),
    ],
)
def test_common_table_expression_hides_a_table_where_it_is_visible(sql: str, tables: set[str]) -> None:
    assert set(parse_statement(sql, "dev").read_tables(set())) == tables


def test_table_that_a_statement_changes_and_reads_is_read() -> None:
    assert set(parse_statement("INSERT INTO t SELECT * FROM t", "dev").read_tables(set())) == {"main.t"}


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("DELETE FROM t; DELETE FROM t", QueryError),
        ("SELECT 1", QueryError),
        ("DELETE FROM", QueryError),
        ("TRUNCATE t", QueryError),
        ("-- nothing", QueryError),
        ("(" * 5000, QueryError),
        ("DELETE FROM t RETURNING a", UnsupportedError),
        ("INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING", UnsupportedError),
        ("MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE", UnsupportedError),
    ],
)
def test_other_sql_is_refused(sql: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        _ = parse_statement(sql, "dev").target


def test_table_of_another_database_is_refused() -> None:
    statement = parse_statement("DELETE FROM t WHERE a IN (SELECT a FROM other.main.u)", "dev")
    with pytest.raises(QueryError, match="another database"):
        statement.read_tables(set())
