"""Spark tasks that are retried, run twice, fail or are interrupted write once or nothing; the driver's memory."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest
from local_stores import config_of
from retrying_job import ROWS, run
from spark_classes import java_options

import lakeconf
from lakeconf.ducklake import MARKER
from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


HOSTS = ("127.0.0.2", "127.0.0.3")
ALL = [ROWS, ROWS, ROWS * (ROWS - 1)]


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    return config_of(tmp_path)


def files(folder: Path) -> list[str]:
    return sorted(str(path) for path in (folder / "data").rglob("*") if path.is_file() and path.name != MARKER)


@pytest.mark.slow
def test_retried_tasks_write_once_and_failed_jobs_write_nothing(config: dict[str, Any], tmp_path: Path) -> None:
    settings = {"spark.master": "local[2,3]"}
    retried = {name: {"attempts": 1} for name in ("append_retried", "merge_retried")}
    failing = {name: {"attempts": 9} for name in ("append_failing", "overwrite_failing", "merge_failing")}
    done = run(config=config, tables=retried | failing, settings=settings)
    for name in retried:
        found = done[name]
        assert (found["error"], found["snapshots"], found["rows"]) == (None, 1, ALL)
        assert found["listed"] != []
    for name in failing:
        found = done[name]
        reason = "the Spark job that writes the rows failed: RuntimeError: this task was made to fail"
        assert found["error"] == ["SparkError", reason]
        assert (found["snapshots"], found["rows"], found["listed"]) == (0, [0, 0, None], [])
    assert files(tmp_path) == sorted(path for found in done.values() for path in found["listed"])


# Statements on a table with the upper half of the rows, whose values are 0: the numbers of rows and ids after it, and
# the sum of the values.
HALF = ROWS // 2
STATEMENTS = {
    "INSERT INTO {t} SELECT waiting(id), twice FROM source WHERE id % 2 = 1": [ROWS, HALF + ROWS // 4, HALF * HALF * 2],
    "INSERT OVERWRITE {t} SELECT waiting(id), twice FROM source": ALL,
    "CREATE OR REPLACE TABLE {t} AS SELECT waiting(id) AS id, twice FROM source": ALL,
    "UPDATE {t} SET twice = waiting(id) * 2": [HALF, HALF, HALF * (3 * HALF - 1)],
    "DELETE FROM {t} WHERE waiting(id) % 4 = 1": [HALF * 3 // 4, HALF * 3 // 4, 0],
    "MERGE INTO {t} t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET twice = waiting(t.id) * 2 "
    "WHEN NOT MATCHED THEN INSERT *": ALL,
    "MERGE INTO {t} t USING (SELECT waiting(id) AS id, twice FROM source) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *": ALL,
}


@pytest.mark.slow
def test_a_statement_by_name_whose_task_is_retried_writes_once(config: dict[str, Any]) -> None:
    settings = {"spark.master": "local[2,3]"}
    tables: dict[str, dict[str, Any]] = {
        f"{kind}_{number}": {"statement": statement, "attempts": attempts}
        for number, statement in enumerate(STATEMENTS)
        for kind, attempts in (("retried", 1), ("failing", 9))
        if kind == "retried" or number % 3 == 0
    }
    done = run(config=config, tables=tables, settings=settings)
    for name, found in done.items():
        statement = tables[name]["statement"]
        if name.startswith("retried"):
            assert (found["error"], found["snapshots"]) == (None, 1), statement
            assert found["rows"] == STATEMENTS[statement], statement
        else:
            assert "SparkError: the Spark job" in found["error"], statement
            assert "this task was made to fail" in found["error"], statement
            assert (found["snapshots"], found["rows"]) == (0, [HALF, HALF, 0]), statement
        assert found["orphans"] == [], statement


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[str]:
    """A cluster of two hosts; Spark runs a speculative copy of a task only on another host."""
    ensure_java()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url, deploy = f"spark://127.0.0.1:{port}", "org.apache.spark.deploy"
    master = [f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    worker = [f"{deploy}.worker.Worker", url, "--cores", "2", "--memory", "1g", "--webui-port", "0"]
    commands = [master, *([*worker, "--host", host, "--work-dir", str(tmp_path / host)] for host in HOSTS)]
    spark_class = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = os.environ | {
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_JAVA_OPTS": java_options(),
    }
    with contextlib.ExitStack() as stack:
        for command in commands:
            process = subprocess.Popen(
                [spark_class, *command], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            stack.callback(process.wait)
            stack.callback(process.terminate)
        yield url


@pytest.mark.slow
def test_speculative_task_writes_once(config: dict[str, Any], tmp_path: Path, cluster: str) -> None:
    settings = {
        "spark.master": cluster,
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "1g",
        "spark.executor.cores": "2",
        "spark.executor.extraJavaOptions": java_options(),
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "50ms",
    }
    update = "UPDATE {t} SET twice = waiting(id) * 2"
    by_name = tmp_path / "by_name"
    by_name.mkdir()
    tables = {"append": {"slow": True}, "updated": {"statement": update, "folder": str(by_name)}}
    done = run(config=config, folder=str(tmp_path), tables=tables, settings=settings)
    assert (tmp_path / "second").exists()
    assert (by_name / "second").exists()
    found = done["append"]
    assert (found["error"], found["snapshots"], found["rows"]) == (None, 1, ALL)
    assert [path for path in files(tmp_path) if "/append/" in path] == found["listed"] != []
    # A task that loses may write until after the commit: `maintain` removes such a file.
    assert done["updated"] | {"orphans": []} == {
        "error": None,
        "snapshots": 1,
        "rows": STATEMENTS[update],
        "orphans": [],
    }


JOB = """
import json, resource, sys
import lakeconf
from lakeconf.engines.spark.start import spark_session

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

