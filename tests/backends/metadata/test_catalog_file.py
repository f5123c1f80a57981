"""Catalogs that are files: rejection of other file types, and file locks."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from lakeconf.backends.metadata.file_catalogs import CatalogFile, DuckDBMetadata, SQLiteMetadata
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.errors import CatalogError, ConnectionFailed, LakeconfError
from lakeconf.store import Store

KINDS: dict[str, type[CatalogFile]] = {"sqlite": SQLiteMetadata, "duckdb": DuckDBMetadata}


def store_of(path: Path, model: type[CatalogFile], name: str = "dev", **fields: str) -> Store:
    return Store(name, model(uri=str(path), **fields), LocalStorage(path=str(path.parent / f"data_{name}")))


def make_sqlite(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")
        connection.commit()


def make_duckdb(path: Path) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people (name TEXT)")


@pytest.mark.parametrize("kind", KINDS)
def test_directory_is_rejected(kind: str, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="is a directory"):
        store_of(tmp_path, KINDS[kind]).connect()


@pytest.mark.parametrize("kind", KINDS)
def test_lake_is_attached_in_a_transaction(kind: str, tmp_path: Path) -> None:
    store = store_of(tmp_path / "catalog", KINDS[kind])
    with store.connect() as lake:
        lake.execute("CREATE TABLE t AS SELECT 42 AS answer")
    with duckdb.connect() as connection:
        connection.execute("BEGIN; CREATE TABLE memory.kept (i INTEGER)")
        store.attach(connection)
        assert connection.execute(f"FROM {store.alias}.t").fetchall() == [(42,)]


@pytest.mark.parametrize(
    ("kind", "suffix"), [("sqlite", ""), ("sqlite", "-journal"), ("sqlite", "-wal"), ("duckdb", ".wal"), ("duckdb", "")]
)
@pytest.mark.timeout(10)
def test_pipe_is_rejected(kind: str, suffix: str, tmp_path: Path) -> None:
    """To open one would wait for ever."""
    store = store_of(tmp_path / "catalog", KINDS[kind])
    if suffix:
        store.connect().close()
    os.mkfifo(f"{tmp_path / 'catalog'}{suffix}")
    with pytest.raises(CatalogError, match=f"catalog{suffix} is not a regular file"):
        store.connect()


@pytest.mark.parametrize("kind", KINDS)
def test_text_file_is_rejected_and_unchanged(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("milk, eggs\n" * 100)
    with pytest.raises(CatalogError, match="an unknown type of file"):
        store_of(path, KINDS[kind]).connect()
    assert path.read_text() == "milk, eggs\n" * 100


@pytest.mark.parametrize(
    ("kind", "make", "other"), [("sqlite", make_duckdb, "duckdb"), ("duckdb", make_sqlite, "sqlite")]
)
def test_database_of_the_other_type_is_rejected_with_its_type(
    kind: str, make: object, other: str, tmp_path: Path
) -> None:
    path = tmp_path / "catalog"
    make(path)  # type: ignore[operator]
    with pytest.raises(
        CatalogError,
        match=rf'(?s)is a {other}.*type = "{other}"'.replace("duckdb.", "DuckDB.").replace("sqlite.", "SQLite."),
    ):
        store_of(path, KINDS[kind]).connect()


@pytest.mark.parametrize(("kind", "make"), [("sqlite", make_sqlite), ("duckdb", make_duckdb)])
def test_database_with_foreign_tables_is_rejected_and_unchanged(kind: str, make: object, tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(CatalogError, match=r"not a DuckLake catalog \(it contains the table 'people'\)"):
            store_of(path, KINDS[kind]).connect()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["catalog"]


def test_empty_file_becomes_a_catalog_only_with_sqlite(tmp_path: Path) -> None:
    (tmp_path / "catalog").write_bytes(b"")
    with pytest.raises(CatalogError, match="not a valid DuckDB database file"):
        store_of(tmp_path / "catalog", DuckDBMetadata).connect()
    store_of(tmp_path / "catalog", SQLiteMetadata).connect().close()


@pytest.mark.slow
def test_lake_created_by_another_process_can_be_opened(tmp_path: Path) -> None:
    for kind, model in KINDS.items():
        code = (
            f"from lakeconf.backends.metadata.file_catalogs import {model.__name__} as Model\n"
            "from lakeconf.backends.storage.local import LocalStorage; from lakeconf.store import Store\n"
            f"Store('dev', Model(uri='{tmp_path}/{kind}'), LocalStorage(path='{tmp_path}/data_dev')).connect().close()"
        )
        subprocess.run([sys.executable, "-c", code], check=True)
        store_of(tmp_path / kind, model).connect().close()


def test_duckdb_file_can_contain_several_catalogs(tmp_path: Path) -> None:
    store_of(tmp_path / "catalog", DuckDBMetadata, "one", metadata_schema="one").connect().close()
    store_of(tmp_path / "catalog", DuckDBMetadata, "two", metadata_schema="two").connect().close()


def opened_by_another_process(path: Path) -> subprocess.CompletedProcess[str]:
    code = f"import duckdb; duckdb.connect('{path}').execute('CREATE TABLE intruder (a INT)')"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_second_connect_keeps_the_lock_of_the_first(tmp_path: Path) -> None:
    # Opening and closing the file here would release DuckDB's lock, and let another process write as well.
    path = tmp_path / "catalog"
    store = store_of(path, DuckDBMetadata)
    with store.connect() as con:
        for _ in range(2):
            with pytest.raises(LakeconfError):
                store.connect()
        result = opened_by_another_process(path)
        assert "Could not set lock" in result.stderr
        con.execute("CREATE TABLE t AS SELECT 1 AS a")
    assert opened_by_another_process(path).returncode == 0


def test_first_connect_keeps_the_lock_of_another_connection(tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    make_duckdb(path)
    with duckdb.connect(str(path)) as con:
        with pytest.raises(LakeconfError):
            store_of(path, DuckDBMetadata).connect()
        assert "Could not set lock" in opened_by_another_process(path).stderr
        con.execute("FROM people")


def test_catalog_that_is_open_in_another_process_raises_a_lock_error(tmp_path: Path) -> None:
    path = tmp_path / "catalog"
    store_of(path, DuckDBMetadata).connect().close()
    code = f"import duckdb, sys; con = duckdb.connect('{path}'); print('open', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        with pytest.raises(ConnectionFailed) as refused:
            store_of(path, DuckDBMetadata).connect()
        assert f"(PID {holder.pid})" in refused.value.message
        assert str(refused.value.hint).startswith("close it there: one process can open a DuckDB file")
        holder.communicate("")


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_owner_can_read_the_catalog_of_an_encrypted_lake(kind: str, tmp_path: Path) -> None:
    store = encrypted_store(tmp_path / "new" / "catalog", kind)
    previous = os.umask(0o022)
    try:
        with store.open() as lake:
            lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": list(range(1000))}))
            # DuckDB creates its write-ahead log with the permissions of the umask; the folder denies access to others.
            assert rights(tmp_path / "new") == "700"
            shared = [path.name for path in (tmp_path / "new").glob("catalog*") if rights(path) != "600"]
            assert shared == [] or (kind == "duckdb" and shared == ["catalog.wal"])
        assert {rights(path) for path in (tmp_path / "new").glob("catalog*")} == {"600"}
        assert rights(tmp_path / "new" / "data") == "755"
    finally:
        os.umask(previous)
    with store.open() as lake:
        assert len(lake.table("t").scan().collect("pyarrow")) == 1000


@pytest.mark.parametrize("kind", KINDS)
def test_existing_folder_and_unencrypted_catalog_have_default_permissions(kind: str, tmp_path: Path) -> None:
    previous = os.umask(0o022)
    try:
        with store_of(tmp_path / "a" / "catalog", KINDS[kind]).open():
            pass
        (tmp_path / "b").mkdir()
        encrypted_store(tmp_path / "b" / "catalog", kind).connect().close()
    finally:
        os.umask(previous)
    assert [rights(tmp_path / name) for name in ("a", "a/catalog", "b", "b/catalog")] == ["755", "644", "755", "600"]


@pytest.mark.parametrize("kind", KINDS)
def test_existing_catalog_of_an_encrypted_lake_keeps_its_permissions(kind: str, tmp_path: Path) -> None:
    store = encrypted_store(tmp_path / "catalog", kind)
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    (tmp_path / "catalog").chmod(0o640)
    with store.open() as lake:
        assert lake.tables() == ["main.t"]
    assert rights(tmp_path / "catalog") == "640"


def rights(path: Path) -> str:
    return f"{path.stat().st_mode & 0o777:o}"


def encrypted_store(path: Path, kind: str) -> Store:
    plain = store_of(path, KINDS[kind])
    data = LocalStorage(path=str(path.parent / "data"))
    return Store("dev", plain.metadata_backend, data, attach_options={"encrypted": True})
