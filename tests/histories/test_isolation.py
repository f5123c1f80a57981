"""Processes write to one lake at the same time, under faults, and the history of their transactions has no anomaly."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anomalies import ALLOWED_BY_PREFIX_CONSISTENCY, ALLOWED_BY_SNAPSHOT_ISOLATION, find_anomalies
from history_plan import LIST, MAINTENANCE, REMOVING, Task, create_tables, names
from history_run import Run, of_tables
from history_writer import maintain, opened
from local_stores import config_of, on_postgres, on_sqlite
from strength import PROVE

import lakeconf

if TYPE_CHECKING:
    from history import Transaction
    from servers import FaultProxy, PostgresServer

# Transactions of each thread of lakeconf, in most tests and under kills, of a plain writer, and of a writer with Spark.
# With LAKECONF_PROVE, a catalog gets at least 4 * 1000 + 4 * 200 + 2 * 200 + 5000 + 100 transactions.
COUNT, LONG, PLAIN, SPARK = (200, 1000, 5000, 100) if PROVE else (8, 12, 120, 4)


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
    task = Task(config, folder / "histories", process=0, seed=1, count=COUNT, threads=2, tables=8 if PROVE else 2)
    create_tables(lakeconf.init(config).get_store("dev"), task.tables)
    return task


def is_sqlite(task: Task) -> bool:
    """True if DuckDB reads the catalog in several transactions."""
    return bool(task.config["stores"]["dev"]["metadata_backend"]["type"] == "sqlite")


def inlined(task: Task, limit: int = 10) -> dict[str, Any]:
    """A configuration with which DuckLake keeps small inserts and deletes in the catalog."""
    return {"stores": {"dev": task.config["stores"]["dev"] | {"attach_options": {"data_inlining_row_limit": limit}}}}


def maintained(task: Task, *, removes: bool = True, **changes: Any) -> Task:
    """A task with maintenance, of a process that keeps small changes in the catalog.

    It does not on SQLite, where DuckDB may miss rows that are being flushed; see docs/guarantees.md.
    """
    kinds = (*MAINTENANCE, *REMOVING) if removes else MAINTENANCE
    return replace(task, maintenance=kinds, config=task.config if is_sqlite(task) else inlined(task), **changes)


def check(history: list[Transaction], *writers: str) -> None:
    """Each writer committed, and there is no anomaly but those that docs/guarantees.md names."""
    report = find_anomalies(history)
    assert report.counts["ok"] > len(history) / 2, report
    assert {each.kind.split()[0] for each in history if each.status == "ok" and each.appends} == set(writers)
    assert report.forbidden(ALLOWED_BY_PREFIX_CONSISTENCY) == {}, report
    lists = find_anomalies(of_tables(history, LIST))
    assert lists.edges["ww"] > 0, lists
    assert lists.forbidden(ALLOWED_BY_SNAPSHOT_ISOLATION) == {}, lists
    for name in names(8):
        if name.startswith(LIST):
            table = find_anomalies(of_tables(history, f"{name}/"))
            assert table.found == {}, f"{name}: {table}"


def check_maintenance(run: Run) -> None:
    """Faults have not silently disabled compaction, expiry and cleanup, and leave no file that cleanup keeps."""
    changed = {what: sum(each.changed for each in run.maintained if each.what == what) for what in REMOVING}
    changed["compact"] = sum(each.changed for each in run.maintained if each.what in MAINTENANCE)
    assert min(changed["compact"], changed["expire"]) > 0, run.maintained
    task = run.tasks[0]
    with opened(lakeconf.init(task.config).get_store("dev").open) as lake:
        for what in REMOVING:
            maintain(lake, what, forced=True)
        known = "ducklake_data_file UNION ALL SELECT path FROM __ducklake_metadata_dev.ducklake_delete_file"
        paths = lake.sql(f"SELECT path FROM __ducklake_metadata_dev.{known}").collect("pyarrow").to_native()["path"]
    found = Path(task.config["stores"]["dev"]["storage_backend"]["path"]).rglob("*.parquet")
    assert sorted(path.name for path in found) == sorted(Path(path).name for path in paths.to_pylist())


def test_writers_that_are_killed_and_paused_while_the_lake_is_maintained(task: Task) -> None:
    faults = ("kill", "pause")
    second = replace(task, process=1, count=LONG, faults=faults)
    run = Run([maintained(second, process=0), second])
    check(run.history(), "duckdb")
    assert run.kills > 0
    check_maintenance(run)


def test_locks_that_are_lost_and_clocks_that_jump(task: Task, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """The holder continues after others have taken its locks and committed; nothing younger than a day is removed."""
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

    first = maintained(task, faults=("pause", "clock"), forced=False)
    run = Run([first, replace(first, process=1, config=task.config)], while_paused=lose)
    check(run.history(), "duckdb")
    assert run.paused > 0
    done = {each.what for each in run.maintained if each.done}
    assert done >= set(REMOVING)
    assert [each for each in run.maintained if each.what in REMOVING and each.changed] == []


def test_replies_to_commits_that_are_lost(
    postgres_server: PostgresServer, postgres_proxy: FaultProxy, database: str, tmp_path: Path
) -> None:
    """The server applies the commit, or never sees it."""
    task = task_of(tmp_path, on_postgres(postgres_server, database))
    proxied = config_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))
    for forward in (True, False):
        postgres_proxy.reset_on(b"COMMIT", forward=forward, times=COUNT // 4)
    run = Run([maintained(replace(task, config=proxied), removes=False), replace(task, process=1)])
    check(run.history(), "duckdb")
    assert postgres_proxy.fired > 0


def test_without_the_checks_of_lakeconf_updates_are_lost(tmp_path: Path) -> None:
    """The writers and the checker of these tests can find something."""
    task = replace(task_of(tmp_path, on_sqlite(tmp_path)), tables=1, count=12, unprotected=True)
    history = Run([task, replace(task, process=1)]).history()
    assert "lost update" in find_anomalies(of_tables(history, LIST)).found


def test_writers_on_both_engines_and_without_lakeconf(task: Task, request: pytest.FixtureRequest) -> None:
    """In the short run, the writer with Spark is a thread of this process, because starting a session takes longer."""
    plain = replace(task, process=1, threads=1, count=PLAIN, writer="plain", config=inlined(task))
    spark = replace(task, process=2, threads=1, count=SPARK, tables=8 if PROVE else 1, writer="spark")
    if PROVE:
        run = Run([task, plain, replace(spark, faults=("kill",))])
    else:
        run = Run([task, plain], here=[(spark, request.getfixturevalue("spark"))])
    check(run.history(), "duckdb", "plain", "spark")
