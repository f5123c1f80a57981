"""The names in a query, found by DuckDB's parser without binding or running the query."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.sql_references import Name, check_syntax, find_references, mentioned
from lakeconf.connection.connection import Connection, connect
from lakeconf.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf.catalog.sql_references import References


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with connect() as opened:
        yield opened


def found(connection: Connection, sql: str) -> References:
    references = find_references(connection, sql)
    assert references is not None
    return references


@pytest.mark.parametrize(
    ("sql", "relations"),
    [
        ("SELECT 1", set()),
        ("FROM t", {"t"}),
        ("FROM Lake.Raw.Events JOIN raw.other USING (id)", {"lake.raw.events", "raw.other"}),
        ("SELECT (SELECT max(a) FROM inner_one) FROM t WHERE EXISTS (FROM deep)", {"inner_one", "t", "deep"}),
        ("FROM a UNION ALL (FROM b EXCEPT FROM c)", {"a", "b", "c"}),
        ("WITH w AS (FROM hidden) FROM w", {"w", "hidden"}),
        ("FROM 'file.parquet'", {"file.parquet"}),
        ('FROM "odd.name"."X y"', {"odd.name.x y"}),
        ("PIVOT t ON a USING sum(b)", None),
        ("DESCRIBE t", {"t"}),
    ],
)
def test_relations_are_found_at_every_depth(connection: Connection, sql: str, relations: set[str] | None) -> None:
    references = find_references(connection, sql)
    assert (references and {str(name) for name in references.relations}) == relations


def test_parts_of_a_name_are_kept_apart(connection: Connection) -> None:
    assert found(connection, "FROM Lake.Raw.Events").relations == {Name("lake", "raw", "events")}
    assert found(connection, "FROM raw.events").relations == {Name("", "raw", "events")}
    assert str(Name("", "raw", "events")) == "raw.events"


def test_functions_and_table_functions_are_kept_apart(connection: Connection) -> None:
    references = found(connection, "SELECT Sum(ABS(a)), a + 1 FROM Range(3) AS t(a) WHERE a IN (SELECT getenv('X'))")
    assert references.table_functions == {"range"}
    assert {"sum", "abs", "getenv", "+"} <= references.functions
    assert "range" not in references.functions
    assert references.local == set()
    assert not references.everything
    assert not references.past


def test_names_of_common_table_expressions_are_local(connection: Connection) -> None:
    references = found(connection, 'WITH Outer_One AS (SELECT 1) FROM (WITH "Inner" AS (FROM t) FROM "Inner")')
    assert references.local == {"outer_one", "inner"}


@pytest.mark.parametrize(
    "sql",
    [
        "SHOW ALL TABLES",
        "SHOW TABLES",
        "FROM duckdb_views()",
        "FROM duckdb_tables",
        "FROM pg_catalog.pg_views",
        "FROM pg_views",
        "FROM information_schema.columns",
        "FROM sqlite_master",
        "FROM pragma_table_info('t')",
        "FROM query('FROM t')",
        "FROM query_table('t')",
        "FROM histogram('t', a)",
        "FROM histogram_values('t', a)",
        "FROM json_execute_serialized_sql('{}')",
        "SELECT (SELECT count(*) FROM Duckdb_Views())",
    ],
)
def test_query_that_can_reach_any_view_refers_to_everything(connection: Connection, sql: str) -> None:
    references = find_references(connection, sql)
    assert references is None or references.everything


@pytest.mark.parametrize(
    "sql", ["SHOW t", "FROM duckdbs", "FROM my_pg_views", "SELECT 'duckdb_views()'", "SELECT query FROM t", "FROM x.pg"]
)
def test_query_with_plain_names_does_not_refer_to_everything(connection: Connection, sql: str) -> None:
    assert not found(connection, sql).everything


def test_earlier_snapshot_is_noticed_at_every_depth(connection: Connection) -> None:
    for sql in ("FROM t AT (VERSION => 1)", "FROM u, (SELECT (SELECT 1 FROM t AT (TIMESTAMP => now())))"):
        assert found(connection, sql).past
    assert not found(connection, "SELECT version, at_clause FROM t").past


@pytest.mark.parametrize(
    "sql", ["", "SELECT 1; SELECT 2", "INSERT INTO t VALUES (1)", "SELEC 1", "SET threads = 1", "FROM t WHERE", "-- x"]
)
def test_other_sql_has_no_names(connection: Connection, sql: str) -> None:
    assert find_references(connection, sql) is None


def test_very_deep_query_has_no_names_or_all_of_them(connection: Connection) -> None:
    deep = "SELECT " + "(" * 300 + "SELECT a FROM t" + ")" * 300
    references = find_references(connection, deep)
    assert references is None or references.relations == {Name("", "", "t")}
    wide = " OR ".join(f"a = {number}" for number in range(5000))
    assert find_references(connection, f"FROM t WHERE {wide}") is not None


def test_parsed_query_is_neither_bound_nor_run(connection: Connection, tmp_path: Path) -> None:
    target = tmp_path / "file.csv"
    assert find_references(connection, f"COPY (SELECT 1) TO '{target}'") is None
    check_syntax(connection, f"COPY (SELECT 1) TO '{target}'")
    check_syntax(connection, f"PRAGMA import_database('{tmp_path}')")
    check_syntax(connection, "FROM nothing_of_this_name")
    assert not target.exists()


def test_syntax_error_is_reported_as_duckdb_does(connection: Connection) -> None:
    with pytest.raises(QueryError, match=r"^Parser Error: syntax error at or near .SELEC."):
        check_syntax(connection, "SELEC 1")
    check_syntax(connection, "SELECT 1; SELECT 2")
    check_syntax(connection, "SELECT 'it''s'")


def test_sigma_is_found_in_any_position() -> None:
    assert mentioned("SELECT main.Σ", ["\N{GREEK SMALL LETTER SIGMA}"]).functions == {"\N{GREEK SMALL LETTER SIGMA}"}
    assert mentioned('SELECT "ΑΣ".x', ["ας"]).functions == {"ας"}
