"""Connections for several threads and their search paths, the removal of files, and the connection that only parses."""

from __future__ import annotations

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from lakeconf.connection.connection import (
    Connection,
    SearchPaths,
    SharedConnection,
    _closed_database,
    closed_connection,
    connect,
    load_extension,
    remove_files,
    search_path_sql,
)
from lakeconf.errors import LakeconfError
from lakeconf.secret import Secret

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def native() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.execute("ATTACH ':memory:' AS other; CREATE TABLE other.t AS SELECT 42 AS answer; USE other")
        yield connection


@pytest.fixture
def shared(native: duckdb.DuckDBPyConnection) -> SharedConnection:
    return SharedConnection(Connection(native, [Secret("hunter2-planted")]), "USE other")


def in_a_thread(call: Callable[[], Any]) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def test_only_other_threads_keep_cursors_of_their_own(
    shared: SharedConnection, native: duckdb.DuckDBPyConnection
) -> None:
    assert shared.native is native
    assert shared.rows("FROM t") == [(42,)]
    found = in_a_thread(lambda: (shared.native, shared.native))
    assert found[0] is found[1]
    assert found[0] is not native
    assert in_a_thread(lambda: shared.native) is not found[0]
    # A new cursor runs the set-up.
    assert in_a_thread(lambda: shared.rows("FROM t")) == [(42,)]
    without = SharedConnection(Connection(native), "SELECT 1")
    with pytest.raises(LakeconfError, match="Table with name t does not exist"):
        in_a_thread(lambda: without.rows("FROM t"))


def test_failed_set_up_is_an_error_and_is_tried_again(native: duckdb.DuckDBPyConnection) -> None:
    shared = SharedConnection(Connection(native, [Secret("hunter2-planted")]), 'USE "hunter2-planted"')

    def twice() -> list[str]:
        found = []
        for _ in range(2):
            with pytest.raises(LakeconfError) as raised:
                shared.rows("SELECT 1")
            found.append(str(raised.value))
        return found

    one, other = in_a_thread(twice)
    assert one == other
    assert "***" in one
    assert "hunter2-planted" not in one


def test_transaction_belongs_to_its_thread_and_errors_are_masked_in_each(shared: SharedConnection) -> None:
    for call in (lambda run: run(), in_a_thread):
        with pytest.raises(LakeconfError) as raised:
            call(lambda: shared.rows('FROM "hunter2-planted"'))
        assert "hunter2-planted" not in str(raised.value)
    shared.execute("BEGIN")
    shared.execute("INSERT INTO t VALUES (7)")
    assert in_a_thread(lambda: shared.rows("FROM t")) == [(42,)]
    shared.execute("COMMIT")
    assert in_a_thread(lambda: shared.rows("FROM t ORDER BY 1")) == [(7,), (42,)]


def test_threads_that_read_at_the_same_time_get_their_own_rows(shared: SharedConnection) -> None:
    start = threading.Barrier(4)

    def read(number: int) -> list[Any]:
        shared.rows("SELECT 1")
        start.wait()
        return [shared.rows("SELECT ? + range FROM range(3)", [number]) for _ in range(25)]

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(read, range(0, 400, 100)))
    for number, found in zip(range(0, 400, 100), results, strict=True):
        assert found == [[(number,), (number + 1,), (number + 2,)]] * 25


def test_closing_in_another_thread_closes_the_cursors_of_all(shared: SharedConnection) -> None:
    closed, opened = threading.Event(), threading.Event()

    def use() -> None:
        shared.rows("SELECT 1")
        opened.set()
        closed.wait(30)
        with pytest.raises(LakeconfError, match=r"(?i)closed"):
            shared.rows("SELECT 1")

    with ThreadPoolExecutor(1) as pool:
        used = pool.submit(use)
        opened.wait(30)
        in_a_thread(shared.close)
        closed.set()
        used.result()
    with pytest.raises(LakeconfError, match=r"(?i)closed"):
        shared.rows("SELECT 1")


def test_exactly_the_given_files_are_removed(tmp_path: Path) -> None:
    names = ["a.parquet", "a'b [c].parquet", "b.parquet"]
    for name in names:
        (tmp_path / name).write_text("x")
    with connect() as connection:
        load_extension(connection, "ducklake")
        remove_files(connection, [str(tmp_path / name) for name in [*names[:2], "missing.parquet"]])
        attached = connection.rows("SELECT database_name FROM duckdb_databases() WHERE NOT internal")
    assert [path.name for path in tmp_path.iterdir()] == ["b.parquet"]
    assert attached == [("memory",)]


