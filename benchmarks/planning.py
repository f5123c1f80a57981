"""Planning of many files on Spark: time and memory until there is a frame. No job runs.

Usage: python benchmarks/planning.py [FILES ...] [--postgres]      (default: 1000 100000 1000000, on SQLite)

The catalog lists files of 1000 rows, which are links to a few Parquet files. Each number of files has a process of its
own, which plans twice and reports the second time.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scanning.lakes import ALIAS, configuration, make_catalog

import lakeconf
from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.pruning.scan_plan import ScanPlan
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.engines.spark.read.groups import groups

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from jvm_calls import counted_calls
from local_stores import on_postgres
from servers import postgres

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

POSTGRES = "--postgres"
KEPT = 100
# A file system allows a limited number of links to one file.
LINKS = 20_000
HEADER = "| files | to read | `scan()` | calls into the JVM | memory of Python | memory of Spark's driver |"
COLUMNS, FILES_OF_COLUMNS = 1000, 10_000


def link_files(folder: Path, files: int) -> None:
    """Creates the files that `make_catalog` lists; the first one exists."""
    (source,) = folder.rglob("ducklake-*.parquet")
    content = source.read_bytes()
    for number in range(1, files):
        path = source.with_name(f"file-{number}.parquet")
        if number % LINKS == 0:
            path.write_bytes(content)
            source = path
        else:
            os.link(source, path)


def peaks(spark: SparkSession) -> tuple[float, float]:
    """The peak memory of this process and of Spark's driver, in MB."""
    jvm: Any = spark._jvm  # noqa: SLF001 - no public call returns the process
    driver = jvm.java.lang.ProcessHandle.current().pid()
    status = Path(f"/proc/{driver}/status").read_text()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, int(status.split("VmHWM:")[1].split()[0]) / 1024


def session(store: lakeconf.Store) -> SparkSession:
    """Spark on two cores."""
    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "4g"}
    return lakeconf.spark_session(store, settings={**settings, "spark.ui.showConsoleProgress": "false"})


def measure(folder: Path, files: int, metadata: dict[str, Any] | None) -> None:
    """Prints a row for a filter that leaves 100 files, and one without a filter."""
    store = lakeconf.init(configuration(folder, metadata=metadata)).get_store(ALIAS)
    spark, first = session(store), files // 2 * 1000
    with store.open(spark) as lake:
        for kept, where in ((KEPT, f"id >= {first} AND id < {first + KEPT * 1000}"), (files, None)):
            for _ in range(2):
                started = time.perf_counter()
                with counted_calls(spark) as calls:
                    lake.table("t").scan(where=where)
                seconds = time.perf_counter() - started
            cells = [
                f"{files:,}",
                f"{kept:,}",
                f"{seconds:.2f} s",
                f"{calls.count}",
                *map("{:.0f} MB".format, peaks(spark)),
            ]
            print(f"| {' | '.join(cells)} |", flush=True)
    spark.stop()


def measure_columns(folder: Path) -> None:
    """Prints the CPU time to group the files of a wide table."""
    columns = [Column(number, f"c{number}", "int64", nullable=True, initial_default=None) for number in range(COLUMNS)]
    files = [DataFile(number, f"/{number}", 1, 100, 0, 1) for number in range(FILES_OF_COLUMNS)]
    table = TableInfo(1, "main", "t", tuple(columns), "/t/")
    spark = session(lakeconf.init(configuration(folder)).get_store(ALIAS))
    started = time.process_time()
    groups(spark, ScanPlan(1, table, table.columns, tuple(files), {}, ()))
    taken = (time.process_time() - started) / FILES_OF_COLUMNS
    print(f"\n`groups()` takes {taken * 1e6:.1f} µs for each file of {COLUMNS:,} columns", flush=True)
    spark.stop()


def alone(run: Any, *arguments: Any) -> None:
    """Runs a function in a process of its own."""
    process = multiprocessing.get_context("spawn").Process(target=run, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(process.exitcode)


def main(counts: list[int], *, on_server: bool) -> None:
    """Makes each catalog with its files, and measures."""
    print(f"{HEADER}\n|---|---|---|---|---|---|")
    with ExitStack() as stack:
        server = stack.enter_context(postgres()) if on_server else None
        for files in counts:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            metadata = None if server is None else on_postgres(server)
            make_catalog(folder, files, metadata)
            link_files(folder, files)
            alone(measure, folder, files, metadata)
        alone(measure_columns, Path(stack.enter_context(tempfile.TemporaryDirectory())))


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:] if argument != POSTGRES]
    main(given or [1000, 100_000, 1_000_000], on_server=POSTGRES in sys.argv)
