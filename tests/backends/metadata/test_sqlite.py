"""A catalog in a SQLite or DuckDB file: what lakeconf checks before DuckDB attaches it. See test_catalog_file.py."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import duckdb
import pytest
from local_stores import store_of

from lakeconf.backends.metadata.file_catalogs import CatalogFile, DuckDBMetadata, SQLiteMetadata
from lakeconf.connection.connection import connect, load_extension
from lakeconf.connection.duckdb_errors import translated_errors
from lakeconf.errors import CatalogError, CatalogMissingError, ConnectionFailed, LakeconfError

if TYPE_CHECKING:
    from pathlib import Path


CATALOG = "CREATE TABLE ducklake_metadata (key VARCHAR)"


def check(backend: CatalogFile) -> None:
    """What happens to a file before DuckLake attaches it."""
    backend.prepare(read_only=True)
    with closing(connect()) as connection:
        for extension in ("ducklake", *backend.extensions):
            load_extension(connection, extension)
        backend.admit(connection)


def made(path: Path, *statements: str) -> SQLiteMetadata:
    """The backend of a file in which the statements ran."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.executescript(statement)
    return SQLiteMetadata(uri=str(path))


@pytest.mark.parametrize("name", ["catalog", "a?mode=memory", "a#b", "a%23b", "100%", "it's; --", "é", "memory:x"])
def test_catalog_with_any_name_is_looked_into(name: str, tmp_path: Path) -> None:
    """Its name is part of a URI."""
    path = tmp_path / name
    check(made(path, CATALOG, "CREATE TABLE more (i)"))
    made(path, "DROP TABLE ducklake_metadata")
    with pytest.raises(CatalogError, match=r"contains the table 'more'"):
        check(SQLiteMetadata(uri=str(path)))
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_database_without_tables_becomes_a_catalog(tmp_path: Path) -> None:
    check(made(tmp_path / "c", "PRAGMA user_version = 1", "CREATE TABLE t (i)", "DROP TABLE t"))


SQLITE = {
    "view": "CREATE VIEW v AS SELECT 1",
    "trigger": "CREATE TRIGGER v AFTER INSERT ON ducklake_metadata BEGIN DELETE FROM ducklake_metadata; END",
    "virtual table": "CREATE VIRTUAL TABLE v USING fts5(t)",
    "virtual table of a page": "CREATE VIRTUAL TABLE v USING fts5(t); PRAGMA writable_schema = ON; "
    "UPDATE sqlite_master SET rootpage = x'30' WHERE name = 'v'",
    "index": "CREATE INDEX v ON ducklake_metadata (key)",
    "constraint": "CREATE TABLE ducklake_view (view_id INT, schema_id INT PRIMARY KEY)",
    "another key": "CREATE TABLE ducklake_schema (path VARCHAR PRIMARY KEY)",
}


@pytest.mark.parametrize("kind", SQLITE)
def test_what_is_no_plain_table_in_sqlite_is_refused_at_each_opening(kind: str, tmp_path: Path) -> None:
    key = "CREATE TABLE ducklake_data_file (data_file_id BIGINT PRIMARY KEY, path VARCHAR)"
    check(made(tmp_path / "c", CATALOG, key, "CREATE TABLE mine (path VARCHAR PRIMARY KEY)"))
    backend = made(tmp_path / "c", SQLITE[kind])
    with pytest.raises(CatalogError, match=r"the catalog's '(v|sqlite_autoindex_.*)' is not a plain table"):
        check(backend)


