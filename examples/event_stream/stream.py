"""The files of the landing zone as a stream of Spark into the lake: each batch is one snapshot, and is there once.

It ends when all files are done; with `processingTime="1 minute"` in place of `availableNow` it goes on. Started again,
it takes new files alone, by its checkpoint.
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
