"""The location of a catalog: a file, or a database on a server."""

from __future__ import annotations

import datetime as dt
import os
import socket
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from local_stores import on_postgres, store_of

from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.backends.metadata.motherduck import MotherDuckMetadata
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection, connect
from lakeconf.errors import ConnectionFailed
from lakeconf.guard import guard
from lakeconf.guard.guard import neighbours, places, reader_of
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf import Store

ROWS = pa.table({"id": pa.array(range(10), pa.int64())})


@pytest.fixture
def reader() -> Iterator[CatalogReader]:
    """A reader without a lake: the location of a file needs none."""
    with connect() as connection:
        yield CatalogReader(connection, "dev")


@pytest.fixture
def backend(tmp_path: Path) -> SQLiteMetadata:
    (tmp_path / "catalog").write_text("a catalog")
    return SQLiteMetadata(uri=str(tmp_path / "catalog"))


def marks(path: Path) -> list[str]:
    return [f"inode {os.statvfs(path).f_fsid}:{path.stat().st_ino}", f"path {socket.gethostname()}:{path}"]


def at(path: Path, reader: CatalogReader) -> Sequence[str]:
    return places(SQLiteMetadata(uri=str(path)), reader)


def test_renamed_file_keeps_its_inode_and_a_restored_one_its_path(reader: CatalogReader, tmp_path: Path) -> None:
    catalog, renamed = tmp_path / "catalog", tmp_path / "renamed"
    catalog.touch()
    before = at(catalog, reader)
    catalog.rename(renamed)
    catalog.touch()
    moved, restored = at(renamed, reader), at(catalog, reader)
    assert set(before) & set(moved) == {before[0]}
    assert set(before) & set(restored) == {before[1]}
    assert not set(moved) & set(restored)


def test_link_to_a_file_has_the_location_of_the_file(
    backend: SQLiteMetadata, reader: CatalogReader, tmp_path: Path
) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "catalog"
    link.symlink_to(tmp_path / "catalog")
    assert at(link, reader) == places(backend, reader)
    assert list(places(backend, reader)) == marks(tmp_path / "catalog")
    (tmp_path / "other").touch()
    assert neighbours(SQLiteMetadata(uri=str(link))) == marks(tmp_path / "other")


def test_neighbours_are_the_other_files_in_the_folder_of_the_catalog(backend: SQLiteMetadata, tmp_path: Path) -> None:
    assert neighbours(backend) == []
    (tmp_path / "backup").touch()
    (tmp_path / "link").symlink_to(tmp_path / "backup")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "deeper").touch()
    os.mkfifo(tmp_path / "pipe")
    assert neighbours(backend) == marks(tmp_path / "backup")
    (tmp_path / "second").touch()
    assert sorted(neighbours(backend)) == sorted(marks(tmp_path / "backup") + marks(tmp_path / "second"))


def test_backend_without_a_file_and_without_a_server_has_no_location(reader: CatalogReader) -> None:
    backend = MotherDuckMetadata(database="lake")
    assert (places(backend, reader), neighbours(backend)) == ((), ())


# Servers.


@pytest.fixture
def store(postgres_server: PostgresServer, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_postgres(postgres_server))


def place_of(store: Store, connection: Connection) -> Sequence[str]:
    return places(store.metadata_backend, reader_of(store.metadata_backend, store.names, connection))


def test_database_has_one_location_that_names_its_server(store: Store, postgres_server: PostgresServer) -> None:
    database = on_postgres(postgres_server, store.metadata_backend.database)["database"]  # type: ignore[attr-defined]
    schema = "SELECT concat(d.oid, '/', n.oid) FROM pg_database d, pg_namespace n WHERE nspname = 'public'"
    catalog = postgres_server.sql(f"{schema} AND datname = current_database()", database)
    identifier = postgres_server.sql("SELECT system_identifier FROM pg_control_system()")
    with open_connection(store) as connection:
        assert place_of(store, connection) == (f"{catalog} of {identifier}",)


def test_role_without_the_privilege_does_not_know_the_server(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    server = store.metadata_backend.server()
    denied = "FROM postgres_query('__ducklake_metadata_dev', 'SELECT 1 FROM no_such_function()')"
    monkeypatch.setattr(type(server), "server_id", lambda *_: denied)
    with open_connection(store) as connection:
        (found,) = place_of(store, connection)
    assert found.endswith(" of server not known")


def test_a_lost_connection_does_not_change_the_place_in_the_marker(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every later cleanup takes the catalog for a copy."""
    ask = guard._ask

    def lost(reader: CatalogReader, query: str) -> str:
        if "pg_control_system" in query:
            raise ConnectionFailed("server closed the connection")
        return ask(reader, query)

    with store.open() as lake:
        lake.create_table("t", like=ROWS)
        lake.table("t").append(ROWS)
        monkeypatch.setattr(guard, "_ask", lost)
        with pytest.raises(ConnectionFailed):
            lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        monkeypatch.setattr(guard, "_ask", ask)
        assert lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True) == []
