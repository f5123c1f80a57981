"""A Spark job in which some tasks fail or are slow at first; run as a script, with a separate session."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakeconf
from lakeconf.engines.spark.start import spark_session
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake

ROWS = 4000
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    # Small batches, so that the writer has started files when a task fails.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
}


def run(**task: Any) -> dict[str, dict[str, Any]]:
    """Runs operations in a separate process, and returns the result of each."""
    done = subprocess.run([sys.executable, __file__, json.dumps(task)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def failing(attempts: int) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the rows unchanged, but the first attempts of a task fail after the last row."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context is not None and context.partitionId() == 0 and context.attemptNumber() < attempts:
            raise RuntimeError("this task was made to fail")

    return rows


def slow(folder: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Returns the rows unchanged, but the first attempt of a task ends only after a second one has started."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        yield from batches
        if context is not None and context.partitionId() == 0:
            _await_second(context.attemptNumber(), folder)

    return rows


def waiting(attempts: int, folder: str) -> Callable[[int], int]:
    """Returns an id unchanged, but the first attempts of the task with the last id fail, or wait for a second one."""

    def same(value: int) -> int:
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and value == ROWS - 1:
            if folder:
                _await_second(context.attemptNumber(), folder)
            elif context.attemptNumber() < attempts:
                raise RuntimeError("this task was made to fail")
        return value

    return same


def _await_second(attempt: int, folder: str) -> None:
    second = Path(folder, "second")
    if attempt > 0:
        second.touch()
    deadline = time.monotonic() + 60
    while not second.exists() and time.monotonic() < deadline:
        time.sleep(0.05)


def _frame(spark: SparkSession, task: dict[str, Any]) -> DataFrame:
    ids = spark.range(0, ROWS, 1, 4).selectExpr("id", "id * 2 AS twice")
    function = slow(task["folder"]) if task.get("slow") else failing(task["attempts"])
    return ids.mapInArrow(function, ids.schema)


def main(task: dict[str, Any]) -> None:
    store = lakeconf.init(task["config"]).get_store("dev")
    session = spark_session(store, settings={**_SETTINGS, **task["settings"]})
    with store.open(session) as lake:
        found = {
            name: _stated(lake, session, name, given)
            if "statement" in given
            else _done(lake, name, _frame(session, {**task, **given}))
            for name, given in task["tables"].items()
        }
    sys.stdout.write(json.dumps(found) + "\n")


def _done(lake: Lake, name: str, frame: DataFrame) -> dict[str, Any]:
    """Runs an operation, the first word of the table's name; returns its result and the state of the table."""
    table = lake.create_table(f"raw.{name}", {"id": "BIGINT", "twice": "BIGINT"})
    operation = name.partition("_")[0]
    before, error = lake.snapshot_id, None
    try:
        if operation == "merge":
            table.merge(frame, on="id")
        else:
            getattr(table, operation)(frame)
    except LakeconfError as caught:
        error = [type(caught).__name__, caught.message]
    after = lake.refresh()
    native: Any = lake.sql(f"SELECT count(*), count(DISTINCT id), sum(twice) FROM {table.name}").to_native()
    listed: Any = lake.sql(f"SELECT data_file FROM ducklake_list_files('dev', '{name}', schema => 'raw')").to_native()
    files = sorted(path for (path,) in listed.fetchall())
    return {"error": error, "snapshots": after - before, "rows": list(native.fetchone()), "listed": files}


def _stated(lake: Lake, spark: SparkSession, name: str, task: dict[str, Any]) -> dict[str, Any]:
    """Runs a statement by name on a table with half of the rows; returns its error, and the state of the lake."""
    from pyspark.errors import PySparkException

    table = lake.create_table(f"raw.{name}", {"id": "BIGINT", "twice": "BIGINT"})
    table.append(spark.range(ROWS // 2, ROWS, 1, 4).selectExpr("id", "0 AS twice"))
    spark.range(0, ROWS, 1, 4).selectExpr("id", "id * 2 AS twice").createOrReplaceTempView("source")
    spark.udf.register("waiting", waiting(task.get("attempts", 0), task.get("folder", "")), "long")
    before, error = lake.snapshot_id, None
    try:
        spark.sql(task["statement"].format(t=f"dev.raw.{name}"))
    except PySparkException as caught:
        error = str(caught)
    after = lake.refresh()
    native: Any = lake.sql(f"SELECT count(*), count(DISTINCT id), sum(twice) FROM {table.name}").to_native()
    orphans = lake.maintenance.plan_cleanup(older_than=timedelta(), force=True).paths
    return {
        "error": error,
        "snapshots": after - before,
        "rows": list(native.fetchone()),
        "orphans": list(orphans),
    }


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
