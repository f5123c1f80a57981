"""Writes to a lake from Spark, compared with `df.write.parquet` and with DuckDB, and the cost of a commit.

Usage: python benchmarks/spark_write.py [ROWS]      (default: 10,000,000)
"""

from __future__ import annotations

import itertools
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from ratios import HEADER, Result, compare, row
from scanning.lakes import make_catalog

import lakeconf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 20
KEYS = 1_000_000
DAYS = 30
numbers = itertools.count()


def make_source(folder: Path, rows: int) -> Path:
    """Eight columns in files with equal numbers of rows."""
    folder.mkdir()
    for part in range(FILES):
        duckdb.execute(f"""COPY (
            SELECT i AS id, (hash(i) % {KEYS})::INTEGER AS user_id, (hash(i * 3) % 100000) / 7 AS amount,
                   ((hash(i * 5) % 100000) / 100)::DECIMAL(10, 2) AS price,
                   DATE '2024-01-01' + (i % 365)::INTEGER AS day,
                   TIMESTAMP '2024-01-01' + to_seconds(i) AS moment, 'kind_' || hash(i * 7) % 20 AS kind,
                   md5(i::VARCHAR) AS note
            FROM range({rows * part // FILES}, {rows * (part + 1) // FILES}) AS r(i)
        ) TO '{folder}/{part}.parquet' (FORMAT parquet)""")
    return folder


def new_store(folder: Path, **settings: object) -> lakeconf.Store:
    """An empty lake; `settings` are those of the store."""
    backends = {
        **settings,
        "metadata_backend": {"type": "sqlite", "uri": str(folder / "catalog.sqlite")},
        "storage_backend": {"type": "local", "path": str(folder / "data")},
    }
    return lakeconf.init({"stores": {"bench": backends}}).get_store("bench")


def measure_append(lake: lakeconf.Lake, frame: DataFrame, folder: Path) -> None:
    """Each run writes all rows to a new table or a new folder."""

    def ours() -> None:
        name = f"appended_{next(numbers)}"
        with lake.transaction() as tx:
            tx.create_table(name, frame)
            tx.table(name).append(frame)
        shutil.rmtree(folder / "data" / "main" / name)

    def theirs() -> None:
        target = folder / f"plain_{next(numbers)}"
        frame.write.option("compression", "zstd").parquet(str(target))
        shutil.rmtree(target)

    compare("append of all rows", ours, "df.write.parquet", theirs, goal=1.15)


def measure_partitions(lake: lakeconf.Lake, frame: DataFrame, folder: Path) -> None:
    """Each run writes all rows to 30 days of a new table or a new folder."""
    columns = [name for name in frame.columns if name != "day"]
    spread = frame.selectExpr(*columns, "date_add(DATE'2024-01-01', CAST(id * 7919 % 30 AS INT)) AS day")
    types = lake._session.engine.schema(spread)  # noqa: SLF001 - the types of a frame

    def ours() -> None:
        name = f"partitioned_{next(numbers)}"
        lake.create_table(name, types, partitioned_by=["day"]).append(spread)
        files = lake.table(name).files()
        assert len({file.path.rpartition("/")[0] for file in files}) == DAYS  # noqa: S101
        shutil.rmtree(folder / "data" / "main" / name)

    def theirs() -> None:
        target = folder / f"plain_{next(numbers)}"
        spread.repartition("day").write.option("compression", "zstd").partitionBy("day").parquet(str(target))
        shutil.rmtree(target)

    compare("append to 30 days", ours, "df.repartition.write.partitionBy.parquet", theirs, goal=1.2)


