"""Processes that run random transactions on lists in a lake, write down a history, and suffer faults as they commit.

A list is the row of its key in a table `lists_…`, which a transaction reads and replaces, or the rows of its key in a
table `rows_…`, to which transactions only append.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import os
import random
import resource
import signal
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duckdb
import pyarrow as pa
from history import INDETERMINATE, Append, Journal, Read, Status, load
from writing_process import FIRST_BYTES, kill

import lakeconf
from lakeconf.commit import transaction as transactions
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogLockedError, CommitUnknownError, ConnectionFailed, LakeconfError
from lakeconf.guard.guard import LakeGuard
from lakeconf.guard.locks import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakeconf import Lake, Store

KEYS = 3
# After so many transactions of a thread the keys change, so that lists stay short.
GENERATION = 40
MAX_THREADS = 8
# Transactions of a thread until its process closes a DuckDB file, which only one process can have open.
TURN = 10
REPLACING = ("merge", "overwrite", "update", "delete", "single merge", "single overwrite", "single update")
KINDS = (*REPLACING, *["read"] * 2, *["append"] * 3)
MAINTENANCE = ("compact", "flush", "rewrite")
REMOVING = ("expire", "cleanup")
LIST, ROWS = "lists", "rows"


@dataclass(frozen=True)
class Task:
    """What a process does.

    Attributes:
        config: The configuration; its store is `dev`.
        folder: Where histories are written.
        process: The number of the process.
        seed: Decides what it does, and when it suffers a fault.
        count: The number of transactions of each thread.
        threads: The number of threads, which share an open lake.
        tables: The number of tables of each kind.
        plain: True for a writer that uses DuckDB without lakeconf.
        faults: What may happen at a commit: `kill`, `pause`.
        maintenance: Maintenance that the process does between transactions.
        unprotected: True to disable the locks and conflict checks of lakeconf.
    """

    config: dict[str, Any]
    folder: Path
    process: int
    seed: int
    count: int
    threads: int = 1
    tables: int = 2
    plain: bool = False
    faults: tuple[str, ...] = ()
    maintenance: tuple[str, ...] = ()
    unprotected: bool = False

    @property
    def is_duckdb_file(self) -> bool:
        """True if only one process can have the catalog open."""
        return bool(self.config["stores"]["dev"]["metadata_backend"]["type"] == "duckdb")

    def journal(self, thread: int) -> Path:
        """The file of the history of a thread."""
        return self.folder / f"{self.process}-{thread}.jsonl"


class Plan(NamedTuple):
    """A transaction before it runs: the keys that it reads by table, and what it appends."""

    kind: str
    reads: dict[str, list[int]]
    appends: list[Append]


def names(count: int) -> list[str]:
    """The names of all tables."""
    return [f"{kind}_{number}" for kind in (LIST, ROWS) for number in range(count)]


def create_tables(store: Store, count: int) -> None:
    """Creates the tables."""
    with store.open() as lake:
        for name in names(count):
            lake.create_table(name, {"k": "BIGINT", "v": "VARCHAR" if name.startswith(LIST) else "BIGINT"})


def plan(chance: random.Random, number: int, generation: int, tables: int) -> Plan:
    """A random transaction."""
    kind = chance.choice(KINDS)
    form = ROWS if kind == "append" else chance.choice((LIST, ROWS)) if kind == "read" else LIST
    several = 1 if kind.startswith("single") else chance.randint(1, tables)
    reads = {
        f"{form}_{table}": [generation * KEYS + key for key in chance.sample(range(KEYS), chance.randint(1, 2))]
        for table in chance.sample(range(tables), several)
    }
    written = [] if kind == "read" else chance.sample(sorted(reads), chance.randint(1, len(reads)))
    keys = [f"{table}/{chance.choice(reads[table])}" for table in written]
    return Plan(kind, reads, [Append(key, number * 10 + at) for at, key in enumerate(keys)])


def work(task: Task) -> None:
    """The main function of a process."""
    try:
        # As in the process of the tests: reading whole extensions to check who made them takes most of the time.
        duckdb.connect = functools.partial(_connect_unchecked, duckdb.connect)
        _arm(task)
        _work(task)
    except BaseException:
        (task.folder / f"{task.process}.error").write_text(traceback.format_exc())
        raise


def _connect_unchecked(connect: Any, *arguments: Any, config: Any = None, **settings: Any) -> Any:
    return connect(*arguments, **settings, config={"allow_unsigned_extensions": "true", **(config or {})})


def _work(task: Task) -> None:
    store = lakeconf.init(task.config).get_store("dev")
    left = {thread: range(_begun(task, thread), task.count) for thread in range(task.threads)}
    while any(left.values()):
        turn = {
            thread: numbers[:TURN] if task.is_duckdb_file else numbers for thread, numbers in left.items() if numbers
        }
        if task.plain:
            with contextlib.closing(store.connect()) as connection:
                for thread, numbers in turn.items():
                    _run_plain(task, connection, thread, numbers)
        else:
            with _opened(store) as lake, ThreadPoolExecutor(len(turn)) as pool:
                for running in [pool.submit(_run, task, lake, thread, numbers) for thread, numbers in turn.items()]:
                    running.result()
        left = {thread: numbers[len(turn.get(thread, ())) :] for thread, numbers in left.items()}


def _begun(task: Task, thread: int) -> int:
    """The number of transactions that a killed process had begun."""
    path = task.journal(thread)
    return len(load([path])) if path.exists() else 0


@contextlib.contextmanager
def _opened(store: Store) -> Iterator[Lake]:
    last: LakeconfError | None = None
    for _ in pauses():
        try:
            lake = store.open()
        except (CatalogLockedError, ConnectionFailed) as error:
            last = error
            continue
        with lake:
            yield lake
        return
    raise last or AssertionError("not opened")


def _planned(task: Task, thread: int, step: int) -> tuple[random.Random, int, Plan]:
    chance = random.Random(f"{task.seed} {task.process} {thread} {step}")  # noqa: S311
    number = (task.process * MAX_THREADS + thread) * 1_000_000 + step
    return chance, number, plan(chance, number, step // GENERATION, task.tables)


def _run(task: Task, lake: Lake, thread: int, steps: Sequence[int]) -> None:
    journal = Journal(task.journal(thread), task.process * MAX_THREADS + thread)
    for step in steps:
        chance, number, planned = _planned(task, thread, step)
        journal.invoke(number, planned.kind, planned.appends)
        reads: list[Read] = []
        status: Status = "ok"
        why = ""
        try:
            _transact(lake, planned, reads)
        except CommitUnknownError as error:
            status, why = INDETERMINATE, repr(error)
        except LakeconfError as error:
            status, why = "fail", f"{type(error).__name__}: {error}"
        journal.complete(number, status, reads, why)
        if task.maintenance and thread == 0 and chance.random() < 0.15:
            with contextlib.suppress(LakeconfError):
                maintain(lake, chance.choice(task.maintenance))


def maintain(lake: Lake, what: str) -> None:
    """Does one kind of maintenance."""
    now = dt.timedelta(0)
    if what == "expire":
        lake.maintenance.expire_snapshots(older_than=now, force=True)
    elif what == "cleanup":
        lake.maintenance.cleanup(older_than=now, force=True)
    else:
        getattr(lake.maintenance, what)()


def _transact(lake: Lake, planned: Plan, reads: list[Read]) -> None:
    lake.refresh()
    if planned.kind.startswith("single"):
        ((table, keys),) = planned.reads.items()
        reads += read(lake, table, keys)
        _write(lake, planned, reads)
        return
    with lake.transaction() as tx:
        for table, keys in planned.reads.items():
            reads += read(tx, table, keys)
        _write(tx, planned, reads)


def read(lake: Lake, table: str, keys: Sequence[int]) -> list[Read]:
    """Reads lists of one table."""
    listed = ", ".join(map(str, keys))
    if table.startswith(LIST):
        frame = lake.table(table).scan(where=f"k IN ({listed})")
    else:
        frame = lake.sql(
            f"SELECT k, v FROM {table} AT (VERSION => {lake.snapshot_id}) WHERE k IN ({listed}) ORDER BY rowid"
        )
    return found(table, keys, list(frame.collect("pyarrow").select("k", "v").iter_rows()))


def found(table: str, keys: Sequence[int], rows: list[tuple[Any, ...]]) -> list[Read]:
    """The lists in some rows of a table. If a key has two rows, its list has the values of both."""
    values: dict[int, list[int]] = {key: [] for key in keys}
    for key, value in rows:
        values[key] += map(int, value.split()) if isinstance(value, str) else [value]
    return [Read(f"{table}/{key}", tuple(each)) for key, each in values.items()]


def _changed(planned: Plan, reads: list[Read]) -> dict[str, dict[int, str | int]]:
    """The new value of each key that a transaction writes, by table."""
    known = {each.key: each.values for each in reads}
    new: dict[str, dict[int, str | int]] = {}
    for append in planned.appends:
        table, _, key = append.key.partition("/")
        is_list = table.startswith(LIST)
        text = " ".join(map(str, (*known[append.key], append.value)))
        new.setdefault(table, {})[int(key)] = text if is_list else append.value
    return new


def _write(lake: Lake, planned: Plan, reads: list[Read]) -> None:
    absent = {each.key for each in reads if not each.values}
    for name, new in _changed(planned, reads).items():
        table, frame = lake.table(name), pa.table({"k": list(new), "v": list(new.values())})
        where = f"k IN ({', '.join(map(str, new))})"
        verb = planned.kind.removeprefix("single ")
        if verb == "append":
            table.append(frame)
        elif verb == "overwrite":
            table.overwrite(frame, where=where)
        elif verb == "delete":
            table.delete(where)
            table.append(frame)
        elif verb == "update" and len(new) == 1 and f"{name}/{next(iter(new))}" not in absent:
            table.update({"v": next(iter(new.values()))}, where=where)
        else:
            table.merge(frame, on="k")


def _run_plain(task: Task, connection: duckdb.DuckDBPyConnection, thread: int, steps: Sequence[int]) -> None:
    journal = Journal(task.journal(thread), task.process * MAX_THREADS + thread)
    for step in steps:
        _, number, planned = _planned(task, thread, step)
        journal.invoke(number, f"plain {planned.kind}", planned.appends)
        reads: list[Read] = []
        try:
            transact_plain(connection, planned, reads)
        except duckdb.Error as error:
            with contextlib.suppress(duckdb.Error):
                connection.execute("ROLLBACK")
            journal.complete(number, "fail", reads, str(error))
        else:
            journal.complete(number, "ok", reads)


def transact_plain(connection: duckdb.DuckDBPyConnection, planned: Plan, reads: list[Read]) -> None:
    """Runs a transaction without lakeconf."""
    connection.execute("BEGIN")
    for table, keys in planned.reads.items():
        order = "" if table.startswith(LIST) else "ORDER BY rowid"
        where = f"k IN ({', '.join(map(str, keys))})"
        rows = connection.execute(f"SELECT k, v FROM dev.{table} WHERE {where} {order}").fetchall()
        reads += found(table, keys, rows)
    for table, new in _changed(planned, reads).items():
        for key, value in new.items():
            if table.startswith(LIST) and {each.key: each.values for each in reads}[f"{table}/{key}"]:
                connection.execute(f"UPDATE dev.{table} SET v = '{value}' WHERE k = {key}")
            else:
                connection.execute(f"INSERT INTO dev.{table} VALUES ({key}, '{value}')")
    connection.execute("COMMIT")


# The commits of a process at which it suffers a fault in any case, if the fault is among those of its task.
_CERTAIN = {3: "pause", 6: "kill"}


def _arm(task: Task) -> None:
    """Lets faults strike at commits, and disables the protection of lakeconf if the task says so."""
    begun = sum(_begun(task, thread) for thread in range(task.threads))
    execute, chance, commits = Connection.execute, random.Random(f"{task.seed} {task.process} {begun}"), [0]  # noqa: S311
    # A file that grows beyond the limit kills the process; see `writing_process.die_at_byte`.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def drawn() -> str:
        commits[0] += 1
        certain = "" if begun else _CERTAIN.get(commits[0], "")
        if certain in task.faults:
            return certain
        return chance.choice(task.faults) if task.faults and chance.random() < 0.05 else ""

    def executing(self: Connection, sql: str, parameters: Any = None) -> Any:
        fault = drawn() if sql == "COMMIT" else ""
        if fault == "pause":
            os.kill(os.getpid(), signal.SIGSTOP)
        where = chance.choice(("before", "in", "after")) if fault == "kill" else ""
        if where == "before":
            kill()
        if where == "in":
            limit = chance.choice(list(FIRST_BYTES.values()))
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        done = execute(self, sql, parameters)
        return kill() if where in ("in", "after") else done

    Connection.execute = executing  # type: ignore[method-assign]
    if task.unprotected:
        unprotect(setattr)


def unprotect(replace: Callable[[Any, str, Any], None]) -> None:
    """Disables the locks of tables and the conflict checks of lakeconf.

    Args:
        replace: Sets an attribute, such as `setattr`.
    """
    replace(transactions, "check_conflicts", lambda *_: None)
    replace(transactions, "check_delete_files", lambda *_: None)
    replace(transactions, "without_retries", lambda _: contextlib.nullcontext())
    replace(LakeGuard, "__call__", lambda *_: contextlib.nullcontext())
