"""Reads a part of a plan inside an executor, with DuckDB."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from lakeconf.catalog.partial_lake import attach_partial_lake
from lakeconf.catalog.predicate.nodes import to_duckdb_sql
from lakeconf.catalog.scan import ScanPlan
from lakeconf.connection.connection import Connection
from lakeconf.datasource.change_rows import ALL, changes_sql
from lakeconf.datasource.parts import Files, Part, Rows
from lakeconf.engines.spark.types import exact_cast
from lakeconf.sql import identifier

_ROWS = 10_000


def read_part(part: Part, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a part.

    Args:
        part: The part.
        schema: The Arrow schema that Spark expects.

    Raises:
        StorageError: A file is missing or damaged.
        LakeconfError: DuckDB cannot read a value as Spark's type.
    """
    if isinstance(part, Rows):
        with pa.ipc.open_stream(part.stream) as stream:
            yield from conforming(stream, schema)
        return
    with part.access.connect() as connection:
        if isinstance(part, Files):
            query = scan_sql(part.plan, attach_partial_lake(connection, "part", part.plan))
        else:
            query = changes_sql(connection, part)
        yield from fetched(connection, query, schema)


def scan_sql(plan: ScanPlan, source: str) -> str:
    """The query for the rows of a plan, with the types of Spark."""
    values = ", ".join(
        f"{exact_cast(identifier(column.name), column)} AS {identifier(column.name)}" for column in plan.columns
    )
    condition = to_duckdb_sql(plan.predicate) if plan.predicate else "true"
    return f"SELECT {values} FROM (FROM {source} LIMIT {ALL}) WHERE {condition}"


def fetched(connection: Connection, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a query in batches.

    The whole result exists before its first row is returned: it may be larger than the memory, and an error after some
    rows would be an error of Arrow without a class.
    """
    connection.execute(f"CREATE OR REPLACE TEMP TABLE result AS {query}")
    yield from conforming(connection.batches("FROM temp.main.result", _ROWS), schema)


def conforming(batches: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Batches with the schema that Spark expects; Spark itself only checks the first one."""
    for batch in batches:
        yield from pa.Table.from_batches([batch]).cast(schema).to_batches()


def stream_of(rows: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())
