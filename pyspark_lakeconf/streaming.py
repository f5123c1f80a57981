"""Streams of the changes of a table, for `spark.readStream.format("lakeconf")`: from Spark 4.2."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxFiles, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pyspark_lakeconf import rows_of

if TYPE_CHECKING:
    import pyarrow as pa


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads the changes of a table: of its columns, with the schema of the stream."""

    def __init__(self, options: dict[str, str], schema: StructType, columns: Any) -> None:
        from lakeconf.datasource.planning import options_of

        self._options, self._schema, self._columns = options_of(options, "a streaming read"), schema, columns
        self._target: int | None = None

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        from lakeconf.datasource.stream_reader import initial_offset

        return initial_offset(self._options)

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - Spark's name
        # Spark has no limit of snapshots; it only hands the limit back.
        limit = self._options.snapshots_per_batch
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802 - Spark's name
        from lakeconf.datasource.stream_reader import latest_offset

        most = limit.max_files if isinstance(limit, ReadMaxFiles) else None
        return latest_offset(self._options, self._columns, start, most, self._target)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        from lakeconf.datasource.planning import resolve

        self._target = resolve(self._options)[1]

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        from lakeconf.datasource.stream_reader import batch

        return [InputPartition(part) for part in batch(self._options, self._columns, start, end)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return rows_of(partition, self._schema)