store = lakeconf.init(json.loads(sys.argv[1])).get_store("dev")
settings = {"spark.master": "local[2]", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
session = spark_session(store, settings=settings)
found = []
with store.open(session) as lake:
    for count in (10_000, 600_000):
        frame = session.range(0, count, 1, 4).selectExpr("id", "sha2(CAST(id AS STRING), 256) AS text")
        table = lake.create_table(f"raw.t{count}", frame)
        table.append(frame)
        table.overwrite(frame)
        table.delete(f"id < {count // 2}")
        found.append([table.scan().to_native().count(), peak()])
print(json.dumps(found))
"""
MEBIBYTES = 40


@pytest.mark.slow
def test_driver_memory_is_constant_with_sixty_times_the_rows(tmp_path: Path) -> None:
    job = [sys.executable, "-c", JOB, json.dumps(config_of(tmp_path))]
    done = subprocess.run(job, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (few, before), (many, after) = json.loads(done.stdout.splitlines()[-1])
    assert (few, many) == (5_000, 300_000)
    # Collecting the rows on the driver would take more than this.
    assert after - before < MEBIBYTES


def endless(started: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """A function for `mapInArrow` that touches the file `started` and then yields rows forever."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            Path(started).touch()
            while True:
                time.sleep(0.05)
                yield batch.slice(0, 1)

    return rows


@pytest.fixture
def interrupt(tmp_path: Path) -> Iterator[str]:
    """The path of a file; when it is created, a signal raises KeyboardInterrupt in this process."""
    started, done = tmp_path / "started", threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            if started.exists():
                os.kill(os.getpid(), signal.SIGUSR1)
                return

    def raising(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, raising)
    thread = threading.Thread(target=watch)
    thread.start()
    yield str(started)
    done.set()
    thread.join()
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.slow
@pytest.mark.prove("merge")
@pytest.mark.parametrize("operation", ["append", "merge"])
def test_interrupted_write_cancels_its_spark_jobs(
    operation: str, project: Path, spark: SparkSession, interrupt: str, caplog: pytest.LogCaptureFixture
) -> None:
    with lakeconf.init().get_store().open(spark) as lake:
        table = lake.create_table("raw.t", {"id": "BIGINT"})
        table.append(spark.range(3))
        before = {path for path in project.rglob("*") if path.is_dir()}
        files = len([*project.rglob("*.parquet")])
        frame = spark.range(100, 200, 1, 2).mapInArrow(endless(interrupt), "id long")
        with pytest.raises(KeyboardInterrupt):
            table.append(frame) if operation == "append" else table.merge(frame, on="id")
        assert spark.sparkContext.statusTracker().getActiveJobsIds() == []
        assert "interrupted: cancelling the Spark jobs of the write " in caplog.text
        assert {path for path in project.rglob("*") if path.is_dir()} == before
        assert len([*project.rglob("*.parquet")]) == files
        # The response to the interrupted call must not be read as the response to the next call.
        assert spark.range(7).count() == 7
        table.append(spark.range(10, 12))
        assert sorted(row["id"] for row in table.scan().collect().iter_rows(named=True)) == [0, 1, 2, 10, 11]
