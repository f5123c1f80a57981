"""Read-only commands create, migrate and change nothing, whatever the configuration of the store."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import store_of

import lakeconf
from lakeconf.cli.app import run
from lakeconf.errors import CatalogMissingError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import PostgresServer

READING = [
    ["tables"], ["snapshots"], ["tables", "raw.t"], ["report"], ["sql", "FROM raw.t"],
    ["plan"], ["doctor"], ["validate"], ["stores"],
    ["preview-sql"],
]  # fmt: skip
# Commands that succeed without a lake.
ANSWERED = {"plan", "doctor", "validate", "stores", "preview-sql"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda *arguments: (run(arguments), *capsys.readouterr())


def write_project(folder: Path, metadata: str, options: str = "") -> None:
    (folder / "lakeconf.toml").write_text(
        f'[stores.dev]\nmetadata_backend = {metadata}\nstorage_backend = {{ type = "local", path = "data" }}\n'
        f"attach_options = {{ {options} }}\n\n"
        '[pipeline.models."raw.t"]\nsql = "model.sql"\n'
    )
    (folder / "model.sql").write_text("SELECT 1 AS id")


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("kind", ["duckdb", "postgres"])
def test_read_only_commands_create_no_file_and_no_schema(
    kind: str, request: pytest.FixtureRequest, folder: Path, monkeypatch: pytest.MonkeyPatch, called: Any
) -> None:
    """Each succeeds or reports that there is no lake."""
    catalog = 'uri = "lake/catalog"'
    if kind == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        database = server.create_database()
        monkeypatch.setenv("CATALOG_PASSWORD", server.password)
        catalog = (
            f'host = "{server.host}", port = {server.port}, database = "{database}", user = "{server.user}", '
            'password = "${CATALOG_PASSWORD}", metadata_schema = "lkae"'
        )
    write_project(folder, f'{{ type = "{kind}", {catalog} }}')
    before = below(folder)
    for arguments in READING:
        code, _, err = called(*arguments)
        assert code == (0 if arguments[0] in ANSWERED else 1), err
        said = "store 'dev' has no lake yet" in err and "the first write creates it" in err
        assert said or arguments[0] in ANSWERED
        assert below(folder) == before, arguments
    if kind == "postgres":
        system = "('pg_catalog', 'information_schema', 'pg_toast')"
        for what in ("tables WHERE table_schema", "schemata WHERE schema_name <> 'public' AND schema_name"):
            count = f"SELECT count(*) FROM information_schema.{what} NOT IN {system}"
            assert server.sql(count, database).strip() == "0"


def test_read_only_commands_do_not_migrate_the_catalog(folder: Path, called: Any) -> None:
    write_project(folder, '{ type = "sqlite", uri = "catalog.sqlite" }', "automatic_migration = true")
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
    with contextlib.closing(sqlite3.connect("catalog.sqlite")) as catalog, catalog:
        catalog.execute("UPDATE ducklake_metadata SET value = '0.4' WHERE key = 'version'")
    errors = ""
    for arguments in READING:
        code, _, err = called(*arguments)
        assert code == (0 if arguments[0] in {"validate", "stores", "preview-sql"} else 1), arguments
        errors += err
    assert "0.4" in errors
    with contextlib.closing(sqlite3.connect("catalog.sqlite")) as catalog:
        query = "SELECT value FROM ducklake_metadata WHERE key = 'version'"
        assert catalog.execute(query).fetchall() == [("0.4",)]


def test_open_read_only(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    with pytest.raises(CatalogMissingError, match=r"has no lake yet in .*catalog"):
        store.open(read_only=True)
    assert below(tmp_path) == set()
    store.connect().close()
    before = below(tmp_path / "data")
    with store.open() as lake, store.open(read_only=True) as reading:
        with reading.transaction() as tx, lake.at(version=0).transaction() as past:
            assert tx.snapshot_id == past.snapshot_id == 0
        assert below(tmp_path / "data") == before == set()
    assert not list(tmp_path.glob("*lakeconf*"))


@pytest.fixture
def unwritable_lake() -> Iterator[Path]:
    """A lake without a write-ahead log, in a folder that the user `nobody` can read but not write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder, '{ type = "sqlite", uri = "catalog.sqlite" }', 'meta_journal_mode = "DELETE"')
        with lakeconf.init(folder).get_store().open() as lake:
            lake.create_table("raw.t", {"id": "BIGINT"}).append(lake.sql("SELECT 42::BIGINT AS id"))
        write_project(folder, '{ type = "sqlite", uri = "catalog.sqlite" }', "read_only = true")
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o555 if path.is_dir() else 0o444)
        yield folder
        for path in (folder, *folder.rglob("*")):
            path.chmod(0o755)


def as_nobody(folder: Path, code: str) -> str:
    """Runs code with the variable `store` as another user; returns its errors."""
    start = "import os, lakeconf, sqlite3\nstore = lakeconf.init().get_store()\n"
    command = [sys.executable, "-c", start + code]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stderr


def test_catalog_without_wal_is_readable_in_a_read_only_folder(unwritable_lake: Path) -> None:
    before = below(unwritable_lake)
    code = (
        # Load the libraries first: the other user may lack access to their folder.
        "with store.open() as lake: pass\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "assert not os.access('.', os.W_OK)\n"
        "with store.open() as lake:\n"
        "    assert lake.table('raw.t').scan().to_native().fetchall() == [(42,)]\n"
    )
    assert as_nobody(unwritable_lake, code) == ""
    assert below(unwritable_lake) == before


def test_wal_in_a_read_only_folder_raises_an_error_with_a_fix(unwritable_lake: Path) -> None:
    unwritable_lake.chmod(0o755)
    (unwritable_lake / "catalog.sqlite").chmod(0o644)
    with contextlib.closing(sqlite3.connect(unwritable_lake / "catalog.sqlite")) as catalog:
        catalog.execute("PRAGMA journal_mode = WAL")
    (unwritable_lake / "catalog.sqlite").chmod(0o444)
    unwritable_lake.chmod(0o555)
    errors = as_nobody(
        unwritable_lake,
        "from lakeconf.connection.connection import connect, load_extension\n"
        "connection = connect()\n"
        "load_extension(connection, 'sqlite_scanner')\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "store.metadata_backend.admit(connection)\n",
    )
    assert "has a write-ahead log" in errors
    assert "PRAGMA journal_mode = DELETE" in errors
