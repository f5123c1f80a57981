"""Interrupting a Spark write cancels its jobs, removes its files and leaves the lake usable."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession


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


@pytest.mark.parametrize("operation", ["append", "merge"])
def test_interrupted_write_cancels_its_spark_jobs(
    operation: str, project: Path, spark: SparkSession, interrupt: str
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
        assert {path for path in project.rglob("*") if path.is_dir()} == before
        assert len([*project.rglob("*.parquet")]) == files
        # The response to the interrupted call must not be read as the response to the next call.
        assert spark.range(7).count() == 7
        table.append(spark.range(10, 12))
        assert sorted(row["id"] for row in table.scan().collect().iter_rows(named=True)) == [0, 1, 2, 10, 11]
