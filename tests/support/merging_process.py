"""A process that merges on Spark, and kills itself at a point of the merge; run as a script."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import writing_process
from jvm_calls import jvm_of
from writing_process import TABLE, frame, ids_of, kill, say

import lakeconf
from lakeconf.engines.spark.classic_engine import SparkEngine
from lakeconf.write import strategy as rule
from lakeconf.write.changed_rows import ACTION

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

# Both processes are killed when the first file of a Spark job appears: that of the actions, or the first job that
# writes rows of the table.
JOINING = "executors write the actions"
WRITING = "executors write the rows"


def start(config: dict[str, Any], spark: dict[str, str], number: int, point: str) -> subprocess.Popen[str]:
    """Starts a process that has opened the lake."""
    return writing_process.start(config, spark, __file__, number=number, point=point)


def kill_at(point: str, data: Path, java: int) -> None:
    """Makes this process, and that of Spark with the id `java`, kill themselves at the first arrival at a point."""
    stage_rows, stage_part = SparkEngine.stage_rows, SparkEngine.stage_part

    def staging(self: Any, adopted: Any, request: Any) -> Any:
        if point == JOINING and ACTION in request.types:
            at_new_file(data, lambda: kill_both(java))
        return stage_rows(self, adopted, request)

    def writing(self: Any, *arguments: Any) -> Any:
        if point == WRITING:
            at_new_file(data, lambda: kill_both(java))
        return stage_part(self, *arguments)

    SparkEngine.stage_rows, SparkEngine.stage_part = staging, writing  # type: ignore[method-assign, assignment]
    writing_process.kill_at(point)


def at_new_file(data: Path, strike: Callable[[], None]) -> None:
    """Calls a function in a thread as soon as there is another file of a task."""
    before = set(data.rglob("part-*"))

    def watch() -> None:
        while before >= set(data.rglob("part-*")):
            time.sleep(0.001)
        strike()

    threading.Thread(target=watch, daemon=True).start()


def kill_both(java: int) -> None:
    """Kills Spark's process and this one."""
    os.kill(java, signal.SIGKILL)
    kill()


def main() -> None:
    """Merges as specified in the input line, and prints when it is ready and when it is done."""
    task = json.loads(sys.stdin.readline())
    config, number = task["config"], task["number"]
    rule.MOST_FRAME_BYTES = -1
    spark = lakeconf.spark_session(settings=task["spark"])
    java = jvm_of(spark).java.lang.ProcessHandle.current().pid()
    with lakeconf.init(config).get_store("dev").open(spark) as lake:
        say("ready")
        kill_at(task["point"], Path(config["stores"]["dev"]["storage_backend"]["path"]), java)
        rows = frame(number, ids_of("merge", number))
        lake.table(TABLE).merge(rows, on="id", idempotency_key=str(number))
        say("done")


if __name__ == "__main__":
    main()
