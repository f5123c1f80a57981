"""Opening a store makes a session; open, closed and read-only lakes; read-only commands change nothing; runs."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from commit_hooks import at_commit
from local_stores import config_of, on_catalog, store_of
from plain_sql import run_plain

import lakeconf
from lakeconf import Store
from lakeconf.cli.app import run
from lakeconf.errors import CatalogMissingError, LakeconfError, SnapshotNotFoundError, TableNotFoundError
from lakeconf.lake.opening import open_session
from lakeconf.lake.run_journal import FileState, ModelRun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import PostgresServer

    from lakeconf import Lake
    from lakeconf.commit.session import Session


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store whose lake has the table `t`, at snapshot 1."""
    schema = {"metadata_schema": "lake"} if request.param == "postgres" else {}
    made = store_of(tmp_path, on_catalog(request, tmp_path) | schema)
    with made.open() as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)")
    return made


@pytest.fixture
def session(each_store: Store) -> Iterator[Session]:
    found = open_session(each_store)
    yield found
    found.close()


def test_lost_reply_is_looked_up_on_a_new_connection_to_a_server(each_store: Store, session: Session) -> None:
    """Only one DuckDB instance can open a DuckDB file."""
    of_the_instance = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'mark'"
    session.writer.execute("CREATE TABLE memory.mark AS SELECT 1")
    with session.reconnect() as connection:
        same_instance = connection.rows(of_the_instance) == [(1,)]
        assert connection.rows("SELECT count(*) FROM dev.t") == [(0,)]
    assert same_instance is (each_store.metadata_backend.file() is not None)
    assert session.writer.rows("SELECT 1") == [(1,)]


def open_catalogs(store: Store, request: pytest.FixtureRequest) -> int:
    """The open descriptors of this process on a catalog's file, or its connections to the server."""
    file, fields = store.metadata_backend.file(), dict(store.metadata_backend)
    if file is None:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        return int(server.sql(f"SELECT count(*) FROM pg_stat_activity WHERE datname = '{fields['database']}'"))
    found = (os.path.realpath(f"/proc/self/fd/{descriptor}") for descriptor in os.listdir("/proc/self/fd"))
    return sum(path.startswith(str(file.resolve())) for path in found)


