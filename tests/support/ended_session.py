"""A process whose Spark session ends: `python ended_session.py during-a-write|stopped|killed FOLDER`.

It prints a line for each operation: its name, the class, message and hint of its error.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jvm_calls import jvm_of
from local_stores import store_of
from pyspark.sql import SparkSession
from spark_classes import spark_settings

from lakeconf.engines.spark.java_home import ensure_java
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakeconf.lake.lake import Lake


def show(name: str, operation: Callable[[], object]) -> None:
    try:
        found = f"returned {operation()!r}"
    except LakeconfError as error:
        found = f"{type(error).__name__}|{error.message}|{error.hint}"
    except BaseException as error:  # noqa: BLE001 - the test fails for any other class
        found = f"{type(error).__name__}|{error}"
    sys.stdout.write(f"{name}|{' '.join(found.split())}\n")
    sys.stdout.flush()


def operations(lake: Lake, rows: Any) -> dict[str, Callable[[], object]]:
    """What a lake that is open on Spark does with Spark."""
    table, given = lake.table("t"), [{"id": 1}]
    return {
        "scan": table.scan,
        "scan where": lambda: table.scan(where="id = 1"),
        "changes": lambda: table.changes(1),
        "explain": table.explain,
        "to_arrow": table.to_arrow,
        "create_table": lambda: lake.create_table("u", rows),
        "append": lambda: table.append(rows),
        "append rows": lambda: table.append(given, engine="spark"),
        "overwrite": lambda: table.overwrite(rows),
        "merge": lambda: table.merge(rows, "id"),
        "merge rows": lambda: table.merge(given, "id", engine="spark"),
        "update": lambda: table.update({"id": 2}, "id = 1", engine="spark"),
        "delete": lambda: table.delete("id = 1", engine="spark"),
    }


def main(when: str, folder: Path) -> None:
    ensure_java()
    settings: dict[str, Any] = spark_settings() | {"spark.sql.warehouse.dir": f"{folder}/warehouse"}
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    virtual_machine: Any = jvm_of(spark)
    jvm = int(virtual_machine.java.lang.ProcessHandle.current().pid())

    def kill(batches: Iterator[Any]) -> Iterator[Any]:
        os.kill(jvm, signal.SIGKILL)
        yield from batches

    rows = spark.range(4)
    with store_of(folder).open() as lake:
        lake.create_table("t", {"id": "BIGINT"}).append([{"id": 1}])
    with store_of(folder).open(spark) as lake:
        if when == "during-a-write":
            rows = rows.mapInArrow(kill, "id BIGINT")
            show("merge", partial(lake.table("t").merge, rows, on="id", engine="spark"))
            os._exit(0)
        if when == "stopped":
            spark.stop()
        else:
            os.kill(jvm, signal.SIGKILL)
            while Path(f"/proc/{jvm}/cmdline").is_file() and Path(f"/proc/{jvm}/cmdline").read_bytes():
                time.sleep(0.01)
        for name, operation in operations(lake, rows).items():
            show(name, operation)
        show("open", lambda: store_of(folder).open(spark))
        show("rows", lambda: lake.sql("SELECT count(*) FROM t").collect().rows())
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
