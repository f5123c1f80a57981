"""What a query names, found by DuckDB's parser: tables, functions, parameters, and their places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from catalog_lake import AttachedLake, lake

from lakeconf.catalog.queries.parsed_query import (
    NotOneQuery,
    original_offset,
    parse_query,
    query_over_views,
    reads_only,
    replaced,
)
from lakeconf.catalog.queries.sql_references import Name, check_syntax, find_references, mentioned, nodes
from lakeconf.connection.connection import Connection, connect
from lakeconf.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf.catalog.queries.sql_references import References


def test_tables_are_found_and_ctes_are_not() -> None:
    for sql, names in (
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
    ):
        assert [table.name for table in parse_query(sql).tables] == names, sql


def test_only_the_names_of_views_change() -> None:
    for sql, changed in (
        ("SELECT t.a = b IS NOT NULL FROM t;", 'SELECT t.a = b IS NOT NULL FROM v AS "t";'),
        ("SELECT x.q FROM t AS x(q)", "SELECT x.q FROM v AS x(q)"),
        ("FROM k : t, t k2", "FROM k : v, v k2"),
        ("SELECT 'é' -- FROM t\nFROM t, main.t", "SELECT 'é' -- FROM t\nFROM v AS \"t\", main.t"),
        ('FROM "T" JOIN t AS "x""; y" USING (a)', 'FROM v AS "T" JOIN v AS "x""; y" USING (a)'),
        ("DESCRIBE t", "DESCRIBE v"),
        ("SUMMARIZE t", "SUMMARIZE v"),
        ("DESCRIBE SELECT t.a FROM t", 'DESCRIBE SELECT t.a FROM v AS "t"'),
        ("FROM 'x.csv', 日本, t", "FROM 'x.csv', 日本, v AS \"t\""),
    ):
        assert query_over_views(sql, {"t": "v"}) == changed, sql


def test_a_name_of_several_parts_is_one_place() -> None:
    text = 'FROM lake /* a */ . "ra""w"\n. -- b\n t AS x, y'
    first, _ = parse_query(text).tables
    assert (first.parts, first.alias) == (["lake", 'ra"w', "t"], "x")
    assert replaced(text, {first.span: "v"}) == "FROM v AS x, y"


def test_queries_that_read_only_frames() -> None:
    for sql in ('SELECT * FROM f JOIN F AS "x" USING (i) WHERE i > 1', "SELECT lower(s) FROM f"):
        assert reads_only(sql, ["f"]), sql
    for sql in ("FROM f, t", "FROM main.f", "FROM f, range(2)", "DROP TABLE f"):
        assert not reads_only(sql, ["f"]), sql


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


def test_a_deep_tree_needs_no_recursion() -> None:
    tree: dict[str, Any] = {}
    for _ in range(100_000):
        tree = {"child": [tree]}
    assert sum(1 for _ in nodes(tree)) == 100_001
    while tree:
        (tree,) = tree.pop("child")  # Python frees a deep tree with recursion


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with connect() as opened:
        yield opened


def found(sql: str) -> References:
    references = find_references(sql)
    assert references is not None
    return references


def test_relations_are_found_at_every_depth() -> None:
    for sql, relations in (
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
    ):
        references = find_references(sql)
        assert (references and {str(name) for name in references.relations}) == relations, sql


def test_functions_table_functions_and_earlier_snapshots_are_noticed() -> None:
    references = found("SELECT Sum(ABS(a)), a + 1 FROM Range(3) AS t(a) WHERE a IN (SELECT getenv('X'))")
    assert references.table_functions == {"range"}
    assert {"sum", "abs", "getenv", "+"} <= references.functions
    assert "range" not in references.functions
    assert references.local == set()
    assert not references.everything
    assert not references.past
    for sql in ("FROM t AT (VERSION => 1)", "FROM u, (SELECT (SELECT 1 FROM t AT (TIMESTAMP => now())))"):
        assert found(sql).past
    assert not found("SELECT version, at_clause FROM t").past


def test_query_that_can_reach_any_view_refers_to_everything() -> None:
    for sql in (
        *("SHOW ALL TABLES", "SHOW TABLES", "FROM duckdb_views()", "FROM duckdb_tables", "FROM pg_catalog.pg_views"),
        *("FROM pg_views", "FROM information_schema.columns", "FROM sqlite_master", "FROM pragma_table_info('t')"),
        *("FROM query('FROM t')", "FROM query_table('t')", "FROM histogram('t', a)", "FROM histogram_values('t', a)"),
        *("FROM json_execute_serialized_sql('{}')", "SELECT (SELECT count(*) FROM Duckdb_Views())"),
    ):
        references = find_references(sql)
        assert references is None or references.everything, sql
    for sql in (
        *("SHOW t", "FROM duckdbs", "FROM my_pg_views", "SELECT 'duckdb_views()'", "SELECT query FROM t", "FROM x.pg"),
    ):
        assert not found(sql).everything, sql


def test_other_sql_has_no_names() -> None:
    other = ("", "SELECT 1; SELECT 2", "INSERT INTO t VALUES (1)", "SELEC 1", "SET threads = 1", "FROM t WHERE", "-- x")
    assert [find_references(sql) for sql in other] == [None] * len(other)


def test_very_deep_query_has_no_names_or_all_of_them() -> None:
    deep = "SELECT " + "(" * 300 + "SELECT a FROM t" + ")" * 300
    references = find_references(deep)
    assert references is None or references.relations == {Name("", "", "t")}
    wide = " OR ".join(f"a = {number}" for number in range(5000))
    assert find_references(f"FROM t WHERE {wide}") is not None


def test_parsed_query_is_neither_bound_nor_run(connection: Connection, tmp_path: Path) -> None:
    target = tmp_path / "file.csv"
    assert find_references(f"COPY (SELECT 1) TO '{target}'") is None
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


QUERY = """
    SELECT c.column_id AS id, c.column_name AS name, c.initial_default AS value, c.nulls_allowed AS nullable
    FROM ducklake_column AS c WHERE c.table_id >= $1 AND lower(c.column_name) <> lower($2)
