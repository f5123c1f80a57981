"""The settings of Spark in tests. As a script, writes an archive of its classes: Java then needs half the CPU time.

Usage: python spark_classes.py ARCHIVE
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeconf.engines.spark.java_home import ensure_java

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def spark_settings() -> dict[str, str]:
    """The settings of the session, in addition to its master and its event log.

    The time zone is deliberately not UTC: a value that is converted through the session's zone must not be correct by
    chance.
    """
    return {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        # Each sort and aggregation clears a page, by default 16 MB: these filled the heap, and collecting them took a
        # tenth of the CPU time.
        "spark.buffer.pageSize": "256k",
        "spark.sql.session.timeZone": "America/New_York",
    }


# Compiles fast instead of well: a small query needs a quarter less CPU time. The code of all tests does not fit into
# the 48 MB that Java then reserves for it: Java would drop and compile it again. Spark starts `chmod` for each file
# that it writes: without VFORK, Java starts another program before each of them.
FAST_START = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m -XX:MetaspaceSize=256m "
    "-Djdk.lang.Process.launchMechanism=VFORK"
)


def java_options() -> str:
    """The options of Java processes that run small queries; with the archive of this environment, if it exists."""
    archive = Path(sys.prefix) / "spark-classes.jsa"
    # Java prints a warning to stdout if the archive is of other versions, and then does not use it.
    return f"{FAST_START} -XX:SharedArchiveFile={archive} -Xlog:disable" if archive.exists() else FAST_START


def _queries(spark: SparkSession, folder: Path) -> None:
    """Loads the classes that most tests use."""
    import pyarrow as pa

    rows = spark.createDataFrame(pa.table({"id": [1, 2, 3], "name": ["a", "b", None], "part": [1, 1, 2]}))
    rows.write.partitionBy("part").parquet(str(folder / "rows"))
    read = spark.read.parquet(str(folder / "rows"))
    read.join(rows.groupBy("part").count(), "part").where("id > 1 AND name LIKE 'a%'").orderBy("id").toArrow()
    read.createOrReplaceTempView("rows")
    spark.sql("SELECT DISTINCT id, sum(id) OVER (PARTITION BY part ORDER BY id) FROM rows").collect()
    rows.mapInArrow(lambda batches: batches, rows.schema).collect()
    stream: Any = spark.readStream.schema(read.schema).parquet(str(folder / "rows")).writeStream
    batch = stream.foreachBatch(_collect).option("checkpointLocation", str(folder / "checkpoint"))
    batch.trigger(availableNow=True).start().awaitTermination()


def _collect(batch: DataFrame, _: int) -> None:
    batch.collect()


def _write(archive: Path) -> None:
    ensure_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    unfinished = archive.with_suffix(".unfinished")
    os.environ["SPARK_SUBMIT_OPTS"] = f"{FAST_START} -XX:ArchiveClassesAtExit={unfinished} -Xlog:disable"
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.builder.master("local[2]").config("spark.log.level", "OFF")
    for name, value in spark_settings().items():
        builder = builder.config(name, value)
    with tempfile.TemporaryDirectory() as folder:
        spark = builder.getOrCreate()
        _queries(spark, Path(folder))
        gateway = spark.sparkContext._gateway
        spark.stop()
    # Java exits, and writes the archive, when its input is closed.
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
    unfinished.replace(archive)


if __name__ == "__main__":
    _write(Path(sys.argv[1]))
