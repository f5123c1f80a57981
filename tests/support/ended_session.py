"""A process whose Spark session ends during a write: `python ended_session.py FOLDER`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from local_stores import store_of
from pyspark.sql import SparkSession
from spark_session import spark_settings

from lakeconf.engines.spark.start import ensure_java
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from collections.abc import Iterator


def main(folder: Path) -> None:
    ensure_java()
    builder = SparkSession.builder.master("local[2]")
    for name, value in spark_settings().items():
        builder = builder.config(name, value)
    spark = builder.config("spark.sql.warehouse.dir", f"{folder}/warehouse").getOrCreate()
    virtual_machine: Any = spark._jvm
    jvm = int(virtual_machine.java.lang.ProcessHandle.current().pid())

    def kill(batches: Iterator[Any]) -> Iterator[Any]:
        os.kill(jvm, signal.SIGKILL)
        yield from batches

    rows = spark.range(4).mapInArrow(kill, "id BIGINT")
    with store_of(folder).open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
    with store_of(folder).open(spark) as lake:
        try:
            lake.table("t").merge(rows, on="id", engine="spark")
        except LakeconfError as error:
            sys.stdout.write(f"{type(error).__name__}|{error.message}|{error.hint}\n")
            sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
