"""What a scan needs from a session: how files become a relation, and how its types are checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakeconf.catalog.data_file import DataFile
from lakeconf.engines.spark.read.footers import Stored
from lakeconf.engines.spark.read.relation import File


class Source(Protocol):
    """Reads the files of one scan.

    Attributes:
        session: The session that creates the frames of the scan.
        by_name: True if columns are found by their names in the files, not by field id.
        keeps_structs: As for `columns.needs_footer`.
        most_files: The maximum number of files of a relation that tells them apart; None if there is none.
    """

    session: SparkSession
    by_name: bool
    keeps_structs: bool
    most_files: int | None

    def relation(
        self,
        files: Sequence[File],
        schema: StructType | None = None,
        *,
        format_name: str = "parquet",
        can_filter: bool = True,
    ) -> DataFrame:
        """The rows of some files.

        Args:
            files: At least one; no two have the same path.
            schema: The requested schema; None if the format has its own.
            format_name: Spark's name of the format.
            can_filter: False if Spark must not use the statistics in the files.

        Raises:
            StorageError: A file is missing, or its size differs from the catalog.
            UnsupportedError: Spark would not read a file.
        """
        ...

    def file_number(self, files: Sequence[File]) -> SparkColumn:
        """The position of a row's file in the files of its relation; for another file, another number or a failure."""
        ...

    def of_file(self, files: Sequence[File], values: Sequence[int]) -> SparkColumn:
        """A property of a row's file; a row of an unknown file fails the job.

        Args:
            files: The files of the relation.
            values: The property of each.
        """
        ...

    def contents(self, files: Sequence[DataFile]) -> dict[str, Stored]:
        """The schema of each file, by its path.

        Raises:
            StorageError: A file is missing or not Parquet.
        """
        ...

    def kept_rows(self, files: Sequence[DataFile], snapshot_id: int) -> SparkColumn | None:
        """The condition for the rows of a relation that are not deleted; None if the scan must use a join."""
        ...

    def shared(self, tasks: Sequence[Any]) -> Any:
        """An object for the executors, with the tasks in its attribute `value`."""
        ...

    def named(self, name: str) -> SparkColumn:
        """The column of a quoted name."""
        ...

    def renamed(self, column: SparkColumn, name: str) -> SparkColumn:
        """The column under another name, without metadata."""
        ...

    def check_types(self, parts: Sequence[DataFrame], schema: StructType) -> None:
        """Checks that all parts of a union have the names and types of a schema.

        Raises:
            UnsupportedError: A part differs.
        """
        ...
