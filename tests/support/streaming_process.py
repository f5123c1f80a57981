"""A process that copies a table from one lake to another with a streaming query, to be killed; run as a script.

It prints `begin` and `end` of each batch.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from spark_classes import java_options

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame

TABLE = "raw.events"


class StreamingProcess:
    """The process, with its Java process and workers; lakeconf.toml has the stores `source` and `copy`."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            cwd=folder,
            env={**os.environ, "SPARK_SUBMIT_OPTS": java_options()},
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def events(self) -> Iterator[str]:
        """The lines that it prints."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(("begin", "end")):
                yield line.strip()

    def kill(self) -> None:
        """Kills the process and all that it has started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def finish(self) -> int:
        """Waits for its end, and returns its exit code."""
        self._process.communicate()
        return self._process.returncode


def _run() -> None:
    from pyspark.sql import SparkSession

    from lakeconf.engines.spark.java_home import ensure_java

    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder: Any = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    for key, value in {"driver.host": "127.0.0.1", "driver.bindAddress": "127.0.0.1", "log.level": "OFF"}.items():
        builder = builder.config(f"spark.{key}", value)
    spark = builder.getOrCreate()
    with lakeconf.init().get_store("copy").open(spark) as copy:
        sink = copy.stream_sink(TABLE)

        def append(batch: DataFrame, number: int) -> None:
            for word in ("begin", "end"):
                if word == "end":
                    sink(batch, number)
                sys.stdout.write(f"{word} {number}\n")
                sys.stdout.flush()

        stream = spark.readStream.format("lakeconf").option("store", "source").option("table", TABLE)
        stream = stream.option("snapshots_per_batch", 2).load()
        query = stream.writeStream.foreachBatch(append).option("checkpointLocation", "checkpoint")
        query.trigger(availableNow=True).start().awaitTermination()


if __name__ == "__main__":
    _run()
