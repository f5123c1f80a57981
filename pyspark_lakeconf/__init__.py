"""The data source `lakeconf` for Spark: `spark.read.format("lakeconf")`.

Spark imports every module named `pyspark_…` when a session first looks for a data source. Therefore, this module
imports the rest of lakeconf only when the data source is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DefaultSource"]

# The columns of a stream of all changes before those of the table, as in `Table.changes`.
_KEY = [
    StructField("snapshot_id", LongType()),
    StructField("rowid", LongType()),
    StructField("change_type", StringType()),
]


class DefaultSource(DataSource):
    """A table of a lake. Its options are those of `lakeconf.datasource.planning`."""

    _resolved: tuple[Any, int] | None = None

    @classmethod
    def name(cls) -> str:
        return "lakeconf"

    def schema(self) -> StructType:
        from lakeconf.datasource.planning import options_of
        from lakeconf.engines.spark.spark_types import spark_schema

        schema = spark_schema(self._resolve()[0])
        if not options_of(self.options, "a read or a stream").changes:
            return schema
        return StructType([*_KEY, *schema.fields])

    def reader(self, schema: StructType) -> DataSourceReader:
        _check_schema(schema, self.schema())
        return Reader(dict(self.options), schema, self._resolve()[1])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        from lakeconf.engines.spark.versions import check_streams

        check_streams()
        from pyspark_lakeconf.streaming import StreamReader

        _check_schema(schema, self.schema())
        return StreamReader(dict(self.options), schema, self._resolve()[0])

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:  # noqa: FBT001 - Spark's signature
        from lakeconf.datasource.planning import options_of
        from lakeconf.datasource.writing import begin
        from lakeconf.engines.spark.spark_types import duckdb_types

        return Writer(begin(options_of(self.options, "a write"), duckdb_types(schema), overwrite=overwrite))

    def _resolve(self) -> tuple[Any, int]:
        """The columns and the snapshot; Spark keeps this object, so that a frame has one snapshot."""
        from lakeconf.datasource.planning import options_of, resolve

        if self._resolved is None:
            self._resolved = resolve(options_of(self.options, "a read or a stream"))
        return self._resolved


class Reader(DataSourceReader):
    """Reads a table at one snapshot.

    It has no `pushFilters`: Spark 4.3 keeps one plan of partitions for a frame. After a query with filters, all other
    queries of the frame would lose the rows that these filters exclude, even a UNION of two conditions.
    """

    def __init__(self, options: dict[str, str], schema: StructType, snapshot_id: int) -> None:
        self._options, self._schema, self._snapshot_id = options, schema, snapshot_id

    def partitions(self) -> Sequence[InputPartition]:
        from lakeconf.datasource.planning import options_of, plan

        return partitions_of(plan(options_of(self._options, "a read"), self._snapshot_id))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self._schema)


@dataclass
class Written(WriterCommitMessage):
    """The file of a task."""

    path: str | None  # None if the task had no rows


class Writer(DataSourceArrowWriter):
    """Appends the rows of a frame, or replaces those of the table."""

    def __init__(self, write: Any) -> None:
        self._write = write  # a `lakeconf.datasource.writing.Write`

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Written:
        from lakeconf.datasource.writing import write_rows

        return Written(write_rows(self._write, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        from lakeconf.datasource.writing import commit

        paths = [message.path for message in messages if isinstance(message, Written)]
        commit(self._write, [path for path in paths if path is not None])

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - Spark's signature
        from lakeconf.datasource.writing import abort

        abort(self._write)


def partitions_of(parts: Sequence[Any]) -> list[InputPartition]:
    return [InputPartition(part) for part in parts] or [InputPartition(None)]


def rows_of(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    from lakeconf.engines.spark.read.parts import read_part
    from lakeconf.engines.spark.versions import arrow_schema

    return iter(()) if partition.value is None else read_part(partition.value, arrow_schema(schema))


def _check_schema(requested: StructType, actual: StructType) -> None:
    from lakeconf.errors import SchemaError

    if requested != actual:
        raise SchemaError(
            "the data source has the schema of the table, and the read has another one",
            hint="remove .schema(…), and select or cast columns after .load()",
        )
