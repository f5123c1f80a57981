"""Opening a store makes a session: its settings, its connections, its snapshot and what it knows of its server."""

from __future__ import annotations

import sys
import types
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import on_postgres, store_of
from plain_sql import run_plain

from lakeconf import Store
from lakeconf.backends.metadata.motherduck import MotherDuckMetadata
from lakeconf.backends.server import CatalogServer
from lakeconf.commit.recovery import SETTINGS, Committing
from lakeconf.connection.connection import SharedConnection
from lakeconf.engines.duckdb import DuckDBEngine
from lakeconf.errors import LakeconfError, MissingDependencyError, SparkVersionError
from lakeconf.lake import opening
from lakeconf.lake.opening import open_session
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf.commit.session import Session

KINDS = ("sqlite", "duckdb", "postgres")


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store whose lake has the table `t`, at snapshot 1."""
    catalog: dict[str, Any] = {"type": request.param, "uri": str(tmp_path / "catalog")}
    if request.param == "postgres":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        catalog = {**on_postgres(server), "metadata_schema": "lake"}
    made = store_of(tmp_path, catalog)
    with made.open() as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)")
    return made


@pytest.fixture
def session(store: Store) -> Iterator[Session]:
    found = open_session(store)
    yield found
    found.close()


def test_session_of_each_kind_of_catalog(store: Store, session: Session, caplog: pytest.LogCaptureFixture) -> None:
    assert (session.store, session.alias, session.snapshot_id, session.base.snapshot_id) == ("dev", "dev", 1, 1)
    assert (session.read_only, session.pinned) == (False, False)
    assert isinstance(session.engine, DuckDBEngine)
    assert session.guard.marker is not None
    assert session.guard.marker.reader is session.reader
    on_server = store.metadata_backend.file() is None
    assert session.reader.metadata_schema == ("lake" if on_server else None)
    for connection in (session.reader.connection, session.writer):
        assert isinstance(connection, SharedConnection)
        for name, value in SETTINGS.items():
            assert connection.rows(f"SELECT current_setting('{name}')") == [(value,)], name
    assert session.writer.rows("SELECT count(*) FROM t") == [(0,)], "the lake is the default database"
    assert session.barrier is Committing.THIS_PROCESS or on_server
    if on_server:
        assert isinstance(session.barrier, str)
        assert 'LOCK TABLE "lake".ducklake_snapshot' in session.barrier
        assert "'__ducklake_metadata_dev'" in session.barrier


def test_lost_reply_is_looked_up_on_a_new_connection_to_a_server(store: Store, session: Session) -> None:
    """Only one DuckDB instance can open a DuckDB file."""
    of_the_instance = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'mark'"
    session.writer.execute("CREATE TABLE memory.mark AS SELECT 1")
    with session.reconnect() as connection:
        same_instance = connection.rows(of_the_instance) == [(1,)]
        assert connection.rows("SELECT count(*) FROM dev.t") == [(0,)]
    assert same_instance is (store.metadata_backend.file() is not None)
    assert session.writer.rows("SELECT 1") == [(1,)]


def test_open_logs_the_snapshot_and_the_engine(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    open_session(store).close()
    assert "opened dev at snapshot 1 with duckdb" in caplog.text


def test_macro_of_the_lake_replaces_no_function_of_the_writer(tmp_path: Path) -> None:
    made = store_of(tmp_path)
    with made.open() as lake:
        run_plain(lake, "CREATE MACRO abs(x) AS 'the macro'")
    session = open_session(made)
    for connection in (session.writer, session.reader.connection):
        assert connection.rows("SELECT abs(-1)") == [(1,)]
    session.close()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_read_only_and_pinned_stores(store: Store) -> None:
    with store.open() as lake:
        run_plain(lake, "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)")
    for options, expected in (
        ({"read_only": True}, (3, True, False)),
        ({"snapshot_version": 2}, (2, True, True)),
    ):
        made = Store("dev", store.metadata_backend, store.storage_backend, attach_options=options)
        session = open_session(made)
        assert (session.snapshot_id, session.read_only, session.pinned) == expected
        assert session.base.snapshot_id == expected[0]
        assert session.reader.connection.rows("SELECT count(*) FROM t") == [(expected[0] - 1,)]
        session.close()


@pytest.mark.parametrize("store", ["sqlite"], indirect=True)
def test_failed_open_closes_its_connections(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []
    connect = open_connection

    def recorded(self: Store) -> Any:
        opened.append(connect(self))
        return opened[-1]

    def fails(*_: object) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(opening, "open_connection", recorded)
    monkeypatch.setattr(opening, "guard_of", fails)
    with pytest.raises(KeyboardInterrupt):
        open_session(store)
    (connection,) = opened
    with pytest.raises(LakeconfError, match="closed"):
        connection.execute("SELECT 1")


def test_backend_that_cannot_wait_for_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader: Any = types.SimpleNamespace(metadata_database="m", metadata_schema="s")
    motherduck = MotherDuckMetadata(database="lake")
    assert opening._barrier(motherduck, reader) is Committing.UNKNOWN
    backend = store_of(
        tmp_path, {"type": "postgres", "host": "h", "database": "d", "user": "u", "metadata_schema": "lake"}
    ).metadata_backend
    assert "LOCK TABLE" in str(opening._barrier(backend, reader))
    monkeypatch.setattr(type(backend.server()), "await_commits", CatalogServer.await_commits)
    assert opening._barrier(backend, reader) is Committing.UNKNOWN


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_lake_on_spark_needs_packages(missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(MissingDependencyError, match=f"a lake on Spark needs the package '{missing}'") as caught:
        open_session(store_of(tmp_path), object())
    assert "lakeconf[spark]" in str(caught.value)
    assert not (tmp_path / "catalog").exists()


def test_lake_on_another_version_of_spark_is_refused(tmp_path: Path) -> None:
    session = types.SimpleNamespace(version="3.5.1")
    with pytest.raises(SparkVersionError, match=r"'3\.5\.1'"):
        open_session(store_of(tmp_path), session)
    assert not (tmp_path / "catalog").exists()