@pytest.mark.skipif(sys.platform != "linux", reason="lists the descriptors of the process")
def test_closed_lake_keeps_nothing_open_after_a_lost_race(
    each_store: Store, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB keeps its instance in memory if a commit has failed."""
    with each_store.open() as lake:
        lake.table("t").append([{"id": 1}, {"id": 2}])
        at_commit(monkeypatch, before=lambda: run_plain(lake, "INSERT INTO t VALUES (3)"))
        lake.table("t").delete("id = 1")
        relation = lake.table("t").scan().to_native()
        # DuckDB opens a SQLite file for each transaction only.
        assert open_catalogs(each_store, request) or each_store.metadata_backend.type == "sqlite"
    deadline = time.monotonic() + 10  # the server ends a process for each connection
    while open_catalogs(each_store, request) and time.monotonic() < deadline:
        pass
    assert open_catalogs(each_store, request) == 0
    del relation


def test_macro_of_the_lake_replaces_no_function_of_the_writer(tmp_path: Path) -> None:
    made = store_of(tmp_path)
    with made.open() as lake:
        run_plain(lake, "CREATE MACRO abs(x) AS 'the macro'")
    session = open_session(made)
    for connection in (session.writer, session.reader.connection):
        assert connection.rows("SELECT abs(-1)") == [(1,)]
    session.close()


@pytest.mark.parametrize("each_store", ["sqlite"], indirect=True)
def test_read_only_and_pinned_stores(each_store: Store) -> None:
    with each_store.open() as lake:
        run_plain(lake, "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    for options, expected in (({"read_only": True}, (3, True, False)), ({"snapshot_version": 2}, (2, True, True))):
        made = Store("dev", each_store.metadata_backend, each_store.storage_backend, attach_options=options)
        session = open_session(made)
        assert (session.snapshot_id, session.read_only, session.pinned) == expected
        assert session.base.snapshot_id == expected[0]
        assert session.reader.connection.rows("SELECT count(*) FROM t") == [(expected[0] - 1,)]
        session.close()


@pytest.mark.parametrize("part", ["metadata_backend", "storage_backend"])
def test_name_that_no_file_system_allows_is_an_error_of_lakeconf(part: str, tmp_path: Path) -> None:
    config = config_of(tmp_path)
    backend = config["stores"]["dev"][part]
    key = "uri" if part == "metadata_backend" else "path"
    backend[key] = str(tmp_path / ("a" * 300) / "x")
    store = lakeconf.init(config).get_store("dev")
    with pytest.raises(LakeconfError, match="File name too long"):
        store.open()


def test_text_of_a_lake_lists_its_tables(two_tables: Lake) -> None:
    assert repr(two_tables) == "Lake('dev' at snapshot 2, duckdb: main.t, main.u)"
    assert repr(two_tables.at(version=0)) == "Lake('dev' at snapshot 0, duckdb: no tables)"
    two_tables.create_table('"a\x1b[31m"', {"id": "BIGINT"})
    assert "\x1b" not in repr(two_tables)
    two_tables.close()
    assert repr(two_tables) == "Lake('dev' at snapshot 3, duckdb: the lake is closed)"


def test_closed_lake_says_so(two_tables: Lake) -> None:
    table = two_tables.table("t")
    two_tables.close()
    two_tables.close()
    for use in (
        two_tables.tables,
        two_tables.refresh,
        two_tables.snapshots,
        table.scan,
        lambda: table.schema,
        lambda: table.append([{"id": 1}]),
        lambda: two_tables.sql("SELECT 1"),
        lambda: two_tables.drop_table("t"),
        two_tables.maintenance.compact,
    ):
        with pytest.raises(LakeconfError, match="the lake is closed") as refused:
            use()
        assert refused.value.hint == "open it again: store.open()"


@pytest.mark.parametrize("declared", [True, False])
def test_read_only_lake_says_how_to_write(two_tables: Lake, store: Store, *, declared: bool) -> None:
    options = {"read_only": True} if declared else {}
    same = Store("dev", store.metadata_backend, store.storage_backend, attach_options=options)
    with same.open(read_only=not declared) as lake:
        for change in (
            lambda: lake.drop_table("t"),
            lambda: lake.table("t").append([{"id": 1}]),
            lambda: lake.create_table("v", {"id": "BIGINT"}),
        ):
            with pytest.raises(LakeconfError, match="the store 'dev' is read-only") as refused:
                change()
            assert (refused.value.hint or "").startswith("open it without read_only=True")
    assert two_tables.tables() == ["main.t", "main.u"]


RUN = ModelRun("main.t", "definition", "run", inputs={"main.u": 1}, files=("a.csv",))


def test_runs_are_committed_with_their_transaction(two_tables: Lake) -> None:
    with pytest.raises(LakeconfError) as caught:
        two_tables.runs.record(RUN)
    assert caught.value.message == "a model run must be recorded in a transaction"
    assert caught.value.hint == "write: with lake.transaction() as tx: …"
    with two_tables.transaction() as tx:
        tx.runs.record(RUN)
        assert tx.runs.committed("main.t") == []
    with pytest.raises(LakeconfError, match="the transaction has ended"):
        tx.runs.record(RUN)
    (found,) = two_tables.runs.committed("main.t")
    assert (found.model, found.definition, found.run, found.inputs) == ("main.t", "definition", "run", {"main.u": 1})
    assert two_tables.runs.committed("main.u") == []


def test_files_and_their_states_are_read_as_they_were_recorded() -> None:
    """Names with placeholders of DuckLake are escaped, and unknown facts of later versions are ignored."""
    states = {"a.csv": FileState(5, 1_700_000_000_000_000), "s3://b/c.csv": FileState(6, 1_700_000_000_000_001)}
    run = ModelRun("main.t", "d", "r", files=("a.csv", "s3://b/c.csv", "{DATA_PATH}.csv"), file_states=states)
    event = run.event()
    assert ModelRun.of(event) == run
    assert "{DATA_PATH}" not in str(event.payload)
    event = event._replace(payload={**event.payload, "files": '{"a": {"size": 1, "modified": 2, "etag": "x"}}'})
    assert ModelRun.of(event).file_states == {"a": FileState(1, 2)}


def test_changes_since_a_snapshot_end_at_the_snapshot_of_the_lake(two_tables: Lake) -> None:
    run_plain(two_tables, "INSERT INTO t VALUES (1)", "INSERT INTO u VALUES (1)", "DELETE FROM t", "DROP TABLE u")
    assert two_tables.runs.changes_since("t", 1) == []
    assert two_tables.refresh() == 6
    assert two_tables.runs.changes_since("t", 0) is None  # there was no such table
    assert two_tables.runs.changes_since("T", 1) == [3, 5]
    assert two_tables.runs.changes_since("t", 3) == [5]
    assert two_tables.runs.changes_since("t", 6) == []
    assert two_tables.at(version=4).runs.changes_since("t", 1) == [3]
    with pytest.raises(TableNotFoundError, match="no table"):
        two_tables.runs.changes_since("u", 0)
    assert two_tables.at(version=5).runs.changes_since("u", 2) == [4]
    run_plain(two_tables, "CALL ducklake_expire_snapshots('dev', versions => [4])")
    with pytest.raises(SnapshotNotFoundError, match="some of the snapshots after 3 have expired"):
        two_tables.runs.changes_since("t", 3)
    with pytest.raises(SnapshotNotFoundError, match="snapshot 4 has expired"):
        two_tables.runs.changes_since("t", 4)
    assert two_tables.runs.changes_since("t", 5) == []


def test_creation_of_a_table_is_its_first_snapshot_under_any_name(two_tables: Lake) -> None:
    run_plain(two_tables, "ALTER TABLE t RENAME TO v", "DROP TABLE u", "CREATE TABLE u (i INTEGER)")
    assert two_tables.runs.created("u") == 2
    assert two_tables.refresh() == 5
    assert [two_tables.runs.created(name) for name in ("v", "V", "u", "t")] == [1, 1, 5, None]
    run_plain(two_tables, "CREATE VIEW w AS FROM u")
    two_tables.refresh()
    assert two_tables.runs.created("w") is None


READING = [
    ["tables"], ["snapshots"], ["tables", "raw.t"], ["report"], ["metrics"], ["sql", "FROM raw.t"],
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


@pytest.mark.slow
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
