"""TPC-H and TPC-DS on Spark: tables of a lake with a history, compared with `spark.read.parquet` on the same rows.

Usage: python benchmarks/tpc_queries.py [SCALE] [tpch|tpcds ...]      (default: 1, both)

The lake's tables have deletes, updates, partitions and changed columns, as in the tests. The rival reads one Parquet
file for each table, without deletes, which DuckDB wrote. Each query runs once on each after a warm-up, and both must
return the same rows.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from spark_write import new_store

import lakeconf

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from tpc import build, equal_rows, plain_tables, spark_rows, spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Store

PLAIN = "plain"


def timed_rows(spark: SparkSession, sql: str) -> tuple[float, list[tuple[object, ...]]]:
    started = time.perf_counter()
    rows = spark_rows(spark, sql)
    return time.perf_counter() - started, rows


def session(store: Store) -> SparkSession:
    """Spark on two cores."""
    settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "8g"}
    settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "8"}
    spark = lakeconf.spark_session(store, settings=settings)
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def compare(name: str, scale: float, folder: Path) -> None:
    """Prints the median and the worst ratio of all queries of a benchmark."""
    store = new_store(folder)
    connection, queries = build(store, name, scale)
    spark = session(store)
    for table in plain_tables(connection):
        path = folder / f"{table}.parquet"
        connection.execute(f"COPY memory.main.{table} TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        spark.read.parquet(str(path)).createOrReplaceTempView(f"{PLAIN}_{table}")
    connection.close()
    with store.open(spark) as lake:
        for table in lake.tables():
            lake.table(table).scan().to_native().createOrReplaceTempView(table.replace(".", "_"))
        ratios, ours, theirs = {}, 0.0, 0.0
        for number, query in queries.items():
            sides = [spark_sql(query, f"{schema}_") for schema in (name, PLAIN)]
            for side in sides:
                spark_rows(spark, side)
            (lake_seconds, found), (plain_seconds, expected) = (timed_rows(spark, side) for side in sides)
            if not equal_rows(found, expected):
                print(f"{name} query {number}: the rows differ")
            ratios[number] = lake_seconds / plain_seconds
            ours, theirs = ours + lake_seconds, theirs + plain_seconds
        worst = max(ratios, key=ratios.__getitem__)
    spark.stop()
    print(
        f"| {name} | {len(ratios)} | {ours / theirs:.2f} | {statistics.median(ratios.values()):.2f} | "
        f"{ratios[worst]:.2f} (query {worst}) |",
        flush=True,
    )


def main(scale: float, names: list[str]) -> None:
    """Compares each benchmark in its own folder and Spark session."""
    print(f"scale {scale:g}\n\n| benchmark | queries | total | median | worst |\n|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, scale, Path(folder))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1, sys.argv[2:] or ["tpch", "tpcds"])
