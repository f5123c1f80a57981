"""Spark scans of a lake against `spark.read.parquet` of the same files.

Usage: python benchmarks/spark_scan.py [ROWS]      (10,000,000 unless given)
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from ratios import HEADER, compare

import lakeconf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 20
DAYS = 365
PARQUET = "spark.read.parquet"


def make_lake(folder: Path, rows: int) -> lakeconf.Store:
    """Eight columns, in files of equal numbers of rows and one day after the other, with none, 1 % and 20 % deleted."""
    store = lakeconf.init(
        {
            "stores": {
                "bench": {
                    "metadata_backend": {"type": "sqlite", "uri": str(folder / "catalog.sqlite")},
                    "storage_backend": {"type": "local", "path": str(folder / "data")},
                }
            }
        }
    ).get_store("bench")
    with store.connect() as con:
        for table in ("whole", "deleted_1", "deleted_20"):
            con.execute(f"""CREATE TABLE {table} (id BIGINT, user_id INTEGER, amount DOUBLE, price DECIMAL(10, 2),
                            day DATE, moment TIMESTAMP, kind VARCHAR, note VARCHAR)""")
            for part in range(FILES):
                con.execute(f"""INSERT INTO {table}
                    SELECT i, hash(i) % 1000000, (hash(i * 3) % 100000) / 7, (hash(i * 5) % 100000) / 100,
                           DATE '2024-01-01' + (i * {DAYS} // {rows})::INTEGER,
                           TIMESTAMP '2024-01-01' + to_seconds(i * {DAYS * 86400} // {rows}),
                           'kind_' || hash(i * 7) % 20, md5(i::VARCHAR)
                    FROM range({rows * part // FILES}, {rows * (part + 1) // FILES}) AS r(i)""")
        con.execute("DELETE FROM deleted_1 WHERE hash(id * 11) % 100 = 0")
        con.execute("DELETE FROM deleted_20 WHERE hash(id * 11) % 5 = 0")
    return store


def everything(frame: DataFrame) -> None:
    """Reads all columns and rows."""
    frame.write.format("noop").mode("overwrite").save()


def one_column(frame: DataFrame) -> None:
    """Reads one column of eight."""
    frame.selectExpr("sum(amount)").collect()


def two_columns(frame: DataFrame) -> None:
    """Reads two columns of eight."""
    frame.groupBy("kind").sum("amount").collect()


def count(frame: DataFrame) -> None:
    """Counts rows."""
    frame.count()


def measure(spark: SparkSession, store: lakeconf.Store) -> None:
    """Prints the table."""
    with store.open(spark) as lake:

        def ours(table: str, action: Callable[[DataFrame], None], where: str | None = None) -> Callable[[], None]:
            return lambda: action(lake.table(table).scan(where=where).to_native())

        def plain(table: str, action: Callable[[DataFrame], None]) -> Callable[[], None]:
            with store.connect() as con:
                listed = con.execute("SELECT data_file FROM ducklake_list_files(?, ?)", [store.alias, table])
                files = [path for (path,) in listed.fetchall()]
            return lambda: action(spark.read.parquet(*files))

        print(HEADER)
        for name, action in (("all columns", everything), ("one column", one_column), ("two columns", two_columns)):
            compare(f"no deletes, {name}", ours("whole", action), PARQUET, plain("whole", action), goal=1.05)
        compare("no deletes, count(*)", ours("whole", count), PARQUET, plain("whole", count))
        for table, share, goals in (("deleted_1", "1 %", (1.3, 2.5)), ("deleted_20", "20 %", (1.6, None))):
            for (name, action), goal in zip(
                (("all columns", everything), ("one column", one_column)), goals, strict=True
            ):
                compare(f"{share} deleted, {name}", ours(table, action), PARQUET, plain(table, action), goal=goal)
        day = "day = DATE '2024-07-01'"
        full = ours("whole", everything)
        compare("one day of a year", ours("whole", everything, day), "our scan of the year", full, goal=0.05)


def main(rows: int) -> None:
    """Makes the lake, starts Spark, measures."""
    with tempfile.TemporaryDirectory() as folder:
        store = make_lake(Path(folder), rows)
        settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "6g"}
        settings["spark.ui.showConsoleProgress"] = "false"
        spark = lakeconf.spark_session(store, settings=settings)
        spark.sparkContext.setLogLevel("ERROR")
        measure(spark, store)
        spark.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
