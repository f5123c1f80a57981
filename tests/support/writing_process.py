"""Processes that write to a lake and are killed, or kill themselves, during a write; run as a script.

A writer is a new process, or a fork of a prepared process that has already loaded its modules.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, NoReturn, Self

import pyarrow as pa

import lakeconf
from lakeconf.commit.driver import Phase
from lakeconf.commit.transaction import Transaction
from lakeconf.commit.transaction_commit import TransactionCommit
from lakeconf.connection.connection import Connection
from lakeconf.write.context import WriteContext

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakeconf import Lake, Store

TABLE = "raw.t"
Rows = list[tuple[int, int]]
ROWS = 50
# Operations on the table; `number` makes the rows of each process unique.
OPERATIONS = ("append", "keyed", "overwrite", "merge", "delete", "evolve", "two_tables")

# Points inside COMMIT: the first byte of the catalog's files that is not written.
FIRST_BYTES = {"at the first byte of the commit": 1, "in the middle of the commit": 700}

# At this point a writer prints "committing" and waits for a line before it sends COMMIT.
WAITS = "wait before the commit"
# Files of rows exist; the transaction of the commit has not begun.
STAGED = "all rows are staged"


def start(
    config: dict[str, Any], spark: dict[str, str] | None, script: str = __file__, **task: Any
) -> subprocess.Popen[str]:
    """Starts a writer that has opened the lake."""
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"config": config, "spark": spark, **task}) + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    return process


class ForkingProcess:
    """A process that has loaded all modules, and forks a process for each task; `forks` runs in it."""

    def __init__(self, script: str) -> None:
        command = [sys.executable, script, "fork"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def answers(self, **task: Any) -> list[list[Any]]:
        """What the process of a task says; the last is its exit code, negative for a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        said: list[list[Any]] = [json.loads(self._process.stdout.readline())]
        while said[-1][0] != "exit":
            said.append(json.loads(self._process.stdout.readline()))
        return said


def forks(act: Callable[[Store, dict[str, Any]], None]) -> None:
    """Forks a process for each line of the input, and reports how it ended."""
    for name in ("lakeconf.lake.lake", "lakeconf.engines.duckdb", "narwhals", "pandas", "pytz", "sqlite3"):
        importlib.import_module(name)
    for line in sys.stdin:
        task = json.loads(line)
        # Opens nothing: DuckDB starts threads, which do not survive a fork.
        store = lakeconf.init(task["config"]).get_store("dev")
        process = os.fork()
        if process == 0:
            code = 1
            try:
                act(store, task)
                code = 0
            except BaseException:  # noqa: BLE001 - the parent must not go on in two processes
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(process, 0)
        say(json.dumps(["exit", os.waitstatus_to_exitcode(status)]))


class PreparedWriters(ForkingProcess):
    """Writers that are killed."""

    def __init__(self) -> None:
        super().__init__(__file__)

    def write(self, config: dict[str, Any], operation: str, number: int, point: str) -> tuple[Rows, str, int]:
        """Forks a writer that is killed at a point; returns the rows that it read, its last word, and its exit code."""
        *said, (_, code) = self.answers(config=config, operation=operation, number=number, point=point)
        rows = [(key, write) for name, *values in said if name == "rows" for key, write in values[0]]
        return rows, said[-1][0] if said else "", code


def frame(number: int, ids: Iterable[int] | None = None) -> pa.Table:
    """Rows that identify the write that wrote them."""
    keys = list(range(number * ROWS, (number + 1) * ROWS) if ids is None else ids)
    return pa.table({"id": pa.array(keys, pa.int64()), "write": pa.array([number] * len(keys), pa.int64())})


def ids_of(operation: str, number: int) -> list[int]:
    """The ids that an operation writes or deletes; the table initially contains the rows of writes 0 and 1."""
    if operation == "overwrite":
        return list(range(ROWS + 25, 2 * ROWS))
    if operation == "merge":
        return [*range(ROWS, ROWS + 25), *range(number * ROWS, number * ROWS + 25)]
    if operation == "delete":
        return [number % ROWS, ROWS + number % ROWS]
    return list(range(number * ROWS, (number + 1) * ROWS))


def write(lake: Lake, operation: str, number: int) -> None:
    """Runs one operation."""
    table = lake.table(TABLE)
    ids = ids_of(operation, number)
    rows = frame(number, ids)
    for name in list(table.schema)[2:]:
        rows = rows.append_column(name, pa.nulls(len(ids), pa.int64()))
    if operation == "append":
        table.append(rows)
    elif operation == "keyed":
        table.append(rows, idempotency_key=str(number))
    elif operation == "overwrite":
        table.overwrite(rows, where=f"id >= {ids[0]} AND id <= {ids[-1]}")
    elif operation == "merge":
        table.merge(rows, on="id")
    elif operation == "delete":
        table.delete(f"id IN ({', '.join(map(str, ids))})")
    elif operation == "evolve":
        table.append(rows.append_column(f"c{number}", pa.nulls(ROWS, pa.int64())), evolve=True)
    else:
        with lake.transaction("both") as tx:
            tx.create_table(f"raw.t{number}", frame(number))
            tx.table(f"raw.t{number}").append(frame(number))
            tx.table(TABLE).append(rows)


