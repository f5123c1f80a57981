"""Runs processes of `history_writer` on one lake, restarts killed ones and continues paused ones."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from history import NEVER, Maintained, Read, Transaction, load, load_maintenance, now
from history_plan import Task, names
from history_writer import found, opened, read, run_all, work

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
        Transaction(
            each.number,
            each.process,
            tuple(operation for operation in each.operations if operation.key.startswith(prefix)),
            each.status,
            each.invoked,
            each.completed,
            each.kind,
        )
        for each in history
    ]
    return [each for each in parts if each.operations or each.completed == NEVER]
