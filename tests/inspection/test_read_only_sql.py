"""Queries that can only read the lake: not files, other databases or the catalog, and only one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

from lakeconf.errors import QueryError, SchemaError, StorageError, UnknownNameError, UnsafeQueryError
from lakeconf.inspection.read_only_sql import query

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Store

MAINTAIN = (
    "use lakeconf maintain to maintain a lake, lakeconf tables or snapshots to inspect it, and a DuckDB connection to "
    "read files: store.connect()"
)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A store whose lake has the tables `t` and `raw.u`, files elsewhere, a view, and safe and unsafe macros."""
    folder = tmp_path_factory.mktemp("lake")
    made = store_of(folder)
    with made.connect() as native:
        native.execute("CREATE TABLE dev.t AS SELECT range AS a FROM range(5); CREATE SCHEMA dev.raw")
        native.execute("CREATE TABLE dev.raw.u AS SELECT 1 AS a; CREATE VIEW dev.v AS SELECT a FROM dev.t WHERE a > 2")
        native.execute("CREATE MACRO dev.rows_of(n) AS TABLE SELECT * FROM range(n) AS r(a)")
        native.execute(f"COPY (SELECT 7 AS a) TO '{folder}/elsewhere.parquet'")
        native.execute(f"CALL ducklake_add_data_files('dev', 'u', '{folder}/elsewhere.parquet', schema => 'raw')")
        native.execute(f"CREATE VIEW dev.stolen AS FROM read_parquet('{folder}/elsewhere.parquet')")
    return made


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return sorted(query(store, sql)[1])


@pytest.mark.slow
def test_query_returns_names_and_rows(store: Store) -> None:
    names, found = query(store, 'SELECT a, a + 1 AS "odd, name" FROM t ORDER BY a', 2)
    assert (list(names), found) == (["a", "odd, name"], [(0, 1), (1, 2)])
    assert query(store, "SELECT a FROM t WHERE a > 99")[1] == []
    assert len(query(store, "FROM t")[1]) == 5
    for statement, answer in (
        ("FROM dev.snapshots()", "changes"),
        ("FROM ducklake_table_changes('dev', 'main', 't', 0, 1)", "change_type"),
        ("SUMMARIZE t", "approx_unique"),
        ("DESCRIBE t", "column_type"),
    ):
        names, found = query(store, statement)
        assert (answer in names, len(found) > 0) == (True, True)


@pytest.mark.slow
def test_query_of_the_lake_runs(store: Store) -> None:
    expected: dict[str, list[tuple[Any, ...]]] = {
        "FROM v": [(3,), (4,)],
        "FROM dev.raw.u": [(1,), (7,)],
        "SELECT count(*) FROM t AT (VERSION => 0 + 1)": [(5,)],
        "FROM rows_of(2)": [(0,), (1,)],
        "SELECT sum(a) OVER () FROM t LIMIT 1": [(10,)],
        "WITH RECURSIVE n AS (SELECT 1 AS a UNION ALL SELECT a + 1 FROM n WHERE a < 3) FROM n": [(1,), (2,), (3,)],
        "SELECT t.a FROM t JOIN raw.u USING (a) WHERE EXISTS (FROM v)": [(1,)],
        "SELECT count(*) FROM ducklake_snapshots('dev') WHERE snapshot_id = 0": [(1,)],
    }
    assert {sql: rows(store, sql) for sql in expected} == expected


@pytest.mark.slow
def test_other_statement_table_without_its_schema_and_replaced_word_are_refused(store: Store) -> None:
    for sql in (
        *("", "SELECT 1; SELECT 2", "PIVOT t ON a", "DELETE FROM t", "PRAGMA import_database('data')"),
        "CALL ducklake_expire_snapshots('dev', older_than => now())",
    ):
        with pytest.raises(QueryError) as refused:
            query(store, sql)
        assert refused.value.message == "the statement is not a single query"
        assert str(refused.value.hint).startswith("write a single SELECT … or FROM …")
    assert len(query(store, "FROM t")[1]) == 5
    with pytest.raises(UnknownNameError, match="the schema main has no table u") as unknown:
        query(store, "FROM u")
    assert unknown.value.hint == "did you mean raw.u?"
    with pytest.raises(SchemaError, match="which DuckLake would replace"):
        query(store, "SELECT count(*) FROM t WHERE a::VARCHAR < '{SNAPSHOT_ID}'")


