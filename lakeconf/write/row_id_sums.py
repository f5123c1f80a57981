"""Compares the row ids in files with those of rows, without holding them in memory."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.base import ROW_ID
from lakeconf.sql import literal


def have_row_ids(connection: Connection, files: Sequence[str], rows: str) -> bool:
    """True if files contain exactly the ids of rows; compared are the count, a sum of hashes, and the bounds.

    Args:
        connection: Reads the files and the rows.
        files: Files that contain the ids of their rows.
        rows: SQL that returns the rows, with their ids as `ROW_ID`.
    """
    listed = ", ".join(map(literal, files))
    written = f"SELECT {INTERNAL_ROW_ID.name} AS {ROW_ID} FROM read_parquet([{listed}], hive_partitioning = false)"
    summed = f"SELECT count({ROW_ID}), sum(hash({ROW_ID})::HUGEINT), min({ROW_ID}), max({ROW_ID})"
    return connection.rows(f"{summed} FROM ({written})") == connection.rows(f"{summed} FROM ({rows})")
