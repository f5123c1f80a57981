"""TPC-H on Spark: tables of a lake without deletes, compared with `spark.read.parquet` on the same files.

Usage: python benchmarks/tpch_files.py [SCALE] [RUNS]      (default: 0.5, 7)

After two warm-up runs of each query, both sides run in turns. A ratio is that of the best runs: both read the same
bytes, so the best run is the one that the machine disturbed least. The total is the sum of these runs.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import lakeconf
from lakeconf.connection.connection import extension_sql

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from tpc import equal_rows, plain_tables, spark_rows, spark_sql

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Store

LAKE, PLAIN = "tpch", "plain"
WARM_UPS = 2


def build(store: Store, scale: float) -> dict[int, str]:
    """Writes the tables to a new lake, each with one statement; returns the queries by number."""
    with store.connect() as connection:
        connection.execute(extension_sql("tpch"))
        connection.execute(f"CALL dbgen(sf => {scale}, catalog => 'memory')")
        connection.execute(f"CREATE SCHEMA {store.alias}.{LAKE}")
        for table in plain_tables(connection):
            connection.execute(f"CREATE TABLE {store.alias}.{LAKE}.{table} AS FROM memory.main.{table}")
        return dict(connection.execute("SELECT query_nr, query FROM tpch_queries()").fetchall())


def seconds(spark: SparkSession, sql: str) -> float:
    """The time of one run of a query."""
    started = time.perf_counter()
    spark_rows(spark, sql)
    return time.perf_counter() - started


def main(scale: float, runs: int) -> None:
    """Prints the ratio of each query, and of all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        backends = {
            "metadata_backend": {"type": "sqlite", "uri": str(folder / "catalog.sqlite")},
            "storage_backend": {"type": "local", "path": str(folder / "data")},
            "attach_options": {"data_inlining_row_limit": 0},
        }
        store = lakeconf.init({"stores": {"bench": backends}}).get_store("bench")
        queries = build(store, scale)
        settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "8g"}
        settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "8"}
        spark = lakeconf.spark_session(store, settings=settings)
        spark.sparkContext.setLogLevel("ERROR")
        with store.open(spark) as lake:
            lake.register_views()
            for table in lake.tables():
                paths = [file.path for file in lake.table(table).files()]
                spark.read.parquet(*paths).createOrReplaceTempView(f"{PLAIN}_{table.rpartition('.')[2]}")
            print("| query | lakeconf, seconds | ratio |\n|---|---|---|", flush=True)
            ours = theirs = 0.0
            for number, query in queries.items():
                sides = [spark_sql(query, schema) for schema in (LAKE, PLAIN)]
                if not equal_rows(*(spark_rows(spark, side) for side in sides)):
                    raise AssertionError(f"query {number}: the rows differ")
                for _ in range(WARM_UPS - 1):
                    for side in sides:
                        seconds(spark, side)
                # The side that runs first changes, because it pays for what the other one left.
                times: tuple[list[float], list[float]] = ([], [])
                for run in range(runs):
                    for side in (0, 1) if run % 2 else (1, 0):
                        times[side].append(seconds(spark, sides[side]))
                best = [min(taken) for taken in times]
                ours, theirs = ours + best[0], theirs + best[1]
                print(f"| {number} | {best[0]:.2f} | {best[0] / best[1]:.2f} |", flush=True)
            print(f"| all | {ours:.2f} | {ours / theirs:.2f} |", flush=True)
        spark.stop()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 0.5, int(sys.argv[2]) if len(sys.argv) > 2 else 7)
