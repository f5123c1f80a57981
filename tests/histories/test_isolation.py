"""Processes write to one lake at the same time, under faults, and the history of their transactions has no anomaly."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from anomalies import ALLOWED_BY_PREFIX_CONSISTENCY, ALLOWED_BY_SNAPSHOT_ISOLATION, find_anomalies
from history import NEVER, Maintained, Read, Transaction, load, load_maintenance, now
from history_plan import LIST, MAINTENANCE, REMOVING, ROWS, Task, create_tables, names
from history_stream import StreamReader
from history_writer import found, maintain, opened, read, run_all, work
from local_stores import config_of, in_bucket, on_postgres, on_sqlite
from servers import postgres
from strength import PROVE, in_prove

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from servers import FaultProxy, PostgresServer, S3Server


_TICK_SECONDS = 0.05
# How long a process stays paused.
_PAUSED_TICKS = 4
_PRELOADED = [
    "history_writer",
    "lakeconf.lake.lake",
    "lakeconf.engines.duckdb",
    "narwhals",
    "pandas",
    "pytz",
    "sqlite3",
]
_context: Any = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(_PRELOADED)


@dataclass
class Run:
    """Processes that write to one lake."""

    tasks: Sequence[Task]  # what the processes do
    here: Sequence[tuple[Task, Any]] = ()  # tasks of threads of this process, each with the Spark session that it uses
    while_paused: Callable[[], None] | None = None  # called while a process is paused, before it continues
    kills: int = 0  # the number of processes that were killed
    paused: int = 0  # the number of pauses
    _running: dict[int, tuple[Any, Task]] = field(default_factory=dict)
    _stopped: dict[int, int] = field(default_factory=dict)

    def history(self) -> list[Transaction]:
        """Runs all processes to their end, and returns their transactions and the final reads."""
        try:
            for task in self.tasks:
                self._start(task)
            with ThreadPoolExecutor(max(len(self.here), 1)) as pool:
                threads = [pool.submit(run_all, *each) for each in self.here]
                while self._running:
                    wait([process.sentinel for process, _ in self._running.values()], _TICK_SECONDS)
                    for process, task in list(self._running.values()):
                        self._look_at(process, task)
                for thread in threads:
                    thread.result()
        finally:
            for process, _ in self._running.values():
                process.kill()
                process.join()
        folder = self.tasks[0].folder
        assert [path.read_text() for path in folder.glob("*.error")] == []
        history = load(sorted(folder.glob("*.jsonl")))
        return [*history, *final_reads(self.tasks[0], history)]

    @property
    def maintained(self) -> list[Maintained]:
        """The maintenance of all processes."""
        return load_maintenance(self.tasks[0].folder.glob("*.maintenance"))

    def _start(self, task: Task) -> None:
        process = _context.Process(target=work, args=(task,))
        process.start()
        self._running[process.pid] = process, task

    def _look_at(self, process: Any, task: Task) -> None:
        if process.exitcode is not None:
            process.join()
            del self._running[process.pid]
            if process.exitcode < 0:
                self.kills += 1
                self._start(task)
        elif _is_stopped(process.pid):
            ticks = self._stopped[process.pid] = self._stopped.get(process.pid, 0) + 1
            if ticks > _PAUSED_TICKS:
                del self._stopped[process.pid]
                self.paused += 1
                if self.while_paused:
                    self.while_paused()
                os.kill(process.pid, signal.SIGCONT)


def _is_stopped(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
    return False


def final_reads(task: Task, history: Sequence[Transaction]) -> list[Transaction]:
    """Two transactions that read all lists: through lakeconf, and through DuckDB alone."""
    store = lakeconf.init(task.config).get_store("dev")
    every: dict[str, set[int]] = {name: set() for name in names(task.tables)}
    for each in history:
        for operation in each.operations:
            table, _, key = operation.key.partition("/")
            every[table].add(int(key))
    keys = {table: sorted(each) for table, each in every.items() if each}
    done = []
    reads: list[Read] = []
    began = now()
    with opened(store.open) as lake:
        for table, wanted in keys.items():
            reads += read(lake, table, wanted)
    done.append(Transaction(-1, -1, tuple(reads), "ok", began, now(), "final"))
    reads, began = [], now()
    with contextlib.closing(opened(store.connect)) as connection:
        for table, wanted in keys.items():
            rows = connection.execute(f"SELECT k, v FROM dev.{table} ORDER BY rowid").fetchall()
            reads += found(table, wanted, rows)
    done.append(Transaction(-2, -2, tuple(reads), "ok", began, now(), "final, plain"))
    return done


def of_tables(history: Sequence[Transaction], prefix: str) -> list[Transaction]:
    """The part of a history that concerns some tables."""
    parts = [
        replace(each, operations=tuple(one for one in each.operations if one.key.startswith(prefix)))
        for each in history
    ]
    return [each for each in parts if each.operations or each.completed == NEVER]


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
    return task_with(folder, config_of(folder, catalog))


def task_with(folder: Path, config: dict[str, Any]) -> Task:
    (folder / "histories").mkdir()
    task = Task(config, folder / "histories", process=0, seed=1, count=COUNT, threads=2, tables=8 if PROVE else 2)
    create_tables(lakeconf.init(config).get_store("dev"), task.tables)
    return task


def is_sqlite(task: Task) -> bool:
    """True if DuckDB reads the catalog in several transactions."""
    return bool(task.config["stores"]["dev"]["metadata_backend"]["type"] == "sqlite")


def inlined(task: Task, limit: int = 10) -> dict[str, Any]:
    """A configuration with which DuckLake keeps small inserts and deletes in the catalog."""
    store = task.config["stores"]["dev"]
    options = store.get("attach_options", {}) | {"data_inlining_row_limit": limit}
    return {"stores": {"dev": store | {"attach_options": options}}}


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


@pytest.mark.slow
@pytest.mark.prove("sqlite", "duckdb")
def test_writers_that_are_killed_and_paused_while_the_lake_is_maintained(task: Task) -> None:
    faults = ("kill", "pause")
    second = replace(task, process=1, count=LONG, faults=faults)
    run = Run([maintained(second, process=0), second])
    check(run.history(), "duckdb")
    assert run.kills > 0
    check_maintenance(run)


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_server_that_crashes_around_commits(tmp_path: Path) -> None:
    """Before a COMMIT, and while one is sent; the server recovers, and writers go on."""
    with postgres() as server, ThreadPoolExecutor(1) as pool:
        database = server.create_database()
        server.sql(f'ALTER DATABASE "{database}" SET synchronous_commit = on')
        crashes: list[Future[None]] = []

        def crash() -> None:
            crashes.append(pool.submit(server.crash))
            if len(crashes) % 2:
                crashes[-1].result()

        task = replace(task_of(tmp_path, on_postgres(server, database)), faults=("pause",))
        run = Run([maintained(task), replace(task, process=1)], while_paused=crash)
        check(run.history(), "duckdb")
        for each in crashes:
            each.result()
        assert len(crashes) == run.paused > 1


@pytest.mark.slow
@pytest.mark.prove("plain")
@pytest.mark.parametrize("encrypted", [True, False], ids=["encrypted", "plain"])
def test_a_lake_in_a_bucket(
    encrypted: bool, postgres_server: PostgresServer, s3_server: S3Server, tmp_path: Path
) -> None:
    config = config_of(tmp_path, on_postgres(postgres_server), in_bucket(s3_server))
    config["stores"]["dev"]["attach_options"] = {"encrypted": encrypted}
    task = task_with(tmp_path, config)
    second = replace(task, process=1, count=LONG, faults=("kill", "pause"))
    run = Run([maintained(second, process=0), second])
    check(run.history(), "duckdb")
    assert run.kills > 0


@pytest.mark.slow
@pytest.mark.prove("sqlite", "duckdb")
def test_two_processes_with_spark_that_write_the_same_keys(task: Task, request: pytest.FixtureRequest) -> None:
    """While a third one removes old files and snapshots. In the short run, one is a thread of this process."""
    first = replace(task, threads=1, count=SPARK, tables=1, writer="spark")
    second, maintainer = replace(first, process=1), maintained(replace(task, process=2, tables=1))
    if PROVE:
        run = Run([first, replace(second, faults=("kill",)), maintainer])
    else:
        run = Run([second, maintainer], here=[(first, request.getfixturevalue("spark"))])
    check(run.history(), "duckdb", "spark")


# A stream has the catalog open all the time, which only one process can with DuckDB's.
@pytest.mark.slow
@pytest.mark.parametrize("task", [*in_prove(["sqlite"]), "postgres"], indirect=True)
def test_a_stream_beside_writers_has_each_row_once(task: Task, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """While files are merged and rewritten; each query of the stream continues where the one before ended."""
    reader = StreamReader(task, request.getfixturevalue("spark"), tmp_path)
    second = replace(task, process=1, count=LONG, faults=("kill",))
    run = Run([maintained(task, removes=False), second])
    with reader.following():
        history = run.history()
    streamed = reader.history(history[-1].reads)
    assert {each.key: each.values for each in streamed[-1].reads} == {
        each.key: each.values for each in history[-1].reads if each.key.startswith(f"{ROWS}_0/")
    }
    assert len(streamed) > 1
    check([*history, *streamed], "duckdb")


@pytest.mark.slow
def test_without_the_checks_of_lakeconf_updates_are_lost(tmp_path: Path) -> None:
    """The writers and the checker of these tests can find something."""
    task = replace(task_of(tmp_path, on_sqlite(tmp_path)), tables=1, count=12, unprotected=True)
    history = Run([task, replace(task, process=1)]).history()
    assert "lost update" in find_anomalies(of_tables(history, LIST)).found


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
def test_writers_on_both_engines_and_without_lakeconf(task: Task, request: pytest.FixtureRequest) -> None:
    """In the short run, the writer with Spark is a thread of this process, because starting a session takes longer."""
    plain = replace(task, process=1, threads=1, count=PLAIN, writer="plain", config=inlined(task))
    spark = replace(task, process=2, threads=1, count=SPARK, tables=8 if PROVE else 1, writer="spark")
    if PROVE:
        run = Run([task, plain, replace(spark, faults=("kill",))])
    else:
        run = Run([task, plain], here=[(spark, request.getfixturevalue("spark"))])
    check(run.history(), "duckdb", "plain", "spark")
