"""The sink of a Structured Streaming query."""

from __future__ import annotations

from typing import Any

from lakeconf.errors import LakeconfError
from lakeconf.table import Table

_QUERY_ID = "sql.streaming.queryId"


class StreamSink:
    """Appends the batches of a stream to a table, each once: give it to `foreachBatch`.

    Spark runs a batch again when it does not know that it ended. The query and the number of the batch are therefore
    the idempotency key of its append.

    Args:
        table: The table.
        query: The name of the query; Spark's own id of it where None.
    """

    def __init__(self, table: Table, query: str | None = None) -> None:
        self._table = table
        self._query = query

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Appends a batch.

        Args:
            batch: Its rows, a frame of Spark.
            batch_id: Its number, which Spark counts per checkpoint.

        Raises:
            SchemaError: The rows do not fit the table.
            CommitError: Nothing was written.
        """
        query = self._query or batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        if query is None:
            raise LakeconfError(
                "the batch belongs to no streaming query", hint="name one: lake.stream_sink(table, query=…)"
            )
        self._table.append(batch, idempotency_key=f"stream {query} batch {batch_id}")
