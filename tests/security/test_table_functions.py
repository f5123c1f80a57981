"""Every function of DuckDB and its extensions for FROM, CALL and PRAGMA, run by `lakeconf sql`."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf
from lakeconf.backends.metadata.file_catalogs import SQLiteMetadata
from lakeconf.connection.connection import Connection
from lakeconf.errors import QueryError, UnsafeQueryError
from lakeconf.inspection import read_only_sql
from lakeconf.inspection.read_only_sql import query
from lakeconf.sql import literal
from lakeconf.store import Store, open_connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

# Functions that `lakeconf sql` runs, with arguments that make them do their work.
READERS = {
    "duckdb_columns": "",
    "duckdb_constraints": "",
    "duckdb_functions": "",
    "duckdb_indexes": "",
    "duckdb_keywords": "",
    "duckdb_schemas": "",
    "duckdb_tables": "",
    "duckdb_types": "",
    "duckdb_views": "",
    "ducklake_current_snapshot": "'dev'",
    "ducklake_last_committed_snapshot": "'dev'",
    "ducklake_options": "'dev'",
    "ducklake_settings": "'dev'",
    "ducklake_snapshots": "'dev'",
    "ducklake_table_changes": "'dev', 'main', 'events', 0, 3",
    "ducklake_table_deletions": "'dev', 'main', 'events', 0, 3",
    "ducklake_table_info": "'dev'",
    "ducklake_table_insertions": "'dev', 'main', 'events', 0, 3",
    "generate_series": "1, 3",
    "json_each": "'{\"a\": 1}'",
    "json_tree": "'{\"a\": 1}'",
    "pragma_table_info": "'events'",
    "pragma_version": "",
    "range": "3",
    "repeat": "1, 3",
    "repeat_row": "1, num_rows => 3",
    "summary": "(FROM events)",
    "test_all_types": "",
    "unnest": "[1, 2]",
}
# A view or macro may call those that do not describe the process.
IN_VIEWS = {name for name in READERS if not name.startswith(("duckdb_", "pragma_"))} - {
    *("ducklake_options", "ducklake_settings")
}


@dataclass(frozen=True)
class Surroundings:
    """State that a query must not change: the files of the lake, its catalog rows, and a local server."""

    project: Path
    server: socket.socket
    sockets: frozenset[str]

    def state(self) -> tuple[object, ...]:
        files = [(path, path.stat().st_mtime_ns) for path in sorted((self.project / "data").rglob("*"))]
        others = sorted(path for path in self.project.iterdir() if not path.name.startswith("catalog.sqlite"))
        with contextlib.closing(sqlite3.connect(self.project / "catalog.sqlite")) as catalog:
            return (
                files,
                others,
                list(catalog.iterdump()),
                hash(frozenset(os.environ.items())),
                open_sockets() - self.sockets,
            )

    def was_reached(self) -> bool:
        try:
            self.server.accept()[0].close()
        except BlockingIOError:
            return False
        return True


def open_sockets() -> frozenset[str]:
    """The open sockets, except those of Py4J."""
    tables = [Path(f"/proc/self/net/{name}").read_text().splitlines()[1:] for name in ("tcp", "tcp6")]
    rows = [line.split() for lines in tables for line in lines]
    others = {f"socket:[{row[9]}]" for row in rows for port in _py4j_ports() if row[2].endswith(f":{port:04X}")}
    found = set()
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return frozenset(name for name in found - others if name.startswith("socket:"))


def _py4j_ports() -> set[int]:
    """The port of the JVM of the tests' Spark session, to which Py4J opens and closes connections at any time."""
    context: Any = sys.modules.get("pyspark.core.context")
    gateway = context and context.SparkContext._gateway
    return {gateway.gateway_parameters.port} if gateway else set()


class KeptOpen(Connection):
    """A connection that later queries reuse: opening a lake for each of several hundred queries takes too long."""

    def close(self) -> None:
        self.execute("ROLLBACK")


