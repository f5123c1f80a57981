"""The quick tier: a few ratios of CPU times, one for each kind of work, which `.ci/run` compares with recorded ones.

    python benchmarks/quick.py [WORD ...]

Words choose the lines that contain one of them. A ratio that is 1.5 times the recorded one fails. Record another one
after a change that explains it: the largest of several runs on a quiet machine.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pyarrow as pa
from commands import ATTACH
from local_project import CONFIGURATION
from pyspark.sql import DataFrame
from ratios import ALLOWED, Line, cpu_seconds
from scanning.lakes import make_catalog
from scanning.planning import DUCKDB, US, planners
from spark_write import new_store

import lakeconf
from lakeconf.connection.connection import extension_sql

HEADER = "| what | against | recorded | now | CPU time of lakeconf |\n|---|---|---|---|---|"
COLUMNS = {"id": "BIGINT", "name": "VARCHAR"}
ROWS, PLANNED_FILES = 200_000, 20_000
SPARK_ROWS = 500_000
MERGE = "MERGE INTO merged USING part USING (id) WHEN MATCHED THEN UPDATE WHEN NOT MATCHED THEN INSERT"
MODEL = "import pydantic\nclass Model(pydantic.BaseModel):\n    x: int\nModel(x=1)"
CREATE = "import lakeconf; lakeconf.init().get_store().open().create_table('raw.events', {'id': 'BIGINT'})"
SETTINGS = {
    "spark.master": "local[2]",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


def on_duckdb(folder: Path) -> Iterator[Line]:
    """Writes with the DuckDB engine, in turns with DuckDB's own on a second lake; both write files."""
    frames = {"ten": rows_of(range(10)), "everything": rows_of(range(ROWS)), "part": rows_of(range(0, ROWS, 100))}
    own, rival = (
        new_store(made(folder / name), attach_options={"data_inlining_row_limit": 0}) for name in ("own", "rival")
    )
    with own.open() as lake, rival.connect() as con:
        for name, frame in frames.items():
            con.register(name, frame)
        tables = {name: lake.create_table(name, COLUMNS) for name in ("few", "many", "deleted", "merged")}
        for name in tables:
            con.execute(f"CREATE TABLE {name} (id BIGINT, name VARCHAR)")
        for name in ("deleted", "merged"):
            tables[name].append(frames["everything"])
            con.execute(f"INSERT INTO {name} FROM everything")

        def run(statement: str) -> None:
            for each in ("BEGIN", statement, "COMMIT"):
                con.execute(each)

        append = partial(tables["few"].append, frames["ten"])
        yield Line("append of 10 rows", 2.5, append, "INSERT", partial(run, "INSERT INTO few FROM ten"), 41)
        append = partial(tables["many"].append, frames["everything"])
        insert = partial(run, "INSERT INTO many FROM everything")
        yield Line("append of 200,000 rows", 1.9, append, "INSERT", insert, 9)
        mine, others = itertools.count(), itertools.count()

        def delete() -> None:
            tables["deleted"].delete(f"id % 100 = {next(mine)}")

        def plain_delete() -> None:
            run(f"DELETE FROM deleted WHERE id % 100 = {next(others)}")

        yield Line("delete of 1 % of 200,000 rows", 2.2, delete, "DELETE", plain_delete, 9)
        merge = partial(tables["merged"].merge, frames["part"], on="id")
        yield Line("merge of 1 % of 200,000 rows", 4, merge, "MERGE INTO", partial(run, MERGE), 9)


def of_planning(folder: Path) -> Iterator[Line]:
    """The plan of a scan of 100 of many files."""
    with ExitStack() as stack:
        plans = planners(make_catalog(made(folder / "planned"), PLANNED_FILES), PLANNED_FILES, stack)
        yield Line("planning of 20,000 files", 0.75, plans[US], "DuckDB", plans[DUCKDB], 7)


