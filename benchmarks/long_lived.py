"""Ages a lake in rounds of load, churn and reads, with and without maintenance, as LST-Bench does.

Usage: python benchmarks/long_lived.py [ROUNDS] [ROWS]      (default: 20 rounds of 500,000 rows)

Each round appends the rows of one day, merges 1 % of all rows, deletes 1 % of the newest day, makes ten small appends,
and then reads all rows, one day, and all rows of an older snapshot. One lake is maintained after each round, the other
never. The table shows how much slower the last rounds are than the first ones. Operations on all rows take longer in a
larger table, so their times are divided by the number of rows.
"""

from __future__ import annotations

import datetime as dt
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - its usual name

import lakeconf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_APPENDS = 10
# Snapshots older than this many rounds expire in the maintained lake.
KEPT_ROUNDS = 3


@dataclass
class Aging:
    """One lake and its times.

    Attributes:
        store: The store of the lake.
        is_maintained: True to maintain the lake after each round.
        seconds: The times of each operation, by round.
        millions: The rows that each operation concerns, by round, in millions; 1 if it does not depend on the table.
        versions: The snapshot at the end of each round.
    """

    store: lakeconf.Store
    is_maintained: bool
    seconds: dict[str, list[float]] = field(default_factory=dict)
    millions: dict[str, list[float]] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)

    def measure(self, what: str, run: Callable[[], object], millions: float = 1.0) -> None:
        started = time.perf_counter()
        run()
        self.seconds.setdefault(what, []).append(time.perf_counter() - started)
        self.millions.setdefault(what, []).append(millions)

    def median(self, what: str, rounds: slice) -> float:
        """Seconds per million rows."""
        scaled = zip(self.seconds[what], self.millions[what], strict=True)
        return statistics.median([seconds / millions for seconds, millions in scaled][rounds])


def day_of(spark: SparkSession, number: int, rows: int) -> DataFrame:
    """The rows of one day."""
    first = number * rows
    return spark.range(first, first + rows, 1, 4).select(
        "id",
        F.lit(number).alias("day"),
        (F.hash("id") % 1000).cast("double").alias("amount"),
        F.md5(F.col("id").cast("string")).alias("note"),
    )


def play_round(spark: SparkSession, aging: Aging, number: int, rows: int) -> None:
    """One round: load, churn, reads, and maintenance."""
    total = (number + 1) * rows
    with aging.store.open(spark) as lake:
        table = lake.table("events")
        aging.measure("append of a day", lambda: table.append(day_of(spark, number, rows)))
        changed = table.scan().to_native().where(f"id % 100 = {number % 100}")
        changes = changed.withColumn("amount", F.col("amount") + 1).localCheckpoint()
        aging.measure("merge of 1 %", lambda: table.merge(changes, on="id"), total / 1e6)
        low = number * rows
        aging.measure("delete of 1 % of a day", lambda: table.delete(f"id >= {low} AND id < {low + rows // 100}"))
        small = pa.table({"id": [-1], "day": [number], "amount": [0.0], "note": ["small"]}, day_schema())
        aging.measure("ten small appends", lambda: [table.append(small) for _ in range(SMALL_APPENDS)])
        aging.versions.append(lake.snapshot_id)
        if aging.is_maintained:
            aging.measure("maintenance", lambda: maintain(lake, aging))
    with aging.store.open(spark) as lake:
        table = lake.table("events")
        aging.measure("read of all rows", lambda: total_of(table.scan()), total / 1e6)
        aging.measure("read of the first day", lambda: total_of(table.scan(where="day = 0")))
        older = lake.at(version=aging.versions[max(0, number - KEPT_ROUNDS + 1)]).table("events")
        aging.measure("time travel", lambda: total_of(older.scan()), total / 1e6)


def day_schema() -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("day", pa.int32()), ("amount", pa.float64()), ("note", pa.string())])


def total_of(frame: Any) -> object:
    return frame.to_native().agg(F.sum("amount"), F.count("note")).collect()


def maintain(lake: lakeconf.Lake, aging: Aging) -> None:
    """Compacts, expires the snapshots that no later round reads, and removes their files."""
    lake.maintenance.compact()
    lake.refresh()
    aging.versions[-1] = lake.snapshot_id
    oldest_kept = aging.versions[-KEPT_ROUNDS:][0]
    times = {snapshot.snapshot_id: snapshot.time for snapshot in lake.snapshots()}
    lake.maintenance.expire_snapshots(older_than=times[oldest_kept], force=True)
    lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)


def print_table(agings: list[Aging]) -> None:
    """How much slower the last three rounds are than rounds two to four; the first one warms Spark up."""
    first, last = slice(1, 4), slice(-3, None)
    print("| operation | maintained | never maintained | never against maintained, last rounds |\n|---|---|---|---|")
    maintained, never = agings
    for what in never.seconds:
        growth = [aging.median(what, last) / aging.median(what, first) for aging in agings]
        against = never.median(what, last) / maintained.median(what, last)
        print(f"| {what} | {growth[0]:.2f} | {growth[1]:.2f} | {against:.2f} |")
    cost = sum(maintained.seconds["maintenance"]) / sum(map(sum, maintained.seconds.values()))
    print(f"\nMaintenance took {cost:.0%} of the maintained lake's measured time.")


def main(rounds: int, rows: int) -> None:
    """Ages both lakes in turns."""
    with tempfile.TemporaryDirectory() as folder:
        agings = []
        for is_maintained in (True, False):
            place = Path(folder, "maintained" if is_maintained else "never")
            place.mkdir()
            backends = {
                "metadata_backend": {"type": "sqlite", "uri": str(place / "catalog.sqlite")},
                "storage_backend": {"type": "local", "path": str(place / "data")},
            }
            store = lakeconf.init({"stores": {"bench": backends}}).get_store("bench")
            with store.open() as lake:
                lake.create_table("events", {"id": "BIGINT", "day": "INTEGER", "amount": "DOUBLE", "note": "VARCHAR"})
            agings.append(Aging(store, is_maintained))
        settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "6g"}
        settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "8"}
        spark = lakeconf.spark_session(agings[0].store, settings=settings)
        spark.sparkContext.setLogLevel("ERROR")
        for number in range(rounds):
            for aging in agings:
                play_round(spark, aging, number, rows)
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        spark.stop()
        print_table(agings)


if __name__ == "__main__":
    given = [int(argument.replace(",", "")) for argument in sys.argv[1:]]
    main(*given, *(20, 500_000)[len(given) :])