def test_error_of_duckdb_shows_its_line_of_the_query(store: Store) -> None:
    """Without the EXPLAIN above the query, and without DuckDB's name of the kind of error."""
    for statement, message in (
        ("SELECT 1,\n 'é' a +", "syntax error at or near \"+\"\n\nLINE 2:  'é' a +\n               ^"),
        ("SELECT\n nothing FROM t", "\n\nLINE 2:  nothing FROM t\n         ^"),
        ("\n" * 8 + "SELECT nothing FROM t", "\n\nLINE 9:  SELECT nothing FROM t\n                ^"),
        (
            "FROM t WHERE [1] + 'a'",
            "add explicit type casts.\n\nLINE 1: FROM t WHERE [1] + 'a'\n                         ^",
        ),
        ("FROM missing", "Table with name missing does not exist!\n\nLINE 1: FROM missing\n             ^"),
    ):
        with pytest.raises(QueryError) as refused:
            query(store, statement)
        assert message in refused.value.message
        assert not refused.value.message.startswith(("Parser", "Binder", "Catalog"))


def test_function_that_does_more_than_read_is_refused(store: Store) -> None:
    for function in (
        *("ducklake_cleanup_old_files('dev')", "ducklake_list_files('dev', 't')", "duckdb_secrets()"),
        *("duckdb_settings()", "ducklake_expire_snapshots('dev')", "sqlite_query('__ducklake_metadata_dev', '')"),
    ):
        with pytest.raises(UnsafeQueryError) as refused:
            query(store, f"SELECT 1 FROM t WHERE EXISTS (FROM {function})")
        name = function.partition("(")[0]
        assert refused.value.message == f"the query calls {name}, which does more than read"
        assert refused.value.hint == MAINTAIN


@pytest.mark.slow
def test_files_and_tables_of_the_catalog_are_not_read(store: Store, tmp_path: Path) -> None:
    """Not through a view either: a query that may reach every view needs all of them safe."""
    path = tmp_path / "mine.csv"
    path.write_text("a\n5\n")
    with pytest.raises(UnsafeQueryError) as both:
        query(store, f"FROM read_csv('{path}'), duckdb_secrets()")
    assert both.value.message == "the query calls duckdb_secrets, read_csv, which does more than read"
    with pytest.raises(StorageError, match=r"Cannot access file[\s\S]*hint: read files with store\.connect\(\)"):
        query(store, f"FROM '{path}'")
    for sql in ("FROM stolen", "SELECT count(*) FROM duckdb_tables()", "SHOW ALL TABLES"):
        with pytest.raises(UnsafeQueryError, match=r"the view 'stolen' of the lake calls read_parquet\(\)"):
            query(store, sql)
    for relation in ("__ducklake_metadata_dev.ducklake_snapshot", "__DUCKLAKE_METADATA_dev.main.ducklake_snapshot"):
        with pytest.raises(UnsafeQueryError) as refused:
            query(store, f"SELECT count(*) FROM {relation}")
        assert refused.value.message == f"the query reads {relation.lower()} of the catalog database"
        assert refused.value.hint == "use lakeconf tables or snapshots to inspect the lake"


def test_settings_of_the_instance_are_locked(store: Store) -> None:
    off = ("enable_external_access", "autoload_known_extensions", "autoinstall_known_extensions")
    names = ("lock_configuration", *off, "python_enable_replacements")
    wanted = ", ".join(f"current_setting('{name}')" for name in names)
    assert rows(store, f"SELECT {wanted}") == [(True, False, False, False, False)]
    assert rows(store, "SELECT current_setting('disabled_optimizers')") == [("statistics_propagation",)]
