"""Compares the ids of rows without holding them in memory."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.base import ROW_ID
from lakeconf.sql import identifier, literal


def have_row_ids(connection: Connection, files: Sequence[str], rows: str) -> bool:
    """True if files contain exactly the ids of rows; compared are the count, a sum of hashes, and the bounds.

    Args:
        connection: Reads the files and the rows.
        files: Files that contain the ids of their rows.
        rows: SQL that returns the rows, with their ids as `ROW_ID`.
    """
    listed = ", ".join(map(literal, files))
    written = f"FROM read_parquet([{listed}], hive_partitioning = false)"
    return _summary(connection, written, INTERNAL_ROW_ID.name) == _summary(connection, f"FROM ({rows})", ROW_ID)


def count_and_sum(connection: Connection, rows: str) -> tuple[int, int]:
    """The number of ids, and the sum of their hashes, which is 0 if there is none.

    Args:
        connection: Reads the rows.
        rows: SQL that returns the rows, with their ids as `ROW_ID`.
    """
    count, total, *_ = _summary(connection, f"FROM ({rows})", ROW_ID)
    return int(count), int(total)


def _summary(connection: Connection, source: str, column: str) -> tuple[int, ...]:
    name = identifier(column)
    query = f"SELECT count({name}), coalesce(sum(hash({name})::HUGEINT), 0), min({name}), max({name}) {source}"
    (found,) = connection.rows(query)
    return found