@pytest.fixture
def store(project: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A lake in which every maintenance function has work to do."""
    monkeypatch.setattr(SQLiteMetadata, "extensions", ("sqlite_scanner", "postgres_scanner", "httpfs"))
    store = lakeconf.init().get_store()
    native = store.connect()
    native.execute("CALL dev.set_option('data_inlining_row_limit', 2)")
    native.execute("CREATE TABLE events AS SELECT range AS id FROM range(9); DELETE FROM events WHERE id < 5")
    native.execute("INSERT INTO events FROM range(3); INSERT INTO events VALUES (10)")
    native.execute("CREATE TABLE small AS FROM range(3); INSERT INTO small FROM range(3)")
    native.execute("CREATE TABLE old AS FROM range(9); DROP TABLE old")
    native.execute("CALL ducklake_expire_snapshots('dev', older_than => now())")
    native.close()
    (project / "data" / "orphan.parquet").write_bytes(b"")
    return store


@pytest.fixture
def surroundings(store: Store, project: Path) -> Iterator[Surroundings]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0)
        # Sockets that an earlier test left open may close at any time.
        yield Surroundings(project, server, open_sockets())


@pytest.fixture
def functions(store: Store) -> list[tuple[str, str, int]]:
    """Kind, name and number of parameters of every function for FROM, CALL or PRAGMA."""
    with open_connection(store) as connection:
        found = connection.rows(
            "SELECT DISTINCT function_type, function_name, len(parameter_types) FROM duckdb_functions() "
            "WHERE function_type IN ('table', 'table_macro', 'pragma') ORDER BY ALL"
        )
    assert len(found) > 150
    return found


def call(name: str, parameters: int, port: int) -> str:
    """A call that connects to the local server if the function connects to servers at all."""
    if name.startswith(("postgres", "sqlite")):
        target = f"host=127.0.0.1 port={port} connect_timeout=2"
    elif name.startswith("ducklake"):
        target = "dev"
    else:
        target = f"http://127.0.0.1:{port}/file"
    return f"{name}({', '.join([literal(target)] * parameters)})"


def plant(project: Path, names: Iterable[str], calls: Mapping[str, str]) -> None:
    """Adds a view and a macro for each call to the catalog, as anyone with write access could."""
    native = lakeconf.init().get_store().connect()
    for name in names:
        native.execute(
            f"CREATE VIEW view_{name} AS SELECT 1 AS id; CREATE MACRO macro_{name}() AS TABLE SELECT 1 AS id"
        )
    native.close()
    with contextlib.closing(sqlite3.connect(project / "catalog.sqlite")) as catalog, catalog:
        for name in names:
            sql = f"SELECT 1 AS id FROM {calls[name]}"
            catalog.execute("UPDATE ducklake_view SET sql = ? WHERE view_name = ?", (sql, f"view_{name}"))
            catalog.execute(
                "UPDATE ducklake_macro_impl SET sql = ? WHERE macro_id = "
                "(SELECT macro_id FROM ducklake_macro WHERE macro_name = ?)",
                (sql, f"macro_{name}"),
            )


def test_surroundings_detect_a_change(surroundings: Surroundings, store: Store) -> None:
    before = surroundings.state()
    with socket.create_connection(surroundings.server.getsockname()):
        assert surroundings.was_reached()
        assert surroundings.state() != before
    assert surroundings.state() == before
    for function in ("merge_adjacent_files", "flush_inlined_data", "cleanup_old_files"):
        native = store.connect()
        native.execute(f"FROM ducklake_{function}('dev'{', cleanup_all => true' if 'old' in function else ''})")
        native.close()
        assert surroundings.state() != before, function
        before = surroundings.state()


@pytest.mark.slow
def test_function_that_does_more_than_read_is_rejected(
    surroundings: Surroundings, store: Store, functions: list[tuple[str, str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    port = surroundings.server.getsockname()[1]
    refused = {name: call(name, count, port) for kind, name, count in functions if kind != "pragma"}
    refused = {name: sql for name, sql in refused.items() if name not in READERS}
    plant(surroundings.project, refused, refused)
    kept = KeptOpen(store.connect(), store.secrets)
    kept.prefer_builtins("dev")
    monkeypatch.setattr(read_only_sql, "open_connection", lambda _: kept)
    before = surroundings.state()
    for name, sql in refused.items():
        for statement in (f"FROM {sql}", f"FROM view_{name}", f"FROM macro_{name}()"):
            with pytest.raises(UnsafeQueryError, match=name):
                query(store, statement)
        for statement in (f"CALL {sql}", f"PRAGMA {sql.removesuffix('()')}"):
            with pytest.raises(QueryError, match=r"not a single query|syntax error"):
                query(store, statement)
        assert not surroundings.was_reached(), name
    for kind, name, count in functions:
        if kind == "pragma":
            with pytest.raises(QueryError, match=r"not a single query|syntax error"):
                query(store, f"PRAGMA {call(name, count, port)}" if count else f"PRAGMA {name}")
    assert not surroundings.was_reached()
    assert surroundings.state()[:-1] == before[:-1]
    kept.native.close()


@pytest.mark.slow
def test_function_that_only_reads_runs(
    surroundings: Surroundings, store: Store, functions: list[tuple[str, str, int]]
) -> None:
    assert set(READERS) <= {name for _, name, _ in functions}
    ((latest,),) = query(store, "FROM ducklake_current_snapshot('dev')")[1]
    calls = {name: f"{name}({arguments.replace('0, 3', f'{latest}, {latest}')})" for name, arguments in READERS.items()}
    before = surroundings.state()
    for name, sql in calls.items():
        assert query(store, f"FROM {sql}")[0], name
    assert surroundings.state() == before
    plant(surroundings.project, READERS, calls)
    before = surroundings.state()
    for name in READERS:
        for statement in (f"FROM view_{name}", f"FROM macro_{name}()"):
            if name in IN_VIEWS:
                assert query(store, statement)[0], name
            else:
                with pytest.raises(UnsafeQueryError, match=f"calls {name}"):
                    query(store, statement)
    assert surroundings.state() == before
    assert not surroundings.was_reached()
