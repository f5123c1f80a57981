"""TPC-H on Spark: tables of a lake without deletes, compared with `spark.read.parquet` on the same files.

Usage: python benchmarks/tpch_files.py [SCALE] [RUNS]      (default: 0.5, 5)

After two warm-up runs of each query, both sides run in turns. A ratio is that of the best runs: both read the same
bytes, so the best run is the one that the machine disturbed least. The total is the sum of these runs.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from spark_write import new_store
from tpc_queries import PLAIN, session, timed_rows

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from tpc import equal_rows, generate, plain_tables, spark_rows, spark_sql

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from lakeconf import Store

LAKE = "tpch"
WARM_UPS = 2


def build(store: Store, scale: float) -> dict[int, str]:
    """Writes the tables to a new lake, each with one statement; returns the queries by number."""
    with store.connect() as connection:
        queries = generate(connection, store.alias, LAKE, scale)
        for table in plain_tables(connection):
            connection.execute(f"CREATE TABLE {store.alias}.{LAKE}.{table} AS FROM memory.main.{table}")
    return queries


def best_times(spark: SparkSession, sides: Sequence[str], runs: int) -> tuple[float, float]:
    """The shortest time of each of two queries, after the warm-up."""
    for _ in range(WARM_UPS):
        rows = [spark_rows(spark, side) for side in sides]
    if not equal_rows(*rows):
        raise AssertionError(f"the rows differ: {sides[0]}")
    times: tuple[list[float], list[float]] = ([], [])
    for run in range(runs):
        # The side that runs first changes, because it pays for what the other one left.
        for side in (0, 1) if run % 2 else (1, 0):
            seconds, _ = timed_rows(spark, sides[side])
            times[side].append(seconds)
    return min(times[0]), min(times[1])


def main(scale: float, runs: int) -> None:
    """Prints the ratio of each query, and of all."""
    with tempfile.TemporaryDirectory() as folder:
        store = new_store(Path(folder), attach_options={"data_inlining_row_limit": 0})
        queries = build(store, scale)
        spark = session(store)
        with store.open(spark) as lake:
            for table in lake.tables():
                lake.table(table).scan().to_native().createOrReplaceTempView(table.replace(".", "_"))
                paths = [file.path for file in lake.table(table).files()]
                spark.read.parquet(*paths).createOrReplaceTempView(f"{PLAIN}_{table.rpartition('.')[2]}")
            print("| query | lakeconf, seconds | ratio |\n|---|---|---|", flush=True)
            ours = theirs = 0.0
            for number, query in queries.items():
                mine, plain = best_times(spark, [spark_sql(query, f"{schema}_") for schema in (LAKE, PLAIN)], runs)
                ours, theirs = ours + mine, theirs + plain
                print(f"| {number} | {mine:.2f} | {mine / plain:.2f} |", flush=True)
            print(f"| all | {ours:.2f} | {ours / theirs:.2f} |", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.5, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
