"""Processes that run random transactions on lists in a lake, and write down a history.

A list is the row of its key in a table `lists_…`, which a transaction reads and replaces, or the rows of its key in a
table `rows_…`, to which transactions only append.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import functools
import random
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

import duckdb
import pyarrow as pa
from history import INDETERMINATE, Journal, Maintained, Read, Status, load_maintenance
from history_faults import CLOCK, arm
from history_plan import LIST, MAX_THREADS, Plan, Task, plan
from spark_classes import spark_settings

import lakeconf
from lakeconf.errors import CatalogLockedError, CommitUnknownError, ConnectionFailed, LakeconfError
from lakeconf.guard.locks import pauses

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakeconf import Lake

Opened = TypeVar("Opened")

# Transactions of a thread until its process closes a DuckDB file, which only one process can have open.
TURNS = {"duckdb": 10, "spark": 10, "plain": 40}


def work(task: Task) -> None:
    """The main function of a process."""
    try:
        # As in the process of the tests: reading whole extensions to check who made them takes most of the time.
        duckdb.connect = functools.partial(_connect_unchecked, duckdb.connect)
        arm(task)
        run_all(task, _spark_session(task) if task.writer == "spark" else None)
    except BaseException:
        (task.folder / f"{task.process}.error").write_text(traceback.format_exc())
        raise


def _connect_unchecked(connect: Any, *arguments: Any, config: Any = None, **settings: Any) -> Any:
    return connect(*arguments, **settings, config={"allow_unsigned_extensions": "true", **(config or {})})


def _spark_session(task: Task) -> Any:
    from pyspark.sql import SparkSession  # slow; only for this writer

    from lakeconf.engines.spark.java_home import ensure_java

    ensure_java()
    settings: dict[str, Any] = spark_settings() | {"spark.driver.memory": "1g"}
    settings["spark.sql.warehouse.dir"] = (task.folder / "warehouse").as_uri()
    session = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def run_all(task: Task, spark: Any = None) -> None:
    """Runs the transactions of a task, from the first one that has not begun yet."""
    store = lakeconf.init(task.config).get_store("dev")
    left = {thread: range(task.begun(thread), task.count) for thread in range(task.threads)}
    while any(left.values()):
        most = TURNS[task.writer] if task.is_duckdb_file else task.count
        turn = {thread: numbers[:most] for thread, numbers in left.items() if numbers}
        # lakeconf cannot know that the clock was wrong before.
        CLOCK.seconds = 0
        if task.writer == "plain":
            with contextlib.closing(opened(store.connect)) as connection:
                for thread, numbers in turn.items():
                    _run_plain(task, connection, thread, numbers)
        else:
            with opened(functools.partial(store.open, spark)) as lake, ThreadPoolExecutor(len(turn)) as pool:
                for running in [pool.submit(_run, task, lake, thread, numbers) for thread, numbers in turn.items()]:
                    running.result()
        left = {thread: numbers[len(turn.get(thread, ())) :] for thread, numbers in left.items()}
    # Also if the process was killed after its last transaction.
    if _maintenance_begun(task) < len(task.maintenance):
        with opened(functools.partial(store.open, spark)) as lake:
            while _maintenance_begun(task) < len(task.maintenance):
                _maintain(task, lake)


def opened(opens: Callable[[], Opened]) -> Opened:
    """Opens a lake that another process may have open or locked, or whose server is starting."""
    last: LakeconfError | None = None
    for _ in pauses():
        try:
            return opens()
        except (CatalogLockedError, ConnectionFailed) as error:
            last = error
    raise last or AssertionError("not opened")


def _run(task: Task, lake: Lake, thread: int, steps: Sequence[int]) -> None:
    journal = Journal(task.journal(thread), task.process * MAX_THREADS + thread)
    for step in steps:
        planned = _planned(task, thread, step)
        number = task.number(thread, step)
        journal.invoke(number, f"{task.writer} {planned.kind}", planned.appends)
        reads: list[Read] = []
        status: Status = "ok"
        why = ""
        try:
            _transact(lake, planned, reads)
        except CommitUnknownError as error:
            status, why = INDETERMINATE, repr(error)
        except LakeconfError as error:
            status, why = "fail", f"{type(error).__name__}: {error}"
            if isinstance(error, ConnectionFailed):
                opened(lake.refresh)  # the server may be starting
        journal.complete(number, status, reads, why)
        if thread == 0 and step % task.between == task.between - 1:
            _maintain(task, lake)


def _planned(task: Task, thread: int, step: int) -> Plan:
    chance = random.Random(f"{task.seed} {task.process} {thread} {step}")  # noqa: S311
    return plan(chance, task.number(thread, step), step, task.tables)


def _maintenance_begun(task: Task) -> int:
    return len(load_maintenance([task.maintained])) if task.maintained.exists() else 0


def _maintain(task: Task, lake: Lake) -> None:
    """Does the next kind of maintenance; one that a kill has interrupted is repeated."""
    if not task.maintenance:
        return
    what = task.maintenance[_maintenance_begun(task) % len(task.maintenance)]
    try:
        changed = maintain(lake, what, forced=task.forced)
    except LakeconfError as error:
        done = Maintained(what, done=False, changed=0, forced=task.forced, why=f"{type(error).__name__}: {error}")
    else:
        done = Maintained(what, done=True, changed=changed, forced=task.forced)
    done.write(task.maintained)


def maintain(lake: Lake, what: str, *, forced: bool) -> int:
    """Does one kind of maintenance; returns the number of expired snapshots, of removed files, or of fewer files."""
    age = dt.timedelta(0) if forced else dt.timedelta(days=1)
    if what == "expire":
        return len(lake.maintenance.expire_snapshots(older_than=age, force=forced))
    if what == "cleanup":
        return len(lake.maintenance.cleanup(older_than=age, force=forced))
    result = getattr(lake.maintenance, what)()
    return int(abs(result.files_after - result.files_before))


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
        planned, number = _planned(task, thread, step), task.number(thread, step)
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
