"""The sink of a Structured Streaming query."""

from __future__ import annotations

import re
from typing import Any

from lakeconf.commit.scope import Scope
from lakeconf.engines.engine import spark_operations
from lakeconf.errors import LakeconfError, UnsupportedError
from lakeconf.lake.table import Table

_QUERY_ID = "sql.streaming.queryId"


class StreamSink:
    """Appends the batches of a stream to a table exactly once; pass it to `foreachBatch`.

    Spark repeats a batch if it does not know that the batch was completed. The idempotency key of an append therefore
    contains the query and the batch number. Spark counts batches per checkpoint, so a named query with another
    checkpoint is refused: its batch 0 contains other rows than the batch 0 that was written before.

    Args:
        table: The table.
        query: The name of the query; None to use Spark's query id, which is stored in the checkpoint.
    """

    def __init__(self, table: Table, query: str | None = None) -> None:
        self._table = table
        self._query = query
        self._checked: set[str] = set()

    def __call__(self, batch: Any, batch_id: int) -> None:
        """Appends a batch."""
        query_id = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        query = self._query or query_id
        if self._query and query_id:
            self._check_checkpoint(query_id, batch_id)
            query = f"{self._query} query {query_id}"
        if query is None:
            raise LakeconfError(
                "the batch does not belong to a streaming query", hint="name a query: lake.stream_sink(table, query=…)"
            )
        self._table.append(batch, idempotency_key=f"stream {query} batch {batch_id}")

    def _check_checkpoint(self, query_id: str, batch_id: int) -> None:
        """Rejects a batch if the query has written from another checkpoint: its numbers mean other rows."""
        if query_id in self._checked:
            return
        written = re.compile(rf"stream {re.escape(self._query or '')} query (\S+) batch \d+")
        for key in self._table.idempotency_keys(f"stream {self._query} "):
            match = written.fullmatch(key)
            if match and match[1] != query_id:
                raise LakeconfError(
                    f"the query {self._query!r} has written to {self._table.name} from another checkpoint, so it is "
                    f"unknown which rows of batch {batch_id} were already written: nothing was written",
                    hint="restore the checkpoint; or compare the source with the table, and give the query a new name: "
                    "lake.stream_sink(table, query=…)",
                )
        self._checked.add(query_id)


def stream(scope: Scope, table: str, since: int | None, snapshots_per_batch: int | None, *, changes: bool) -> Any:
    """A streaming frame of a table; see `Lake.stream`."""
    session, operations = scope.session, spark_operations(scope.session.engine, "a stream")
    if session.config is None:
        raise UnsupportedError(
            f"the store {session.store!r} is not declared in a file, from which Spark's processes can read it",
            hint="declare the store in lakeconf.toml",
        )
    if scope.is_pinned:
        raise LakeconfError(
            "a stream follows the newest snapshot, and this lake stays at one",
            hint="call stream on the lake itself, with since=… for the changes of older snapshots",
        )
    options = {"table": table, "store": session.store, "config": session.config, "changes": str(changes).lower()}
    numbers = {"since": since, "snapshots_per_batch": snapshots_per_batch}
    return operations.stream(options | {name: str(value) for name, value in numbers.items() if value is not None})
