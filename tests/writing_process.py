"""A process that writes to a lake and kills itself, or is killed, on its way; run as a script."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import pyarrow as pa

import lakeconf
from lakeconf import transaction, writes
from lakeconf.connection import Connection

if TYPE_CHECKING:
    from lakeconf import Lake

TABLE = "raw.t"
ROWS = 50
# What a process does to the table, by name; `number` makes the rows of each its own.
OPERATIONS = ("append", "keyed", "overwrite", "merge", "delete", "evolve", "two_tables")


def start(config: dict[str, Any], spark: dict[str, str] | None, **task: Any) -> subprocess.Popen[str]:
    """A writer that has opened the lake."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps({"config": config, "spark": spark, **task}) + "\n")
    process.stdin.flush()
    assert process.stdout.readline() == "ready\n"
    return process


def frame(number: int) -> pa.Table:
    """Rows that say which write they are of."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    return pa.table({"id": pa.array(ids, pa.int64()), "write": pa.array([number] * ROWS, pa.int64())})


def write(lake: Lake, operation: str, number: int) -> None:
    """Carries out one operation."""
    table = lake.table(TABLE)
    rows = frame(number)
    for name in list(table.schema)[2:]:
        rows = rows.append_column(name, pa.nulls(ROWS, pa.int64()))
    if operation == "append":
        table.append(rows)
    elif operation == "keyed":
        table.append(rows, idempotency_key=str(number))
    elif operation == "overwrite":
        table.overwrite(rows, where=f"id >= {number * ROWS} AND id < {(number + 1) * ROWS}")
    elif operation == "merge":
        table.merge(rows.set_column(0, "id", frame(number - 1)["id"]), on="id")
    elif operation == "delete":
        table.delete(f"id >= {(number - 2) * ROWS + 10} AND id < {(number - 1) * ROWS + 10}")
    elif operation == "evolve":
        table.append(rows.append_column(f"c{number}", pa.nulls(ROWS, pa.int64())), evolve=True)
    else:
        with lake.transaction("both") as tx:
            tx.create_table(f"raw.t{number}", frame(number))
            tx.table(f"raw.t{number}").append(frame(number))
            tx.table(TABLE).append(rows)


def stream(spark: Any, lake: Lake, folder: str) -> None:
    """Runs a streaming query into the table `events` until everything that has landed is through."""
    source = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).parquet(f"{folder}/source")
    writer = source.writeStream.foreachBatch(lake.stream_sink("events"))
    query = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True).start()
    query.awaitTermination()


def say(word: str) -> None:
    """Tells the process that has started this one."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


def kill() -> NoReturn:
    """Ends this process as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError  # never reached


def kill_at(point: str) -> None:
    """Arms the process: it dies when it first comes to a point of a write."""
    execute, target, tidy = Connection.execute, writes.target, transaction.Transaction._tidy

    def executing(self: Connection, sql: str, parameters: Any = None) -> Any:
        if point == "begin" and sql == "BEGIN":
            kill()
        if point == "before the commit" and sql == "COMMIT":
            kill()
        done = execute(self, sql, parameters)
        if point == "in the commit" and sql.startswith(("INSERT", "CALL ducklake_add", "UPDATE", "DELETE")):
            kill()
        if point == "after the commit" and sql == "COMMIT":
            kill()
        return done

    def targeting(*arguments: Any) -> Any:
        return kill() if point == "prepare" else target(*arguments)

    def tidying(self: Any, changes: Any, *, committed: bool) -> None:
        if point == "settle" and committed:
            kill()
        tidy(self, changes, committed=committed)

    Connection.execute, writes.target = executing, targeting  # type: ignore[method-assign, assignment]
    transaction.Transaction._tidy = tidying  # type: ignore[method-assign]


def main() -> None:
    """Writes as the line of the input says, and says itself when it is ready and when it is done."""
    task = json.loads(sys.stdin.readline())
    spark = lakeconf.spark_session(settings=task["spark"]) if task["spark"] is not None else None
    with lakeconf.init(task["config"]).get_store("dev").open(spark) as lake:
        say("ready")
        if task["point"] is not None:
            kill_at(task["point"])
        if task["operation"] == "stream":
            stream(spark, lake, task["folder"])
        else:
            write(lake, task["operation"], task["number"])
        say("done")


if __name__ == "__main__":
    main()
