"""Deletes and conditional overwrites from Spark, compared with DuckDB's DELETE, and the bytes that the driver reads.

Usage: python benchmarks/spark_delete.py [ROWS]      (default: 10,000,000)
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
from ratios import HEADER, compare
from spark_write import fresh, make_source, new_store

import lakeconf
from lakeconf.write import strategy

DAYS = 365
PARTS = 100
numbers = itertools.count()
parts = itertools.count()


def bytes_read(run: Callable[[], object]) -> int:
    """The bytes that this process reads; Spark's executors are another process."""

    def read() -> int:
        lines = Path("/proc/self/io").read_text().splitlines()
        return int(dict(line.split(": ") for line in lines)["rchar"])

    before = read()
    run()
    return read() - before


def measure_delete(lake: lakeconf.Lake, con: duckdb.DuckDBPyConnection, what: str) -> None:
    """Each run deletes another hundredth of the rows of twins."""

    def condition() -> str:
        part = next(parts) % PARTS
        return f"user_id >= {part * 10_000} AND user_id < {(part + 1) * 10_000}"

    def ours() -> None:
        lake.refresh()
        lake.table("ours").delete(condition())

    def theirs() -> None:
        con.execute(f"DELETE FROM theirs WHERE {condition()}")

    goal = 2 if strategy.ROWS_PER_STATEMENT else None
    compare(f"delete of 1 % by condition, {what}", ours, "DuckDB's DELETE", theirs, goal=goal)
    print(f"the driver reads {bytes_read(ours):,} bytes, DuckDB's DELETE {bytes_read(theirs):,}")


def measure_days(lake: lakeconf.Lake, con: duckdb.DuckDBPyConnection, source: Path, folder: Path) -> None:
    """A year in day partitions: each run replaces or deletes a day."""
    spark = lake._session.engine._spark  # type: ignore[attr-defined]  # noqa: SLF001
    frame = spark.read.option("inferTimestampNTZ", "true").parquet(str(source))
    for name in ("our_days", "their_days"):
        lake.create_table(name, frame, partitioned_by=["day"])
    lake.table("our_days").append(frame)
    con.execute("INSERT INTO their_days BY NAME FROM our_days")

    def day(number: int) -> str:
        return f"DATE '2024-01-01' + {number % DAYS}"

    def text(number: int) -> str:
        ((found,),) = con.execute(f"SELECT ({day(number)})::DATE::VARCHAR").fetchall()
        return str(found)

    def write_day() -> None:
        target = folder / f"day_{next(numbers)}"
        one = frame.where(f"day = '{text(next(numbers))}'")
        one.write.option("compression", "zstd").parquet(str(target))
        shutil.rmtree(target)

    def overwrite_day() -> None:
        wanted = text(next(numbers))
        lake.table("our_days").overwrite(frame.where(f"day = '{wanted}'"), where=f"day = '{wanted}'")

    def overwrite_partition() -> None:
        wanted = text(next(numbers))
        lake.table("our_days").overwrite_partitions(frame.where(f"day = '{wanted}'"))

    compare("overwrite of a day of a year", overwrite_day, "df.write.parquet of that day", write_day, goal=1.3)
    compare("overwrite_partitions of a day", overwrite_partition, "df.write.parquet of that day", write_day, goal=1.3)

    def ours() -> None:
        lake.table("our_days").delete(f"day = '{text(next(numbers))}'")

    def theirs() -> None:
        con.execute(f"DELETE FROM their_days WHERE day = '{text(next(numbers))}'")

    compare("delete of a day of a year", ours, "DuckDB's DELETE", theirs, goal=2)


def main(rows: int) -> None:
    """Creates the data, starts Spark, and measures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = make_source(folder / "source", rows)
        store = new_store(fresh(folder))
        settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "4g"}
        settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "8"}
        spark = lakeconf.spark_session(store, settings=settings)
        spark.sparkContext.setLogLevel("ERROR")
        frame = spark.read.option("inferTimestampNTZ", "true").parquet(str(source))
        print(HEADER)
        with store.open(spark) as lake, store.connect() as con:
            for table in ("ours", "theirs"):
                lake.create_table(table, frame).append(frame)
            measure_delete(lake, con, "as chosen")
            limit, strategy.ROWS_PER_STATEMENT = strategy.ROWS_PER_STATEMENT, 0
            measure_delete(lake, con, "by Spark")
            strategy.ROWS_PER_STATEMENT = limit
            measure_days(lake, con, source, folder)
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