def test_nothing_outside_is_reached(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    variable = duckdb.sql("SELECT 1 AS one")
    assert variable.columns == ["one"]
    for sql in (
        f"SELECT * FROM read_text('{tmp_path}/secret.txt')",
        f"COPY (SELECT 1) TO '{tmp_path}/written.csv'",
        f"ATTACH '{tmp_path}/other.duckdb' AS other",
        "FROM variable",
        "SET enable_external_access = true",
        "SET threads = 1",
        "LOAD ducklake",
        "INSTALL httpfs",
    ):
        with closed_connection() as connection, pytest.raises(duckdb.Error):
            connection.execute(sql)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


def test_closed_connections_share_nothing_and_are_replaced_and_interrupted() -> None:
    with closed_connection() as one, closed_connection() as other:
        one.execute("CREATE TEMP TABLE t (i INTEGER)")
        assert other.execute("SELECT count(*) FROM duckdb_tables()").fetchall() == [(0,)]
    _closed_database(os.getpid()).close()
    with closed_connection() as connection:
        assert connection.execute("SELECT 2").fetchall() == [(2,)]
    with pytest.raises(KeyboardInterrupt), closed_connection():
        raise RuntimeError("Query interrupted")


class RecordingConnection:
    """A duckdb connection that records its statements."""

    def __init__(self, native: duckdb.DuckDBPyConnection) -> None:
        self.native = native
        self.ran: list[str] = []

    def execute(self, sql: str) -> Any:
        self.ran.append(sql)
        return self.native.execute(sql)

    def sets(self) -> int:
        return sum(sql.startswith("SET") for sql in self.ran)


@pytest.fixture
def recorder() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute(
            "ATTACH ':memory:' AS lake; CREATE SCHEMA lake.raw; CREATE TABLE lake.raw.t AS SELECT 1 AS a"
        )
        yield RecordingConnection(connection)


RAW = search_path_sql("lake", ["raw"])
MAIN = search_path_sql("lake")


def test_path_is_set_once_unless_someone_else_has_changed_it(recorder: Any) -> None:
    paths = SearchPaths()
    for _ in range(5):
        paths.set(recorder, RAW)
    assert recorder.sets() == 2  # the second time, DuckDB shows how it writes the path
    assert recorder.native.execute("FROM t").fetchall() == [(1,)]
    recorder.native.execute("USE memory")
    paths.set(recorder, RAW)
    assert recorder.native.execute("FROM t").fetchall() == [(1,)]
    other = RecordingConnection(recorder.native.cursor())
    paths.set(other, RAW)  # type: ignore[arg-type]
    assert other.native.execute("FROM t").fetchall() == [(1,)]


def test_other_path_is_set_and_a_statement_that_failed_runs_again(recorder: Any) -> None:
    paths = SearchPaths()
    for statement in (RAW, MAIN, RAW, RAW, RAW, MAIN):
        paths.set(recorder, statement)
    with pytest.raises(duckdb.CatalogException):
        recorder.native.execute("FROM t")
    paths.set(recorder, RAW)
    assert recorder.native.execute("FROM t").fetchall() == [(1,)]
    missing = search_path_sql("lake", ["later"])
    with pytest.raises(duckdb.Error):
        paths.set(recorder, missing)
    recorder.native.execute("CREATE SCHEMA lake.later; CREATE TABLE lake.later.v AS SELECT 3 AS a")
    paths.set(recorder, missing)
    assert recorder.native.execute("FROM v").fetchall() == [(3,)]


def test_paths_that_look_alike_are_not_taken_for_each_other(recorder: Any) -> None:
    recorder.native.execute('CREATE SCHEMA lake.a; CREATE SCHEMA lake.b; CREATE SCHEMA lake."a,lake.b"')
    recorder.native.execute("CREATE TABLE lake.b.u AS SELECT 2 AS a")
    paths = SearchPaths()
    for _ in range(3):
        paths.set(recorder, search_path_sql("lake", ["a,lake.b"]))
    paths.set(recorder, search_path_sql("lake", ["a", "b"]))
    assert recorder.native.execute("FROM u").fetchall() == [(2,)]
