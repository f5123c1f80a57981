"""Streams the files of the landing zone into the lake with Spark: each batch is one snapshot, and is written once.

It stops after all available files; with `processingTime="1 minute"` instead of `availableNow` it keeps running. After
a restart its checkpoint skips the files that were already processed.
"""

from __future__ import annotations

import os
from pathlib import Path

import lakeconf

HERE = Path(__file__).parent
COLUMNS = {"event_id": "BIGINT", "event_type": "VARCHAR", "event_timestamp": "TIMESTAMP", "details": "VARCHAR"}
SCHEMA = "event_id BIGINT, event_type STRING, event_timestamp TIMESTAMP_NTZ, details STRING"


def main() -> None:
    os.chdir(HERE)
    store = lakeconf.init().get_store("lake")
    spark = lakeconf.spark_session(store)
    with store.open(spark) as lake:
        if "streamed.events" not in lake.tables():
            lake.create_table("streamed.events", COLUMNS)
        before = lake.snapshot_id
        stream = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(HERE / "landing"))
        writer = stream.writeStream.foreachBatch(lake.stream_sink("streamed.events"))
        writer.option("checkpointLocation", str(HERE / ".lakeconf" / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
    with store.open() as lake:
        rows = lake.table("streamed.events").scan().collect().shape[0]
        print(f"{rows} events after {lake.snapshot_id - before} batches")


if __name__ == "__main__":
    main()
