"""The sink of a Structured Streaming query."""

from __future__ import annotations

import re
from typing import Any

from lakeconf.errors import LakeconfError
from lakeconf.lake.table import Table

_QUERY_ID = "sql.streaming.queryId"


class StreamSink:
    """Appends the batches of a stream to a table, each once: give it to `foreachBatch`.

    Spark runs a batch again when it does not know that it ended. The query and the number of the batch are therefore
    the idempotency key of its append. Spark counts batches per checkpoint. A query with a name is therefore refused
    when it runs with another checkpoint: its batch 0 has other rows than the batch 0 that was written before.

    Args:
        table: The table.
        query: The name of the query; None to go by Spark's own id of the query, which the checkpoint holds.
    """

    def __init__(self, table: Table, query: str | None = None) -> None:
        self._table = table
        self._query = query
        self._checked: set[str] = set()

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Appends a batch.

        Args:
            batch: Its rows, a frame of Spark.
            batch_id: Its number, which Spark counts per checkpoint.

        Raises:
            SchemaError: The rows do not fit the table.
            CommitError: Nothing was written.
            LakeconfError: The query has no name and no id, or has written to the table from another checkpoint.
        """
        found = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        query = self._query or found
        if self._query and found:
            if self._is_written(found, batch_id):
                return
            query = f"{self._query} query {found}"
        if query is None:
            raise LakeconfError(
                "the batch belongs to no streaming query", hint="name one: lake.stream_sink(table, query=…)"
            )
        self._table.append(batch, idempotency_key=f"stream {query} batch {batch_id}")

    def _is_written(self, query_id: str, batch_id: int) -> bool:
        """True if an early version of lakeconf wrote the batch: its keys have the query's name and no id.

        Raises:
            LakeconfError: The batches that this query has written to the table are of another checkpoint.
        """
        if query_id in self._checked:
            return False
        written = re.compile(rf"stream {re.escape(self._query or '')} (?:query (?P<id>\S+) )?batch (?P<number>\d+)")
        keys = self._table.idempotency_keys(f"stream {self._query} ")
        for key in keys:
            match = written.fullmatch(key)
            if match and (match["id"] != query_id if match["id"] else int(match["number"]) > batch_id):
                raise LakeconfError(
                    f"the query {self._query!r} has written to {self._table.name} from another checkpoint, so batch "
                    f"{batch_id} may hold rows that were written before, or rows that were not: nothing was written",
                    hint="restore the checkpoint; or compare the source with the table, and give the query a new name: "
                    "lake.stream_sink(table, query=…)",
                )
        self._checked.add(query_id)
        return f"stream {self._query} batch {batch_id}" in keys