"""
TYPES = "id BIGINT, name VARCHAR, value VARCHAR, nullable BOOLEAN"


@pytest.mark.parametrize("kind", ["duckdb", "sqlite", "postgres"])
def test_rows_are_those_that_duckdb_reads(kind: str, tmp_path: Path, postgres_server: PostgresServer) -> None:
    with lake(kind, tmp_path, server=postgres_server) as source:
        source.run("CREATE TABLE lake.t (a INTEGER NOT NULL, b VARCHAR, left_out INTEGER)")
        source.run('ALTER TABLE lake.t ADD COLUMN "It\'s ""ü"" ?" VARCHAR DEFAULT \'it\'\'s "ü"\'')
        with source.reader.transaction() as transaction:
            assert (transaction.own_query is not None) == (kind == "sqlite")
            expected = transaction.rows(f"{QUERY} ORDER BY id", [1, "Left_Out"])
            assert transaction.own_rows(QUERY, TYPES, [1, "Left_Out"], order="id") == expected
            assert transaction.own_rows(QUERY, TYPES, [1, "it's 'odd'"], order="id DESC")[0][0] == 4
            assert transaction.own_rows(QUERY, TYPES, [99, ""]) == []
        assert [(row[0], row[3]) for row in expected] == [(1, False), (2, True), (4, True)]
        assert expected[2][1:3] == ('It\'s "ü" ?', 'it\'s "ü"')


def test_value_that_has_no_literal_is_bound(tmp_path: Path) -> None:
    with lake("sqlite", tmp_path) as source, source.reader.transaction() as transaction:
        query = "SELECT snapshot_id AS id FROM ducklake_snapshot WHERE snapshot_id < ?"
        assert transaction.own_rows(query, "id BIGINT", [0.5]) == [(0,)]


def test_own_rows_are_of_the_state_of_the_transaction(tmp_path: Path) -> None:
    newest = "SELECT max(snapshot_id) AS id FROM ducklake_snapshot"

    def read(source: AttachedLake) -> list[tuple[Any, ...]]:
        return transaction.own_rows(newest, "id BIGINT")

    with lake("sqlite", tmp_path, options=", META_JOURNAL_MODE 'WAL'") as source:
        with source.reader.transaction() as transaction:
            before = read(source)
            source.run("CREATE TABLE lake.t (a INTEGER)")
            assert read(source) == before
        with source.reader.transaction() as transaction:
            assert read(source) != before


def test_comments_match_in_one_way_only() -> None:
    """Otherwise each comment would double the time."""
    for text in ("/**/", "/*/**/*/", "--\n", "/* * / ** */"):
        for end in ("x, u", ", u"):
            found = parse_query(f"SELECT * FROM t {text * 45}{end}").tables
            assert [place.alias for place in found] == [end.partition(",")[0], ""]
