"""Processes write to one lake at the same time, under faults, and the history of their transactions has no anomaly."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from anomalies import ALLOWED_BY_PREFIX_CONSISTENCY, ALLOWED_BY_SNAPSHOT_ISOLATION, find_anomalies
from history_run import Run, of_tables
from history_writer import LIST, MAINTENANCE, REMOVING, Task, create_tables, names
from local_stores import config_of, on_postgres, on_sqlite

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

    from history import Transaction
    from servers import FaultProxy, PostgresServer

PROVE = bool(os.environ.get("LAKECONF_PROVE"))
# Transactions of each thread. Two processes have two threads each.
COUNT = 250 if PROVE else 8
LONG = 2500 if PROVE else 12
# Catalogs that two processes can have open at the same time.
SHARED = pytest.mark.parametrize("task", ["sqlite", "postgres"], indirect=True)


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def task(request: pytest.FixtureRequest, tmp_path: Path) -> Task:
    """What a process does, for a lake with empty tables, on each kind of catalog."""
    if request.param == "postgres":
        catalog = on_postgres(request.getfixturevalue("postgres_server"), request.getfixturevalue("database"))
    else:
        catalog = {"type": request.param, "uri": str(tmp_path / "catalog")}
    return task_of(tmp_path, catalog)


def task_of(folder: Path, catalog: dict[str, Any]) -> Task:
    config = config_of(folder, catalog)
    (folder / "histories").mkdir()
    task = Task(config, folder / "histories", process=0, seed=1, count=COUNT, threads=2, tables=8 if PROVE else 3)
    create_tables(lakeconf.init(config).get_store("dev"), task.tables)
    return task


def inlined(task: Task, limit: int = 10) -> dict[str, Any]:
    """A configuration with which DuckLake keeps small inserts and deletes in the catalog."""
    return {"stores": {"dev": task.config["stores"]["dev"] | {"attach_options": {"data_inlining_row_limit": limit}}}}


def maintenance(task: Task) -> tuple[str, ...]:
    """Maintenance beside reads: on SQLite, DuckDB may miss rows that are being flushed; see docs/guarantees.md."""
    is_sqlite = task.config["stores"]["dev"]["metadata_backend"]["type"] == "sqlite"
    return tuple(kind for kind in MAINTENANCE if kind != "flush" or not is_sqlite)


def check(history: list[Transaction]) -> None:
    """No anomaly but those that docs/guarantees.md names."""
    report = find_anomalies(history)
    assert report.counts["ok"] > len(history) / 4, report
    assert report.forbidden(ALLOWED_BY_PREFIX_CONSISTENCY) == {}, report
    lists = find_anomalies(of_tables(history, LIST))
    assert lists.edges["ww"] > 0, lists
    assert lists.forbidden(ALLOWED_BY_SNAPSHOT_ISOLATION) == {}, lists
    for name in names(8):
        if name.startswith(LIST):
            table = find_anomalies(of_tables(history, f"{name}/"))
            assert table.found == {}, f"{name}: {table}"


def test_writers_that_are_killed_and_paused_while_the_lake_is_maintained(task: Task) -> None:
    faults = ("kill", "pause")
    second = replace(task, process=1, count=LONG, faults=faults)
    run = Run([replace(second, process=0, maintenance=(*maintenance(task), *REMOVING), config=inlined(task)), second])
    check(run.history())
    assert run.kills > 0


@SHARED
def test_locks_that_are_lost_while_their_holder_is_paused(
    task: Task, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The holder continues after others have taken its locks and committed."""
    if "host" in task.config["stores"]["dev"]["metadata_backend"]:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        database: str = request.getfixturevalue("database")

        def lose() -> None:
            server.sql(
                "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND granted", database
            )
    else:

        def lose() -> None:
            for path in tmp_path.glob("catalog.lakeconf-*"):
                path.unlink(missing_ok=True)

    paused = replace(task, faults=("pause",), maintenance=maintenance(task))
    run = Run([paused, replace(paused, process=1, config=inlined(task))], while_paused=lose)
    check(run.history())
    assert run.paused > 0


def test_replies_to_commits_that_are_lost(
    postgres_server: PostgresServer, postgres_proxy: FaultProxy, database: str, tmp_path: Path
) -> None:
    """The server applies the commit, or never sees it."""
    task = task_of(tmp_path, on_postgres(postgres_server, database))
    proxied = config_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))
    for forward in (True, False):
        postgres_proxy.reset_on(b"COMMIT", forward=forward, times=COUNT // 4)
    run = Run([replace(task, config=proxied, maintenance=maintenance(task)), replace(task, process=1)])
    check(run.history())
    assert postgres_proxy.fired > 0


def test_without_the_checks_of_lakeconf_updates_are_lost(tmp_path: Path) -> None:
    """The writers and the checker of these tests can find something."""
    task = replace(task_of(tmp_path, on_sqlite(tmp_path)), tables=1, count=12, unprotected=True)
    history = Run([task, replace(task, process=1)]).history()
    assert "lost update" in find_anomalies(of_tables(history, LIST)).found


@pytest.mark.parametrize("task", ["postgres"], indirect=True)
def test_writers_without_lakeconf_have_snapshot_isolation(task: Task) -> None:
    """Beside writers with lakeconf."""
    run = Run([task, replace(task, process=1, threads=1, plain=True, config=inlined(task))])
    check(run.history())
