"""A catalog in a SQLite file: what lakeconf checks before DuckDB attaches it. See also test_catalog_file.py.

tests/lake/test_read_only.py has the write-ahead log in a read-only folder.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import pytest

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.errors import CatalogError

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


def test_options_and_extension() -> None:
    backend = SQLiteMetadata(uri="/c")
    assert backend.ducklake_options(StoreNames("dev", "lake")) == {"metadata_path": "sqlite:/c"}
    assert backend.extensions == ("sqlite_scanner",)
    assert backend.attach_defaults == {"data_inlining_row_limit": 0, "meta_busy_timeout": 30_000}
    assert backend.write_defaults == {"meta_journal_mode": "WAL"}
    assert SQLiteMetadata.init_template().fields == {"uri": ".lakeconf/catalog.sqlite"}


@pytest.mark.parametrize("name", ["catalog", "a?mode=memory", "a#b", "a%23b", "100%", "it's; --", "é", "memory:x"])
def test_catalog_with_any_name_is_looked_into(name: str, tmp_path: Path) -> None:
    """Its name is part of a URI."""
    path = tmp_path / name
    made(path, CATALOG, "CREATE TABLE more (i)").look_into(path)
    made(path, "DROP TABLE ducklake_metadata")
    with pytest.raises(CatalogError, match=r"contains the table 'more'"):
        SQLiteMetadata(uri=str(path)).look_into(path)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_database_of_another_application_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    with pytest.raises(CatalogError) as raised:
        made(path, "CREATE TABLE zebras (i)", "CREATE TABLE ants (i)").look_into(path)
    assert raised.value.message == (
        f"{path} is a SQLite database, but not a DuckLake catalog (it contains the table 'ants')"
    )
    assert raised.value.hint == (
        "use a separate file for the catalog; lakeconf does not create a catalog among other tables"
    )


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


def test_file_of_another_kind_is_refused_first(tmp_path: Path) -> None:
    path = tmp_path / "c"
    path.write_bytes(bytes(8) + b"DUCK" + bytes(100))
    with pytest.raises(CatalogError, match="is a DuckDB database, not a SQLite database"):
        SQLiteMetadata(uri=str(path)).look_into(path)


def test_locked_catalog_is_left_to_attach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = made(tmp_path / "c", CATALOG)
    monkeypatch.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
    with closing(sqlite3.connect(tmp_path / "c")) as other:
        other.execute("BEGIN EXCLUSIVE")
        backend.look_into(tmp_path / "c")