def stream(spark: Any, lake: Lake, folder: str) -> None:
    """Runs a streaming query into the table `events` until all available input is processed."""
    source = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(f"{folder}/source")
    writer = source.writeStream.foreachBatch(lake.stream_sink("events"))
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


def say(word: str) -> None:
    """Sends a word to the parent process."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def kill() -> NoReturn:
    """Ends this process abruptly, as a power failure would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError  # unreachable


def die_at_byte(position: int) -> None:
    """Makes the system kill this process in the middle of a write, when a file grows beyond a position."""
    # Python would save the byte code of a module up to the position, and a later process could not import it.
    sys.dont_write_bytecode = True
    # Python ignores the signal by default.
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (position, position))


# At this point Spark has moved some files of a partitioned table to their folders.
MOVES = "between two moves"


def kill_between_moves() -> None:
    """Makes this process kill itself at the point `MOVES`."""
    partitions = importlib.import_module("lakeconf.engines.spark.write.partition_folders")
    move, moved = partitions.move_file, list[str]()

    def moving(spark: Any, source: str, target: str) -> bool:
        done: bool = move(spark, source, target)
        moved.append(target)
        return kill() if len(moved) == 3 else done

    partitions.move_file = moving  # type: ignore[attr-defined]


def _strike(point: str) -> None:
    """What happens at BEGIN or before the commit."""
    if point in ("begin", "before the commit"):
        kill()
    if point == WAITS:
        say("committing")
        sys.stdin.readline()
    if point in FIRST_BYTES:
        say(json.dumps(["committing"]))
        die_at_byte(FIRST_BYTES[point])


def kill_at(point: str) -> None:
    """Makes this process kill itself when it first reaches a point of a write."""
    execute, rows, target = Connection.execute, Connection.rows, WriteContext.target
    commit, tidy = Transaction.commit, TransactionCommit.release_staged

    def sending(send: Callable[..., Any], is_commit: bool, connection: Connection, sql: str, parameters: Any) -> Any:
        if is_commit or (point, sql) == ("begin", "BEGIN"):
            _strike(point)
        done = send(connection, sql, parameters)
        if point == "in the statements" and sql.startswith(("INSERT", "CALL ducklake_add", "UPDATE", "DELETE")):
            kill()
        return kill() if is_commit and point == "after the commit" else done

    def executing(self: Connection, sql: str, parameters: Any = None) -> Any:
        return sending(execute, sql == "COMMIT", self, sql, parameters)

    def fetching(self: Connection, sql: str, parameters: Any = None) -> Any:
        return sending(rows, "ducklake_commit(" in sql, self, sql, parameters)

    def targeting(*arguments: Any) -> Any:
        return kill() if point == "prepare" else target(*arguments)

    def committing(self: Any) -> Any:
        return kill() if point == STAGED else commit(self)

    def tidying(self: Any) -> None:
        if point == "resolve" and self._attempt.phase is Phase.COMMITTED:
            kill()
        tidy(self)

    Connection.execute, Connection.rows = executing, fetching  # type: ignore[method-assign]
    WriteContext.target = targeting  # type: ignore[method-assign, assignment]
    Transaction.commit = committing  # type: ignore[method-assign]
    TransactionCommit.release_staged = tidying  # type: ignore[method-assign]


def write_and_die(store: Store, task: dict[str, Any]) -> None:
    """A forked writer: prints the rows of the table, and writes."""
    with store.open() as lake:
        say(json.dumps(["rows", read(lake)]))
        kill_at(task["point"])
        write(lake, task["operation"], task["number"])
        say(json.dumps(["done"]))


def read(lake: Lake) -> Rows:
    """The rows that plain DuckDB reads."""
    found = lake.sql(f"SELECT id, write FROM {TABLE}").collect("pyarrow")
    return sorted((int(row[0]), int(row[1])) for row in found.iter_rows())


def main() -> None:
    """Writes as specified in the input line, and prints when it is ready and when it is done."""
    task = json.loads(sys.stdin.readline())
    spark = lakeconf.spark_session(settings=task["spark"]) if task["spark"] is not None else None
    with lakeconf.init(task["config"]).get_store("dev").open(spark) as lake:
        say("ready")
        if task["point"] is not None:
            kill_between_moves() if task["point"] == MOVES else kill_at(task["point"])
        if task["operation"] == "stream":
            stream(spark, lake, task["folder"])
        else:
            write(lake, task["operation"], task["number"])
        say("done")


if __name__ == "__main__":
    forks(write_and_die) if sys.argv[1:] == ["fork"] else main()
