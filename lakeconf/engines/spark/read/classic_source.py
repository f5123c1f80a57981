"""Reads the files of a scan in a private session of a classic application, with Spark's own calls in the JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeconf.catalog.data_file import DataFile
from lakeconf.engines.spark.internals import Columns
from lakeconf.engines.spark.read.bitmap import bitmap_condition
from lakeconf.engines.spark.read.footers import Stored, footers
from lakeconf.engines.spark.read.guards import check_types, file_number, of_file
from lakeconf.engines.spark.read.relation import File, relation
from lakeconf.engines.spark.session import without_pushdown

# Since this version, Spark keeps a struct that is not NULL even if the file lacks all its requested fields.
_KEEPS_STRUCTS = (4, 1)


class ClassicSource:
    """Finds columns by field id.

    Args:
        private: The session that fixes the settings of the readers.
    """

    by_name = False
    most_files: int | None = None

    def __init__(self, private: SparkSession) -> None:
        self.session = private
        self.keeps_structs = tuple(map(int, private.version.split(".")[:2])) >= _KEEPS_STRUCTS
        self._columns = Columns(private)

    def relation(
        self,
        files: Sequence[File],
        schema: StructType | None = None,
        *,
        format_name: str = "parquet",
        can_filter: bool = True,
    ) -> DataFrame:
        reader = self.session if can_filter else without_pushdown(self.session)
        return relation(reader, files, schema, source=format_name)

    def file_number(self, files: Sequence[File]) -> SparkColumn:  # noqa: ARG002 - as in `Source`
        return file_number()

    def of_file(self, files: Sequence[File], values: Sequence[int]) -> SparkColumn:  # noqa: ARG002 - as in `Source`
        return of_file(self.session, values)

    def contents(self, files: Sequence[DataFile]) -> dict[str, Stored]:
        known = footers(self.session, [(file.path, file.file_size_bytes) for file in files]) if files else []
        return {file.path: stored for file, stored in zip(files, known, strict=True)}

    def kept_rows(self, files: Sequence[DataFile], snapshot_id: int) -> SparkColumn | None:
        return bitmap_condition(self.session, files, snapshot_id)

    def shared(self, tasks: Sequence[Any]) -> Any:
        return self.session.sparkContext.broadcast(tasks)

    def named(self, name: str) -> SparkColumn:
        return self._columns.named(name)

    def renamed(self, column: SparkColumn, name: str) -> SparkColumn:
        return self._columns.renamed(column, name)

    def check_types(self, parts: Sequence[DataFrame], schema: StructType) -> None:
        check_types(self.session, parts, schema)
