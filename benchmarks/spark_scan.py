"""Spark scans of a lake, compared with `spark.read.parquet` of the same files and other ways to read a DuckLake.

Usage: python benchmarks/spark_scan.py [ROWS]      (default: 10,000,000)
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scanning import planning
from scanning.lakes import ALIAS, make_catalog, make_lake
from scanning.rivals import PEER, duckdb_in_workers, peer
from scanning.turns import Taken, in_turns

import lakeconf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARQUET, US, WORKERS, PEER_NAME = "spark.read.parquet", "lakeconf", "DuckDB in the workers", PEER.partition("=")[0]
DAY = "day = DATE '2024-07-01'"
Action = tuple[str, list[str], Callable[["DataFrame"], object]]
# Name of an action, the columns for readers that cannot determine them, and the action.
ALL: Action = ("all columns", [], lambda frame: frame.write.format("noop").mode("overwrite").save())
TWO: Action = ("two columns", ["kind", "amount"], lambda frame: frame.groupBy("kind").sum("amount").collect())
ONE: Action = ("one column", ["amount"], lambda frame: frame.selectExpr("sum(amount)").collect())
COUNT: Action = ("count(*)", ["id"], lambda frame: frame.count())
CASES: list[tuple[str, str, Action, float | None]] = [
    ("whole", "no deletes", ALL, 1.05),
    ("whole", "no deletes", TWO, 1.05),
    ("whole", "no deletes", ONE, 1.05),
    ("whole", "no deletes", COUNT, None),
    ("deleted_1", "1 % deleted", ALL, 1.3),
    ("deleted_1", "1 % deleted", ONE, 2.5),
    ("deleted_20", "20 % deleted", ALL, 1.6),
    ("deleted_20", "20 % deleted", ONE, None),
]
HEADER = f"""| what | against | lakeconf | goal | | {WORKERS} | `{PEER_NAME}` |
|---|---|---|---|---|---|---|"""


@dataclass(frozen=True)
class Bench:
    """The objects of a benchmark run.

    Attributes:
        spark: The session.
        lake: The lake, opened with it.
        folder: The folder of the lake.
        peer: The module of the peer; None if it is unavailable.
    """

    spark: SparkSession
    lake: lakeconf.Lake
    folder: Path
    peer: Any

    def files(self, table: str) -> list[str]:
        """The data files of a table."""
        listed = self.lake.sql(f"SELECT data_file FROM ducklake_list_files('{ALIAS}', '{table}')")
        return [str(path) for path in listed.collect()["data_file"].to_list()]

    def ours(self, table: str, where: str | None = None) -> DataFrame:
        """The table as lakeconf reads it."""
        frame: DataFrame = self.lake.table(table).scan(where=where).to_native()
        return frame

    def frames(self, table: str, columns: list[str], where: str | None = None) -> dict[str, Callable[[], DataFrame]]:
        """The table, as each reader reads it."""
        files = self.files(table)
        schema = self.ours(table).select(columns or "*").schema
        found: dict[str, Callable[[], DataFrame]] = {
            PARQUET: lambda: self.spark.read.parquet(*files),
            US: lambda: self.ours(table, where),
            WORKERS: lambda: duckdb_in_workers(self.spark, self.folder, table, files, schema, where),
        }
        if self.peer is not None and where is None:
            catalog = str(self.folder / "catalog.sqlite")
            found[PEER_NAME] = lambda: self.peer.read_ducklake(self.spark, catalog, table)
        return found


def run(act: Callable[[DataFrame], object], frame: Callable[[], DataFrame]) -> None:
    """Creates a frame and reads it."""
    act(frame())


def cell(taken: Taken | None, base: float, *, missing: str = "") -> str:
    """The ratio of a rival."""
    if taken is None:
        return missing
    return f"{taken.median / base:.2f}" + (" (one run)" if taken.runs == 1 else "")


def row(what: str, against: str, taken: Mapping[str, Taken], goal: float | None, *, missing: str = "") -> str:
    """A row of the table."""
    base = taken[against].median
    ratio = taken[US].median / base
    verdict = "" if goal is None else "reached" if ratio <= goal else f"missed by {ratio / goal - 1:.0%}"
    rivals = [cell(taken.get(WORKERS), base), cell(taken.get(PEER_NAME), base, missing=missing)]
    wanted = "" if goal is None else f"≤ {goal:g}"
    return f"| {' | '.join([what, f'{against}, {base:.2f} s', f'{ratio:.2f}', wanted, verdict, *rivals])} |"


def measure_scans(bench: Bench) -> None:
    """Prints the rows of the table that compares scans."""
    missing = "not to be had" if bench.peer is None else ""
    for table, which, (name, columns, act), goal in CASES:
        frames = bench.frames(table, columns)
        taken = in_turns({who: partial(run, act, frame) for who, frame in frames.items()})
        print(row(f"{which}, {name}", PARQUET, taken, goal, missing=missing), flush=True)
    full = "our scan of the year"
    day = {full: partial(run, ALL[2], partial(bench.ours, "days"))}
    for who, frame in bench.frames("days", [], DAY).items():
        if who != PARQUET:
            day[who] = partial(run, ALL[2], frame)
    print(row("one day of a year, in a file for each day", full, in_turns(day), 0.05, missing=missing), flush=True)


def measure_names(bench: Bench) -> None:
    """Prints the table that compares a table's name in Spark with a scan of it."""
    print("\n| by name, against `scan()` | " + " | ".join(action[0] for action in (ALL, ONE, COUNT)) + " |")
    print("|---|" + "---|" * 3)
    for table, which in (("whole", "no deletes"), ("deleted_1", "1 % deleted")):
        cells = []
        for _, _, act in (ALL, ONE, COUNT):
            frames = {US: partial(bench.ours, table), "by name": partial(bench.spark.table, f"{ALIAS}.main.{table}")}
            taken = in_turns({who: partial(run, act, frame) for who, frame in frames.items()})
            cells.append(f"{taken['by name'].median / taken[US].median:.2f}")
        print(f"| {which} | {' | '.join(cells)} |", flush=True)


