"""The memory of the driver, and the bytes that its Python process reads, for each kind of write from Spark.

Usage: python benchmarks/driver_memory.py [ROWS [TIMES]]      (default: 200,000 rows and 60 times as many)

Spark runs as a small cluster, so the executor is a process of its own. Each write runs in new processes: once with few
rows, and once with many. The driver is the Python process with DuckDB, and its Java process.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spark_write import new_store

import lakeconf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakeconf.lake.lake import Lake

MIB = 1024 * 1024
DAYS = 30
WRITES = {
    "append": "append",
    "append to 30 partitions": "append_partitioned",
    "overwrite": "overwrite",
    "overwrite of half of the rows by condition": "overwrite_half",
    "overwrite_partitions of 15 of 30": "overwrite_partitions",
    "delete of every tenth row": "delete",
    "delete of 15 of 30 partitions": "delete_partitions",
    "update of half of the rows": "update",
    "the same with the public committer": "update_public",
    "merge of half of the rows": "merge",
    "the same, with the public committer": "merge_public",
}


def rows_of(spark: SparkSession, start: int, end: int, step: int = 1) -> DataFrame:
    """Rows with an id; the executors make them."""
    return spark.range(start, end, step).selectExpr(
        "id", "id % 1000 AS part", "md5(CAST(id AS STRING)) AS note", "id / 7 AS amount",
        f"date_add(DATE'2024-01-01', CAST(id % {DAYS} AS INT)) AS day",
    )  # fmt: skip


def write(lake: Lake, spark: SparkSession, kind: str, rows: int) -> None:
    """Makes the table on the executors, and then writes to it; both count."""
    first = rows_of(spark, 0, rows)
    partitioned = ["day"] if "partition" in kind else []
    table = lake.create_table("t", first, partitioned_by=partitioned)
    table.append(first)
    half = "day < DATE '2024-01-16'"
    changed = rows_of(spark, 0, rows, 2).selectExpr("id", "part", "note", "amount + 1 AS amount", "day")
    steps: dict[str, Callable[[], object]] = {
        "overwrite": lambda: table.overwrite(first),
        "overwrite_half": lambda: table.overwrite(first.where(half), where=half),
        "overwrite_partitions": lambda: table.overwrite_partitions(first.where(half)),
        "delete": lambda: table.delete("part < 100"),
        "delete_partitions": lambda: table.delete(half),
        "update": lambda: table.update({"amount": 1.5}, where="part < 500"),
        "merge": lambda: table.merge(changed, on=["id"]),
    }
    step = steps.get(kind.removesuffix("_public"))
    if step is not None:
        step()


def child(folder: Path, kind: str, rows: int) -> None:
    """One write in this process; prints the peak memory of both processes, and the bytes read here."""
    spark_home()
    store = new_store(folder, committer="public" if kind.endswith("_public") else "auto")
    settings = {"spark.master": "local-cluster[1,2,3072]", "spark.executor.memory": "3g", "spark.driver.memory": "2g"}
    settings |= {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    settings |= {"spark.sql.shuffle.partitions": "8", "spark.driver.extraJavaOptions": "-XX:+UseSerialGC"}
    spark = lakeconf.spark_session(store, settings=settings)
    with store.open(spark) as lake:
        write(lake, spark, kind, rows)
    read = int(dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())["rchar"])
    java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # noqa: SLF001
    print("RESULT", peak(os.getpid()), peak(java), read, flush=True)
    spark.stop()


def spark_home() -> None:
    """The workers of the cluster start from the installation of pyspark, and use this Python."""
    import pyspark

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = sys.executable


def peak(process: int) -> int:
    """The largest resident memory of a process in bytes."""
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status).group(1)) * 1024  # type: ignore[union-attr]


@dataclass(frozen=True)
class Taken:
    """What a write needed, in bytes."""

    python: int
    java: int
    read: int


def measured(kind: str, rows: int) -> Taken:
    """Runs a write in processes of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--child", folder, kind, str(rows)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        found = re.search(r"^RESULT (\d+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
        if found is None:
            raise SystemExit(f"{kind} of {rows} rows failed:\n{done.stdout}\n{done.stderr}")
        return Taken(*map(int, found.groups()))


def main(rows: int, times: int) -> None:
    """Prints one line for each kind of write."""
    print("| write | rows | Python, MiB | Java, MiB | read by Python, MiB |\n|---|---|---|---|---|")
    for what, kind in WRITES.items():
        for count in (rows, rows * times):
            taken = measured(kind, count)
            shown = (taken.python // MIB, taken.java // MIB, taken.read // MIB)
            print(f"| {what} | {count:,} | {' | '.join(f'{number:,}' for number in shown)} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
    else:
        numbers = [int(text) for text in sys.argv[1:]]
        main(*(numbers + [200_000, 60][len(numbers) :]))
