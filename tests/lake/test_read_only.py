"""Read-only commands create, migrate and change nothing, whatever the configuration of the store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

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
FILES = ["sqlite", "duckdb"]


def write_project(folder: Path, metadata: str, options: str = "") -> None:
    (folder / "lakeconf.toml").write_text(
        f'[stores.dev]\nmetadata_backend = {metadata}\nstorage_backend = {{ type = "local", path = "data" }}\n'
        f"attach_options = {{ {options} }}\n\n"
        '[pipeline.models."raw.t"]\nsql = "model.sql"\n'
    )
    (folder / "model.sql").write_text("SELECT 1 AS id")


def below(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def check_reads(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Runs every read-only command: it succeeds or reports that there is no lake, and creates no file."""
    before = below(folder)
    for arguments in READING:
        code = run(arguments)
        output = capsys.readouterr()
        if arguments[0] in ANSWERED:
            assert code == 0, output
        else:
            assert code == 1, arguments
            assert "store 'dev' has no lake yet" in output.err, output
            assert "the first write creates it" in output.err
        assert below(folder) == before, arguments


@pytest.mark.parametrize("kind", FILES)
def test_read_only_commands_create_no_file(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path, f'{{ type = "{kind}", uri = "lake/catalog" }}')
    monkeypatch.chdir(tmp_path)
    check_reads(tmp_path, capsys)


def test_read_only_commands_create_no_postgres_schema(
    postgres_server: PostgresServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    database = postgres_server.create_database()
    monkeypatch.setenv("CATALOG_PASSWORD", postgres_server.password)
    write_project(
        tmp_path,
        f'{{ type = "postgres", host = "{postgres_server.host}", port = {postgres_server.port}, '
        f'database = "{database}", user = "{postgres_server.user}", password = "${{CATALOG_PASSWORD}}", '
        'metadata_schema = "lkae" }',
    )
    monkeypatch.chdir(tmp_path)
    check_reads(tmp_path, capsys)
    system = "('pg_catalog', 'information_schema', 'pg_toast', 'public')"
    for what, column in (("tables", "table_schema"), ("schemata", "schema_name")):
        count = f"SELECT count(*) FROM information_schema.{what} WHERE {column} NOT IN {system}"
        assert postgres_server.sql(count, database).strip() == "0"
    in_public = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
    assert postgres_server.sql(in_public, database).strip() == "0"


def test_read_only_commands_do_not_migrate_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_project(tmp_path, '{ type = "sqlite", uri = "catalog.sqlite" }', "automatic_migration = true")
    monkeypatch.chdir(tmp_path)
    with lakeconf.init().get_store().open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT"})
    with sqlite3.connect("catalog.sqlite") as catalog:
        catalog.execute("UPDATE ducklake_metadata SET value = '0.4' WHERE key = 'version'")
    catalog.close()
    for arguments in READING:
        code = run(arguments)
        assert code == (0 if arguments[0] in {"validate", "stores", "preview-sql"} else 1), arguments
    assert "0.4" in capsys.readouterr().err
    with sqlite3.connect("catalog.sqlite") as catalog:
        query = "SELECT value FROM ducklake_metadata WHERE key = 'version'"
        assert catalog.execute(query).fetchall() == [("0.4",)]
    catalog.close()


def test_open_read_only(project: Path) -> None:
    store = lakeconf.init().get_store()
    with pytest.raises(CatalogMissingError, match=r"has no lake yet in .*catalog\.sqlite"):
        store.open(read_only=True)
    assert not (project / "data").exists()
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    with store.open(read_only=True) as lake:
        assert lake.tables() == ["main.t"]
        with pytest.raises(lakeconf.LakeconfError, match="read-only"):
            lake.create_table("u", {"id": "BIGINT"})


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


def test_catalog_without_wal_is_readable_in_a_read_only_folder(unwritable_lake: Path) -> None:
    code = (
        "import os, lakeconf, sqlite3\n"
        "store = lakeconf.init().get_store()\n"
        # Load the libraries first: the other user may lack access to their folder.
        "with store.open() as lake: pass\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "assert not os.access('.', os.W_OK)\n"
        "with store.open() as lake:\n"
        "    assert lake.table('raw.t').scan().to_native().fetchall() == [(42,)]\n"
    )
    before = below(unwritable_lake)
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=unwritable_lake, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    assert below(unwritable_lake) == before


def test_wal_in_a_read_only_folder_raises_an_error_with_a_fix(unwritable_lake: Path) -> None:
    unwritable_lake.chmod(0o755)
    (unwritable_lake / "catalog.sqlite").chmod(0o644)
    with sqlite3.connect(unwritable_lake / "catalog.sqlite") as catalog:
        catalog.execute("PRAGMA journal_mode = WAL")
    catalog.close()
    (unwritable_lake / "catalog.sqlite").chmod(0o444)
    unwritable_lake.chmod(0o555)
    code = (
        "import os, lakeconf, sqlite3\n"
        "store = lakeconf.init().get_store()\n"
        "if os.getuid() == 0: os.setuid(65534)\n"
        "store.metadata_backend.prepare(read_only=True)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=unwritable_lake, capture_output=True, text=True, check=False
    )
    assert "has a write-ahead log" in result.stderr
    assert "PRAGMA journal_mode = DELETE" in result.stderr


def test_transaction_of_a_read_only_lake_creates_no_file(tmp_path: Path) -> None:
    store = store_of(tmp_path)
    store.connect().close()
    before = below(tmp_path / "data")
    with store.open() as lake, store.open(read_only=True) as reading:
        with reading.transaction() as tx, lake.at(version=0).transaction() as past:
            assert tx.snapshot_id == past.snapshot_id == 0
        assert below(tmp_path / "data") == before == set()
    assert not list(tmp_path.glob("*lakeconf*"))