def measure_frames(bench: Bench) -> None:
    """Prints the time to create a frame."""
    print("\n| until there is a frame | median |\n|---|---|")
    made: dict[str, Callable[[], object]] = {
        f"`scan()`, {which}": partial(bench.ours, table)
        for table, which in {table: which for table, which, *_ in CASES}.items()
    }
    made[PARQUET] = bench.frames("whole", [])[PARQUET]
    for what, taken in in_turns(made).items():
        print(f"| {what} | {taken.median:.2f} s |", flush=True)


def measure_planning(folder: Path) -> None:
    """Prints the row that compares planning, and the memory it takes."""
    many, fewer = 100_000, 10_000
    with ExitStack() as stack:
        store = make_catalog(folder / "many", many)
        taken = in_turns(planning.planners(store, many, stack))
        print(row(f"planning over {many:,} files, {planning.KEPT} left", planning.DUCKDB, taken, 1.5), flush=True)
    make_catalog(folder / "fewer", fewer)
    print(f"\n| memory that planning takes | {fewer:,} files | {many:,} files |\n|---|---|---|")
    for who in (planning.US, planning.DUCKDB):
        grown = [planning.memory(folder / name, files, who) for name, files in (("fewer", fewer), ("many", many))]
        print(f"| {who} | {grown[0]:.0f} MB | {grown[1]:.0f} MB |", flush=True)


def check(bench: Bench) -> None:
    """Prints which readers return the same rows as DuckDB."""
    tables = {"whole": "sum(amount)", "deleted_1": "sum(id)", "deleted_20": "sum(id)", "few": "sum(id)"}
    print("\n| rows, against DuckDB's | " + " | ".join(tables) + " |\n|---|" + "---|" * len(tables))
    found: dict[str, list[str]] = {}
    for table in tables:
        ((expected, total),) = bench.lake.sql(f"SELECT count(*) AS n, sum(id) AS total FROM {table}").collect().rows()
        for who, frame in bench.frames(table, ["id"]).items():
            try:
                ((count, ids),) = frame().selectExpr("count(*)", "sum(id)").collect()
                verdict = "right" if (count, ids) == (expected, total) else f"wrong: {count:,} rows of {expected:,}"
            except Exception as error:  # noqa: BLE001 - whatever a rival raises
                verdict = f"fails: {type(error).__name__}"
            found.setdefault(who, []).append(verdict)
    for who, verdicts in found.items():
        print(f"| {who} | {' | '.join(verdicts)} |", flush=True)


def session(store: lakeconf.Store) -> SparkSession:
    """Spark on two cores, without progress bars."""
    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "4g"}
    spark = lakeconf.spark_session(store, settings={**settings, "spark.ui.showConsoleProgress": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(rows: int) -> None:
    """Creates the lakes, starts Spark, and measures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "lake").mkdir()
        store = make_lake(folder / "lake", rows)
        spark = session(store)
        print(f"{rows:,} rows; load of the machine before: {os.getloadavg()[0]:.1f}\n\n{HEADER}", flush=True)
        with store.open(spark) as lake:
            bench = Bench(spark, lake, folder / "lake", peer())
            measure_scans(bench)
            measure_names(bench)
            measure_planning(folder)
            measure_frames(bench)
            check(bench)
        print(f"\nLoad of the machine after: {os.getloadavg()[0]:.1f}")
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
