"""Opening a store makes a session: its settings, its connections, its snapshot and what it knows of its server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from local_stores import config_of, on_catalog, store_of
from plain_sql import run_plain

import lakeconf
from lakeconf import Store
from lakeconf.errors import LakeconfError
from lakeconf.lake.opening import open_session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf.commit.session import Session


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store whose lake has the table `t`, at snapshot 1."""
    schema = {"metadata_schema": "lake"} if request.param == "postgres" else {}
    made = store_of(tmp_path, on_catalog(request, tmp_path) | schema)
    with made.open() as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)")
    return made


@pytest.fixture
def session(store: Store) -> Iterator[Session]:
    found = open_session(store)
    yield found
    found.close()


def test_lost_reply_is_looked_up_on_a_new_connection_to_a_server(store: Store, session: Session) -> None:
    """Only one DuckDB instance can open a DuckDB file."""
    of_the_instance = "SELECT count(*) FROM duckdb_tables() WHERE table_name = 'mark'"
    session.writer.execute("CREATE TABLE memory.mark AS SELECT 1")
    with session.reconnect() as connection:
        same_instance = connection.rows(of_the_instance) == [(1,)]
        assert connection.rows("SELECT count(*) FROM dev.t") == [(0,)]
    assert same_instance is (store.metadata_backend.file() is not None)
    assert session.writer.rows("SELECT 1") == [(1,)]


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


@pytest.mark.parametrize("part", ["metadata_backend", "storage_backend"])
def test_name_that_no_file_system_allows_is_an_error_of_lakeconf(part: str, tmp_path: Path) -> None:
    config = config_of(tmp_path)
    backend = config["stores"]["dev"][part]
    key = "uri" if part == "metadata_backend" else "path"
    backend[key] = str(tmp_path / ("a" * 300) / "x")
    store = lakeconf.init(config).get_store("dev")
    with pytest.raises(LakeconfError, match="File name too long"):
        store.open()
