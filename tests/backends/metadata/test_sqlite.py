"""A catalog in a SQLite or DuckDB file: what lakeconf checks before DuckDB attaches it. See test_catalog_file.py."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import duckdb
import pytest

from lakeconf.backends.metadata.file_catalogs import DuckDBMetadata, SQLiteMetadata
from lakeconf.errors import CatalogError, CatalogMissingError

if TYPE_CHECKING:
    from pathlib import Path


CATALOG = "CREATE TABLE ducklake_metadata (key VARCHAR)"


def made(path: Path, *statements: str) -> SQLiteMetadata:
    """The backend of a file in which the statements ran."""
    with closing(sqlite3.connect(path)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return SQLiteMetadata(uri=str(path))


@pytest.mark.parametrize("name", ["catalog", "a?mode=memory", "a#b", "a%23b", "100%", "it's; --", "é", "memory:x"])
def test_catalog_with_any_name_is_looked_into(name: str, tmp_path: Path) -> None:
    """Its name is part of a URI."""
    path = tmp_path / name
    made(path, CATALOG, "CREATE TABLE more (i)").look_into(path)
    made(path, "DROP TABLE ducklake_metadata")
    with pytest.raises(CatalogError, match=r"contains the table 'more'"):
        SQLiteMetadata(uri=str(path)).look_into(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_database_without_tables_becomes_a_catalog(tmp_path: Path) -> None:
    path = tmp_path / "c"
    made(path, "PRAGMA user_version = 1", "CREATE TABLE t (i)", "DROP TABLE t", "CREATE VIEW v AS SELECT 1").look_into(
        path
    )


@pytest.mark.parametrize("head", [b"SQLite format 3\0" + b"\xff" * 4096, b"SQLite format 3\0" + bytes(16)])
def test_damaged_file_is_refused(head: bytes, tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(head)
    with pytest.raises(CatalogError) as raised:
        SQLiteMetadata(uri=str(path)).look_into(path)
    assert raised.value.message == f"the catalog {path} is damaged: file is not a database"


def test_locked_catalog_is_left_to_attach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = made(tmp_path / "c", CATALOG)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    with closing(sqlite3.connect(tmp_path / "c")) as other:
        other.execute("BEGIN EXCLUSIVE")
        backend.look_into(tmp_path / "c")


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
    backend.prepare(read_only=True)


@pytest.mark.parametrize("name", ["catalog", "it's; --", 'a"b', "catalog.with.dots", "memory"])
def test_catalog_with_any_name_is_accepted(name: str, tmp_path: Path) -> None:
    in_duckdb(tmp_path / name, CATALOG, "CREATE TABLE more (i INT)").prepare(read_only=False)


def test_missing_catalog_is_not_created_for_reading(tmp_path: Path) -> None:
    with pytest.raises(CatalogMissingError, match="does not exist"):
        DuckDBMetadata(uri=str(tmp_path / "c")).prepare(read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("statement", "name"),
    [
        ("CREATE VIEW spy AS SELECT 1", "spy"),
        ("CREATE MACRO ducklake_spy(x) AS x", "ducklake_spy"),
        ("CREATE MACRO reader() AS TABLE SELECT 1", "reader"),
        ("CREATE SCHEMA s; CREATE VIEW s.hidden AS SELECT 1", "hidden"),
    ],
)
def test_catalog_with_sql_that_would_run_is_refused(statement: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / "c"
    backend = in_duckdb(path, CATALOG, statement)
    with pytest.raises(CatalogError) as raised:
        backend.look_into(path)
    assert raised.value.message == (
        f"the catalog {path} contains the view or macro {name!r}, which DuckDB would run when it reads the catalog. "
        "Anyone who can write to the file could use it to read your files or steal your credentials"
    )
    assert raised.value.hint == (
        "drop it (DROP VIEW …, DROP MACRO …), and keep views and macros in the lake or in another file"
    )


def test_view_that_was_added_later_is_found_at_the_next_opening(tmp_path: Path) -> None:
    backend = in_duckdb(tmp_path / "c", CATALOG)
    backend.prepare(read_only=False)
    in_duckdb(tmp_path / "c", "CREATE VIEW v AS SELECT 1")
    with pytest.raises(CatalogError, match="view or macro 'v'"):
        backend.prepare(read_only=False)


def test_catalog_that_this_process_has_open_is_not_opened_again(tmp_path: Path) -> None:
    backend = in_duckdb(tmp_path / "c", CATALOG)
    with duckdb.connect(str(tmp_path / "c")) as connection:
        backend.prepare(read_only=False)
        assert connection.execute("SELECT count(*) FROM ducklake_metadata").fetchone() == (0,)


def test_duckdb_file_of_another_version_is_left_to_attach(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(bytes(8) + b"DUCK" + b"\xff" * 100)
    DuckDBMetadata(uri=str(path)).look_into(path)


def test_empty_file_is_not_looked_into(tmp_path: Path) -> None:
    (tmp_path / "c").touch()
    DuckDBMetadata(uri=str(tmp_path / "c")).prepare(read_only=False)