def measure_few_rows(folder: Path) -> None:
    """Appends ten rows with DuckDB, which has to write a file and to commit for them too."""
    rows = pa.table({"id": list(range(10)), "name": [f"row {number}" for number in range(10)]})
    plain = new_store(fresh(folder), attach_options={"data_inlining_row_limit": 0})
    with new_store(fresh(folder)).open() as lake, plain.connect() as con:
        table = lake.create_table("t", {"id": "BIGINT", "name": "VARCHAR"})
        con.execute("CREATE TABLE t (id BIGINT, name VARCHAR)")
        con.register("ten_rows", rows)

        def theirs() -> None:
            for statement in ("BEGIN", "INSERT INTO t FROM ten_rows", "COMMIT"):
                con.execute(statement)

        compare("append of 10 rows", lambda: table.append(rows), "INSERT in DuckDB", theirs, goal=2, repeats=101)


def measure_few_rows_on_spark(lake: lakeconf.Lake, spark: SparkSession, folder: Path) -> None:
    """Appends ten rows with Spark; each run of the rival writes a new folder."""
    frame = spark.createDataFrame([(number, f"row {number}") for number in range(10)], "id long, name string")
    table = lake.create_table("few", {"id": "BIGINT", "name": "VARCHAR"})

    def theirs() -> None:
        frame.write.option("compression", "zstd").parquet(str(folder / f"few_{next(numbers)}"))

    compare("append of 10 rows on Spark", lambda: table.append(frame), "df.write.parquet", theirs, goal=2, repeats=21)


def measure_commits(folder: Path) -> None:
    """Registers many files at once, and commits to a table that has many files."""
    files = folder / "many"
    files.mkdir()
    for number in range(1000):
        pq.write_table(pa.table({"n": [number]}), files / f"{number}.parquet")
    listed = ", ".join(f"'{path}'" for path in sorted(files.iterdir()))

    def register() -> float:
        with new_store(fresh(folder)).connect() as con:
            con.execute("CREATE TABLE t (n BIGINT)")
            started = time.perf_counter()
            con.execute(f"CALL ducklake_add_data_files('bench', 't', [{listed}])")
            return time.perf_counter() - started

    store = new_store(fresh(folder))
    with store.open() as lake:
        lake.create_table("t", {"n": "BIGINT"})
        few = median(lambda: timed(lambda: lake.table("t").append(pa.table({"n": [1]}))))
    once = median(register, repeats=3)
    print(row(Result("commit of 1,000 files: seconds more", once - few, "commit of one row", 1)))
    row_of_t = pa.table({"id": [-1], **{f"c{index}": [1] for index in range(9)}})
    taken = {}
    for files in (100, 100_000):
        with make_catalog(fresh(folder), files).open() as lake:
            taken[files] = median(lambda: timed(lambda: lake.table("t").append(row_of_t)))
    print(row(Result("commit to a table of 100,000 files", taken[100_000] / taken[100], "to one of 100", 1.1)))


def fresh(folder: Path) -> Path:
    """A new empty folder."""
    made = folder / f"lake_{next(numbers)}"
    made.mkdir()
    return made


def timed(run: Callable[[], Any]) -> float:
    """The time that it takes, in seconds."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def median(run: Callable[[], float], repeats: int = 5) -> float:
    """The median of several runs, after a warm-up run."""
    run()
    return sorted(run() for _ in range(repeats))[repeats // 2]


def main(rows: int) -> None:
    """Creates the data, starts Spark, and measures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = make_source(folder / "source", rows)
        store = new_store(fresh(folder))
        settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.driver.memory": "6g"}
        settings |= {"spark.ui.showConsoleProgress": "false", "spark.sql.shuffle.partitions": "8"}
        spark = lakeconf.spark_session(store, settings=settings)
        spark.sparkContext.setLogLevel("ERROR")
        frame = spark.read.option("inferTimestampNTZ", "true").parquet(str(source))
        print(HEADER)
        with store.open(spark) as lake:
            folder_of_lake = Path(store.storage_backend.path).parent  # type: ignore[union-attr]
            measure_append(lake, frame, folder_of_lake)
            measure_partitions(lake, frame, folder_of_lake)
            measure_few_rows_on_spark(lake, spark, folder_of_lake)
        spark.stop()
        measure_few_rows(folder)
        measure_commits(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000)