@pytest.mark.parametrize("head", [b"SQLite format 3\0" + b"\xff" * 4096, b"SQLite format 3\0" + bytes(16)])
def test_damaged_file_is_refused(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(head)
    with pytest.raises(CatalogError) as raised:
        check(SQLiteMetadata(uri=str(path)))
    assert raised.value.message == f"the catalog {path} is damaged: file is not a database"


def in_duckdb(path: Path, *statements: str) -> DuckDBMetadata:
    """The backend of a file in which the statements ran."""
    with duckdb.connect(str(path)) as connection:
        for statement in statements:
            connection.execute(statement)
    return DuckDBMetadata(uri=str(path))


def test_empty_database_is_a_duckdb_file(tmp_path: Path) -> None:
    backend = DuckDBMetadata(uri=str(tmp_path / "it's"))
    backend.make_empty(tmp_path / "it's")
    assert (tmp_path / "it's").read_bytes()[8:12] == b"DUCK"
    check(backend)


@pytest.mark.parametrize("name", ["catalog", "it's; --", 'a"b', "catalog.with.dots", "memory"])
def test_catalog_with_any_name_is_accepted(name: str, tmp_path: Path) -> None:
    check(in_duckdb(tmp_path / name, CATALOG, 'CREATE TABLE more (i INT, "GENERATED ALWAYS" INT)'))


def test_missing_catalog_is_not_created_for_reading(tmp_path: Path) -> None:
    with pytest.raises(CatalogMissingError, match="does not exist"):
        DuckDBMetadata(uri=str(tmp_path / "c")).prepare(read_only=True)
    assert list(tmp_path.iterdir()) == []
    # An empty file is not looked into.
    (tmp_path / "c").touch()
    with closing(connect()) as connection:
        DuckDBMetadata(uri=str(tmp_path / "c")).admit(connection)


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("CREATE VIEW spy AS SELECT 1", "spy"),
        ("CREATE MACRO ducklake_spy(x) AS x", "ducklake_spy"),
        ("CREATE MACRO reader() AS TABLE SELECT 1", "reader"),
        ("CREATE SCHEMA s; CREATE VIEW s.hidden AS SELECT 1", "hidden"),
        ("CREATE TABLE ducklake_table (i INT, path VARCHAR AS (current_query()))", "ducklake_table"),
    ],
)
def test_catalog_with_sql_that_would_run_is_refused(statement: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as raised:
        check(in_duckdb(tmp_path / "c", CATALOG, statement))
    assert raised.value.message == (
        f"the catalog's {name!r} is not a plain table: reading the catalog could run its SQL with your rights, or give "
        "another answer to each query. Nothing was read"
    )
    assert raised.value.hint == (
        "find out who made it and drop it (DROP VIEW …, DROP MACRO …, DROP INDEX …); keep views and macros in the "
        "lake or in another file"
    )


def test_write_ahead_log_that_needs_an_extension_hides_no_view(tmp_path: Path) -> None:
    backend = in_duckdb(tmp_path / "c", CATALOG)
    with closing(connect()) as connection:
        load_extension(connection, "ducklake")
        connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        connection.execute(f"ATTACH '{backend.uri}' AS c")
        connection.execute(
            "CREATE TABLE c.t (a VARCHAR); CREATE INDEX i ON c.t ((murmur3_32(a))); CREATE VIEW c.v AS FROM c.t"
        )
        for path in (backend.uri, f"{backend.uri}.wal"):
            shutil.copy(path, f"{path}.copy" if path == backend.uri else f"{backend.uri}.copy.wal")
    with pytest.raises(LakeconfError):
        check(DuckDBMetadata(uri=f"{backend.uri}.copy"))


def test_catalog_is_looked_into_at_each_opening_unless_this_process_has_it_open(tmp_path: Path) -> None:
    backend = in_duckdb(tmp_path / "c", CATALOG)
    check(backend)
    with duckdb.connect(str(tmp_path / "c")) as connection:
        with pytest.raises(ConnectionFailed, match="already attached"):
            check(backend)
        assert connection.execute("SELECT count(*) FROM ducklake_metadata").fetchone() == (0,)
    in_duckdb(tmp_path / "c", "CREATE VIEW v AS SELECT 1")
    with pytest.raises(CatalogError, match="'v' is not a plain table"):
        check(backend)


def test_journal_of_a_killed_commit_is_named(tmp_path: Path) -> None:
    made(tmp_path / "live", CATALOG, f"INSERT INTO ducklake_metadata VALUES {', '.join(['(1)'] * 9999)}")
    with closing(sqlite3.connect(tmp_path / "live")) as connection:
        connection.execute("PRAGMA cache_size = 1")
        connection.execute("UPDATE ducklake_metadata SET key = 'y'")
        for name in ("live", "live-journal"):
            shutil.copy(tmp_path / name, tmp_path / name.replace("live", "c"))
    with pytest.raises(CatalogError, match="has the journal of a commit that did not end") as raised:
        check(SQLiteMetadata(uri=str(tmp_path / "c")))
    assert "PRAGMA quick_check" in str(raised.value.hint)
    made(tmp_path / "c", "PRAGMA quick_check")
    check(SQLiteMetadata(uri=str(tmp_path / "c")))


# What another process commits while a query reads the catalog. A second update of a file replaces its delete file.
IN_BETWEEN = {
    "update": ["UPDATE dev.t SET v = 2 WHERE id < 10"],
    "merge": ["CALL ducklake_merge_adjacent_files('dev')"],
    "flush": ["CALL ducklake_flush_inlined_data('dev')"],
    "everything": [
        "UPDATE dev.t SET v = 2 WHERE id < 10",
        "CALL ducklake_flush_inlined_data('dev')",
        "CALL ducklake_merge_adjacent_files('dev')",
        "CALL ducklake_rewrite_data_files('dev', delete_threshold => 0)",
    ],
}


@pytest.mark.parametrize("statements", IN_BETWEEN.values(), ids=IN_BETWEEN)
def test_query_reads_one_state_of_the_catalog(statements: list[str], tmp_path: Path) -> None:
    store = store_of(tmp_path, data_inlining_row_limit=1)
    query = "SELECT id, count(*) OVER (PARTITION BY rowid) FROM dev.t ORDER BY id"
    with store.connect() as writer, store.connect() as reader:
        writer.execute("CREATE TABLE dev.t (id BIGINT, v BIGINT)")
        for start in (0, 100):
            writer.execute(f"INSERT INTO dev.t SELECT range, 0 FROM range({start}, {start + 20})")
            writer.execute(f"UPDATE dev.t SET v = 1 WHERE id BETWEEN {start + 5} AND {start + 15}")
            writer.execute(f"INSERT INTO dev.t SELECT range, 0 FROM range({start + 20}, {start + 30})")
        writer.execute("INSERT INTO dev.t VALUES (200, 0)")
        reader.execute("SET threads = 4")  # on one thread, as in other tests, DuckDB needs no more connections
        reader.execute("BEGIN")
        before = reader.execute(query).fetchall()
        assert [id_ for id_, _ in before] == [*range(30), *range(100, 130), 200]
        for statement in statements:
            writer.execute(statement)
        assert reader.execute(query).fetchall() == before


def test_extension_that_cannot_read_one_state_is_named() -> None:
    """That of DuckDB 1.5.0 does not know the setting."""
    (setting,) = SQLiteMetadata(uri="catalog").duckdb_settings
    unknown = f'Catalog Error: unrecognized configuration parameter "{setting.name}"'
    with pytest.raises(ConnectionFailed, match="unrecognized") as raised, translated_errors(()):
        raise duckdb.CatalogException(unknown)
    assert "update DuckDB's extension sqlite_scanner" in str(raised.value.hint)
