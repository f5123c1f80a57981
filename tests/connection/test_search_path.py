"""The search path is set if it is not what it should be, and only then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb
import pytest

from lakeconf.connection.connection import SearchPaths, search_path_sql

if TYPE_CHECKING:
    from collections.abc import Iterator


class Recorder:
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
def native() -> Iterator[Any]:
    with duckdb.connect() as connection:
        connection.execute(
            "ATTACH ':memory:' AS lake; CREATE SCHEMA lake.raw; CREATE TABLE lake.raw.t AS SELECT 1 AS a"
        )
        yield Recorder(connection)


RAW = search_path_sql("lake", ["raw"])
MAIN = search_path_sql("lake")


def test_path_is_set_once(native: Any) -> None:
    paths = SearchPaths()
    for _ in range(5):
        paths.set(native, RAW)
    assert native.sets() == 2  # the second time, DuckDB shows how it writes the path
    assert native.native.execute("FROM t").fetchall() == [(1,)]


def test_other_path_is_set(native: Any) -> None:
    paths = SearchPaths()
    for statement in (RAW, MAIN, RAW, RAW, RAW, MAIN):
        paths.set(native, statement)
    with pytest.raises(duckdb.CatalogException):
        native.native.execute("FROM t")
    paths.set(native, RAW)
    assert native.native.execute("FROM t").fetchall() == [(1,)]


def test_path_that_someone_else_has_changed_is_set_again(native: Any) -> None:
    paths = SearchPaths()
    for _ in range(3):
        paths.set(native, RAW)
    native.native.execute("USE memory")
    paths.set(native, RAW)
    assert native.native.execute("FROM t").fetchall() == [(1,)]


def test_paths_that_look_alike_are_not_taken_for_each_other(native: Any) -> None:
    native.native.execute('CREATE SCHEMA lake.a; CREATE SCHEMA lake.b; CREATE SCHEMA lake."a,lake.b"')
    native.native.execute("CREATE TABLE lake.b.u AS SELECT 2 AS a")
    paths = SearchPaths()
    for _ in range(3):
        paths.set(native, search_path_sql("lake", ["a,lake.b"]))
    paths.set(native, search_path_sql("lake", ["a", "b"]))
    assert native.native.execute("FROM u").fetchall() == [(2,)]


def test_statement_that_failed_runs_again(native: Any) -> None:
    paths = SearchPaths()
    missing = search_path_sql("lake", ["later"])
    with pytest.raises(duckdb.Error):
        paths.set(native, missing)
    native.native.execute("CREATE SCHEMA lake.later; CREATE TABLE lake.later.v AS SELECT 3 AS a")
    paths.set(native, missing)
    assert native.native.execute("FROM v").fetchall() == [(3,)]


def test_connections_have_their_own_paths(native: Any) -> None:
    paths, other = SearchPaths(), Recorder(native.native.cursor())
    for _ in range(3):
        paths.set(native, RAW)
    paths.set(other, RAW)  # type: ignore[arg-type]
    assert other.native.execute("FROM t").fetchall() == [(1,)]
