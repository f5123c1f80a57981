"""Merges from Spark, compared with DuckDB's MERGE INTO of the same Parquet file.

Usage: python benchmarks/spark_merge.py [ROWS ...]      (default: 2,000,000 10,000,000)
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from ratios import HEADER, compare
from spark_write import make_source, new_store

import lakeconf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

GOALS = {1: 4.0, 20: 2.0}


def make_changes(source: Path, target: Path, rows: int, percent: int) -> None:
    """New values for a part of the rows, spread over all files; half of the rows are new when they are merged first."""
    every = 100 // percent
    new_id = f"id + CASE WHEN id % {2 * every} = 0 THEN {rows} ELSE 0 END"
    changed = (
        f"SELECT * REPLACE ({new_id} AS id, amount + 1 AS amount) FROM '{source}/*.parquet' WHERE id % {every} = 0"
    )
    duckdb.execute(f"COPY ({changed}) TO '{target}' (FORMAT parquet)")


def measure(spark: SparkSession, store: lakeconf.Store, changes: Path, what: str, goal: float) -> None:
    """Merges the changes into the table `target` in turns."""
    frame = spark.read.option("inferTimestampNTZ", "true").parquet(str(changes))

    def ours() -> None:
        with store.open(spark) as lake:
            lake.table("target").merge(frame, on="id")

    def theirs() -> None:
        with store.connect() as con:
            con.execute(
                f"MERGE INTO target USING (FROM '{changes}') AS changes USING (id) "
                "WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
            )

    compare(what, ours, "DuckDB's MERGE INTO", theirs, goal=goal)


def run(folder: Path, rows: int) -> None:
    """Creates a table with a number of rows, and measures merges into copies of it."""
    source = make_source(folder / "source", rows)
    for percent, goal in GOALS.items():
        here = folder / str(percent)
        here.mkdir()
        store, changes = new_store(here), here / "changes.parquet"
        make_changes(source, changes, rows, percent)
        settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "6g"}
        settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "8"}
        spark = lakeconf.spark_session(store, settings=settings)
        spark.sparkContext.setLogLevel("ERROR")
        frame = spark.read.option("inferTimestampNTZ", "true").parquet(str(source))
        with store.open(spark) as lake:
            lake.create_table("target", frame).append(frame)
        measure(spark, store, changes, f"merge of {percent} % of {rows:,} rows", goal)


def main(sizes: list[int]) -> None:
    """Measures each size in a folder of its own."""
    print(HEADER)
    for rows in sizes:
        with tempfile.TemporaryDirectory() as name:
            run(Path(name), rows)


if __name__ == "__main__":
    main([int(text) for text in sys.argv[1:]] or [2_000_000, 10_000_000])