def of_processes(folder: Path) -> Iterator[Line]:
    """Whole processes, whose byte code is in a cache, as on a user's machine."""
    here = made(folder / "project")
    (here / "lakeconf.toml").write_text(CONFIGURATION)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "byte-code")

    def process(*arguments: str) -> Callable[[], object]:
        command = [sys.executable, *arguments]
        return partial(subprocess.run, command, cwd=here, env=environment, capture_output=True, check=True)

    preview, model = process("-m", "lakeconf", "preview-sql"), process("-c", MODEL)
    yield Line("lakeconf preview-sql", 1.2, preview, "a process that makes a pydantic model", model, 5)
    process("-c", CREATE)()
    attach = process("-c", ATTACH, *map(extension_sql, ("ducklake", "sqlite_scanner")))
    yield Line("lakeconf tables", 1.7, process("-m", "lakeconf", "tables"), "DuckDB with the extensions", attach, 5)


def on_spark(folder: Path) -> Iterator[Line]:
    """Writes and a read on Spark, in turns with plain Parquet files of the same rows."""
    store, numbers = new_store(made(folder / "lake")), itertools.count()
    spark = lakeconf.spark_session(store, settings=SETTINGS)
    spark.sparkContext.setLogLevel("ERROR")
    driver: int = spark._jvm.java.lang.ProcessHandle.current().pid()  # type: ignore[union-attr]  # noqa: SLF001

    def clock() -> float:
        ticks = Path(f"/proc/{driver}/stat").read_text().rpartition(")")[2].split()[11:13]
        return cpu_seconds() + sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")

    def plain_write(frame: DataFrame) -> None:
        frame.write.option("compression", "zstd").parquet(str(folder / f"plain_{next(numbers)}"))

    columns = "id", "id % 1000 AS user_id", "id / 7 AS amount", "concat('row ', id) AS note"
    spark.range(0, SPARK_ROWS, 1, 2).selectExpr(*columns).write.parquet(str(folder / "source"))
    frame = spark.read.parquet(str(folder / "source"))
    few = spark.createDataFrame(frame.limit(10).collect(), frame.schema)
    with store.open(spark) as lake:
        tables = {name: lake.create_table(name, frame) for name in ("few", "many", "deleted")}
        against = "df.write.parquet"
        append = partial(tables["many"].append, frame)
        yield Line("append of 500,000 rows on Spark", 1.3, append, against, partial(plain_write, frame), 5, clock)
        append = partial(tables["few"].append, few)
        yield Line("append of 10 rows on Spark", 1.9, append, against, partial(plain_write, few), 9, clock)
        tables["deleted"].append(frame)
        tables["deleted"].delete("id % 100 = 0")
        paths = [file.path for file in tables["deleted"].files()]

        def scan() -> None:
            read(tables["deleted"].scan().to_native())

        def plain_scan() -> None:
            read(spark.read.parquet(*paths))

        yield Line("scan with 1 % deleted on Spark", 1.8, scan, "spark.read.parquet", plain_scan, 7, clock)
    spark.stop()


def read(frame: DataFrame) -> None:
    """Reads all columns and keeps nothing."""
    frame.write.format("noop").mode("overwrite").save()


def rows_of(ids: Iterable[int]) -> pa.Table:
    ids = list(ids)
    return pa.table({"id": ids, "name": [f"row {number}" for number in ids]})


def made(folder: Path) -> Path:
    """A new folder."""
    folder.mkdir()
    return folder


def main(words: list[str]) -> None:
    """Prints the lines, and fails if a ratio is too large."""
    started, too_slow = time.monotonic(), list[str]()
    print(HEADER)
    with tempfile.TemporaryDirectory() as name:
        for lines in (on_duckdb, of_planning, of_processes, on_spark):
            chosen = (line for line in lines(Path(name)) if not words or any(word in line.what for word in words))
            too_slow += [line.what for line in chosen if not line.is_kept()]
    print(f"\nMeasured in {time.monotonic() - started:.0f} s.")
    if too_slow:
        sys.exit(f"slower than {ALLOWED} times the recorded ratio: {', '.join(too_slow)}")


if __name__ == "__main__":
    main(sys.argv[1:])
