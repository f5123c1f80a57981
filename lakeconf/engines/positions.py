"""The places of rows in data files, and the interface of an engine that sorts them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakeconf.engines.base import Staged, StagingRequest

# The columns that identify a row in a data file: the path of the file, its id in the catalog, and the 0-based position
# of the row. They are NULL for a row in the catalog.
FILENAME = "__lakeconf_filename"
FILE_ID = "__lakeconf_file_id"
FILE_ROW_NUMBER = "__lakeconf_file_row_number"
# These columns and their types in DuckDB.
POSITION_TYPES = {FILENAME: "VARCHAR", FILE_ID: "BIGINT", FILE_ROW_NUMBER: "BIGINT"}


@dataclass(frozen=True)
class PositionFiles:
    """Files with the positions of rows, which are removed after the commit.

    Attributes:
        staged: The files.
        paths: The file with the positions in each data file, by the id of the data file. Its only column is
            `FILE_ROW_NUMBER`, in ascending order.
    """

    staged: Staged
    paths: Mapping[int, str]


@runtime_checkable
class PositionEngine(Protocol):
    """An engine whose executors find and sort the positions of any number of rows.

    Its `scan_rows` returns `FILE_ID` and `FILE_ROW_NUMBER` too.
    """

    def sort_positions(self, staged: Staged, condition: str, request: StagingRequest) -> PositionFiles:
        """Writes the positions of staged rows to one file for each data file.

        Args:
            staged: The result of `stage_rows`, with `FILE_ID` and `FILE_ROW_NUMBER`.
            condition: Selects rows of data files; SQL that has the same meaning in DuckDB and Spark.
            request: The table, and the token of the write.

        Raises:
            SparkError: The job failed.
        """
        ...
