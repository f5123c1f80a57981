"""Scans and appends over Spark Connect, compared with a classic session on the same files.

Usage: python benchmarks/spark_connect.py [ROWS]      (default: 10,000,000)

Each kind of session has a process of its own, with Spark on two cores. The processes run in turns, each once for each
measurement. The time of an action includes the creation of the frame.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ratios import HEADER, compare
from scanning.lakes import ALIAS, FILES, configuration, make_lake

import lakeconf
from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.connection import Connection

    from pyspark.sql import DataFrame, SparkSession

CLASSIC, CONNECT = "a classic session", "Spark Connect"
ARGUMENTS = "--driver-memory 4g --conf spark.ui.enabled=false --conf spark.ui.showConsoleProgress=false pyspark-shell"
ACTIONS: dict[str, Callable[[DataFrame], object]] = {
    "scan()": lambda frame: frame,
    "all columns": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "two columns": lambda frame: frame.groupBy("kind").sum("amount").collect(),
    "one column": lambda frame: frame.selectExpr("sum(amount)").collect(),
    "count(*)": lambda frame: frame.count(),
}
CASES = [("whole", "no deletes"), ("deleted_1", "1 % deleted"), ("deleted_20", "20 % deleted")]
# If Connect were as fast as this, it could be the only way.
GOAL = 1.05
APPEND = "append"


def session(kind: str) -> SparkSession:
    """Spark on two cores."""
    from pyspark.sql import SparkSession  # a process that only makes the lake needs no Spark

    ensure_java()
    os.environ["PYSPARK_SUBMIT_ARGS"] = ARGUMENTS
    builder = SparkSession.builder.master("local[2]") if kind == CLASSIC else SparkSession.builder.remote("local[2]")
    return builder.getOrCreate()


def work(kind: str, folder: Path, orders: Connection) -> None:
    """Runs one measurement for each pair of a table and an action that arrives."""
    store = lakeconf.init(configuration(folder)).get_store(ALIAS)
    spark = session(kind)
    with store.open(spark) as lake:
        copies = lake.create_table(f"copies_{os.getpid()}", lake.table("whole").schema)
        orders.send(None)
        while (order := orders.recv()) is not None:
            table, action = order
            started = time.perf_counter()
            frame = lake.table(table).scan().to_native()
            copies.append(frame) if action == APPEND else ACTIONS[action](frame)
            orders.send(time.perf_counter() - started)
    spark.stop()


def ordered(orders: Connection, table: str, action: str) -> Any:
    """Lets a process measure, and waits for it."""
    orders.send((table, action))
    return orders.recv()


def main(rows: int) -> None:
    """Creates the lake, starts both processes, and measures."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_lake(folder, rows)
        pipes, processes = {}, []
        for kind in (CLASSIC, CONNECT):
            pipes[kind], theirs = context.Pipe()
            processes.append(context.Process(target=work, args=(kind, folder, theirs)))
            processes[-1].start()
            pipes[kind].recv()
        print(f"{rows:,} rows in {FILES} files; load of the machine: {os.getloadavg()[0]:.1f}\n\n{HEADER}", flush=True)
        for table, which in CASES:
            for action in ACTIONS:
                ours, theirs_ = (partial(ordered, pipes[kind], table, action) for kind in (CONNECT, CLASSIC))
                compare(f"{which}, {action}", ours, CLASSIC, theirs_, goal=None if action == "scan()" else GOAL)
        ours, theirs_ = (partial(ordered, pipes[kind], "whole", APPEND) for kind in (CONNECT, CLASSIC))
        compare("append of all rows", ours, CLASSIC, theirs_)
        for kind, process in zip(pipes, processes, strict=True):
            pipes[kind].send(None)
            process.join()
        print(f"\nLoad of the machine after: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
