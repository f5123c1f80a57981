"""DuckDB binds a query: its names, and the types of its values."""

from __future__ import annotations

import pytest
from sqlglot import exp

from lakeconf.engines.spark.sql.bound_query import base_tables, bind
from lakeconf.errors import QueryError, UnsupportedError

TABLES = {
    "t": {"i": "INTEGER", "d": "DECIMAL(15,2)", "v": "VARCHAR", "Odd Name": "DATE"},
    "u": {"i": "BIGINT", "x": "DOUBLE"},
}


def test_result_has_the_names_and_types_of_duckdb() -> None:
    bound = bind('SELECT *, i AS "I", NULL FROM t', TABLES)
    assert [name for name, _ in bound.columns] == ["i", "d", "v", "Odd Name", "I", "NULL"]
    assert bound.columns[3:] == [("Odd Name", "DATE"), ("I", "INTEGER"), ("NULL", "INTEGER")]


def test_columns_get_the_names_of_their_tables() -> None:
    bound = bind("SELECT x FROM t JOIN u USING (i) WHERE v = 'a'", TABLES)
    assert {column.table for column in bound.tree.find_all(exp.Column)} == {"t", "u"}


def test_tables_are_found_behind_ctes_of_the_same_name() -> None:
    bound = bind("WITH u AS (SELECT i FROM t) SELECT u.i FROM u JOIN t ON u.i = t.i", TABLES)
    assert [table.name for table in base_tables(bound)] == ["t", "t"]


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT nothing FROM t", "nothing"),
        ("SELECT * FROM missing", "missing"),
        ("SELEC", "SELEC"),
        ("SELECT * FROM read_csv('/etc/hostname')", "disabled"),
        ("SELECT * FROM sql", "sql"),
        ("SELECT i FROM t, u", "(?i)ambiguous"),
    ],
)
def test_query_that_duckdb_rejects_is_an_error(sql: str, message: str) -> None:
    with pytest.raises(QueryError, match=message):
        bind(sql, TABLES)


def test_two_tables_with_one_name_are_an_error() -> None:
    with pytest.raises(QueryError, match="already exists"):
        bind("SELECT 1", {"One": {"i": "INTEGER"}, "one": {"i": "INTEGER"}})


@pytest.mark.parametrize(
    "sql",
    [
        # sqlglot compares all letters without their case, DuckDB only those of ASCII.
        'SELECT "É" FROM e',
        "CREATE TABLE z AS SELECT 1",
        "SELECT 1; SELECT 2",
    ],
)
def test_query_that_sqlglot_reads_in_another_way_is_refused(sql: str) -> None:
    with pytest.raises((UnsupportedError, QueryError)):
        bind(sql, TABLES | {"e": {"É": "INTEGER", "é": "VARCHAR"}})
