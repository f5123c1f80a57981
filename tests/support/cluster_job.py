"""A driver on a cluster: it writes or reads the table raw.t for each line of its input; run as a script."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from jvm_calls import execution_of
from writing_process import say

import lakeconf

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake

TABLE = "raw.t"
COLUMNS = {"id": "BIGINT", "part": "BIGINT", "value": "VARCHAR"}


def rows(spark: SparkSession, start: int, end: int, value: str = "'v' || id") -> DataFrame:
    """Rows that the executors make, in two tasks."""
    return spark.range(start, end, 1, 2).selectExpr("id", "id % 3 AS part", f"{value} AS value")


def append(spark: SparkSession, lake: Lake, _: str) -> None:
    lake.table(TABLE).append(rows(spark, 0, 60))


def overwrite(spark: SparkSession, lake: Lake, _: str) -> None:
    lake.table(TABLE).overwrite_partitions(rows(spark, 60, 90).where("part = 1"))


def merge(spark: SparkSession, lake: Lake, _: str) -> None:
    lake.table(TABLE).merge(rows(spark, 30, 90, "'merged'"), on="id", engine="spark")


def delete(_: SparkSession, lake: Lake, __: str) -> None:
    lake.table(TABLE).delete("id BETWEEN 20 AND 39", engine="spark")


def scan(_: SparkSession, lake: Lake, __: str) -> object:
    frame: Any = lake.table(TABLE).scan().to_native()
    return _read(frame)


def _read(frame: DataFrame) -> object:
    """Returns the rows and the plan of a frame."""
    plan = execution_of(frame).toString()
    return {"rows": sorted([row.id, row.part, row.value] for row in frame.collect()), "plan": plan}


def stream(spark: SparkSession, lake: Lake, folder: str) -> None:
    """Appends the rows of the files in a folder."""
    source = spark.readStream.schema("id BIGINT, part BIGINT, value STRING").parquet(f"file://{folder}/source")
    writer = source.writeStream.foreachBatch(lake.stream_sink(TABLE))
    writer = writer.option("checkpointLocation", f"file://{folder}/checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination()


def merge_by_name(spark: SparkSession, _: Lake, __: str) -> None:
    rows(spark, 110, 130, "'named'").createOrReplaceTempView("source")
    spark.sql(
        f"MERGE INTO prod.{TABLE} t USING source s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )


def scan_by_name(spark: SparkSession, _: Lake, __: str) -> object:
    return _read(spark.table(f"prod.{TABLE}"))


OPERATIONS: dict[str, Callable[[Any, Lake, str], object]] = {
    one.__name__: one for one in (append, overwrite, merge, delete, scan, stream, merge_by_name, scan_by_name)
}


def main(folder: str, settings: str) -> None:
    """Carries out an operation for each line, and writes its result as JSON."""
    store = lakeconf.init().get_store()
    spark = lakeconf.spark_session(store, settings=json.loads(settings))
    with store.open(spark) as lake:
        lake.create_table(TABLE, COLUMNS, partitioned_by=["part"])
        say("ready")
        for line in sys.stdin:
            say(json.dumps(OPERATIONS[line.strip()](spark, lake, folder)))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
