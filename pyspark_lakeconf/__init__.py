"""The data source `lakeconf` for Spark: `spark.read.format("lakeconf")`.

Spark imports every module named `pyspark_…` when a session first looks for a data source. Therefore, this module
imports the rest of lakeconf only when the data source is used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["DefaultSource"]


class DefaultSource(DataSource):
    """A table of a lake. Its options are those of `lakeconf.datasource.options`."""

    _resolved: tuple[StructType, int] | None = None

    @classmethod
    def name(cls) -> str:
        return "lakeconf"

    def schema(self) -> StructType:
        return self._resolve()[0]

    def reader(self, schema: StructType) -> DataSourceReader:
        found, snapshot_id = self._resolve()
        _check_schema(schema, found)
        return Reader(dict(self.options), schema, snapshot_id)

    def _resolve(self) -> tuple[StructType, int]:
        """The schema and the snapshot; Spark keeps this object, so that a frame has one snapshot."""
        from lakeconf.datasource.options import any_options
        from lakeconf.datasource.planning import resolve
        from lakeconf.engines.spark.types import spark_schema

        if self._resolved is None:
            columns, snapshot_id = resolve(any_options(self.options))
            self._resolved = spark_schema(columns), snapshot_id
        return self._resolved


class Reader(DataSourceReader):
    """Reads a table at one snapshot.

    It has no `pushFilters`: Spark 4.3 keeps one plan of partitions for a frame. After a query with filters, all other
    queries of the frame would lose the rows that these filters exclude, even a UNION of two conditions.

    Args:
        options: The options.
        schema: The schema.
        snapshot_id: The snapshot.
    """

    def __init__(self, options: dict[str, str], schema: StructType, snapshot_id: int) -> None:
        self._options, self._schema, self._snapshot_id = options, schema, snapshot_id

    def partitions(self) -> Sequence[InputPartition]:
        from lakeconf.datasource.options import read_options
        from lakeconf.datasource.planning import plan

        return _partitions(plan(read_options(self._options), self._snapshot_id))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _read(partition, self._schema)


def _partitions(parts: Sequence[Any]) -> list[InputPartition]:
    return [InputPartition(part) for part in parts] or [InputPartition(None)]


def _read(partition: InputPartition, schema: StructType) -> Iterator[pa.RecordBatch]:
    from lakeconf.datasource.reading import read_part
    from lakeconf.engines.spark.types import arrow_schema

    return iter(()) if partition.value is None else read_part(partition.value, arrow_schema(schema))


def _check_schema(given: StructType, found: StructType) -> None:
    from lakeconf.errors import SchemaError

    if given != found:
        raise SchemaError(
            "the data source has the schema of the table, and the read has another one",
            hint="remove .schema(…), and select or cast columns after .load()",
        )
