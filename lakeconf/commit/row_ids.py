"""Compares and searches the ids of any number of rows in limited memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.base import ROW_ID
from lakeconf.sql import identifier, literal

# DuckDB needs 40 to 120 bytes of memory for each id in a table of hashes.
IDS_IN_MEMORY = 2_000_000


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


def repeated_id(connection: Connection, rows: str, count: int) -> tuple[int, int] | None:
    """An id that several rows have, and their number; None if all ids differ.

    Args:
        connection: Reads the rows.
        rows: SQL that returns the rows, with their ids as `ROW_ID`.
        count: The number of rows.
    """
    with kept_ids(connection, rows, count) as kept:
        parts = max(1, -(-count // IDS_IN_MEMORY))
        for part in range(parts):
            # In one part, all ids are compared, and the lowest one is returned.
            condition = f" WHERE hash({ROW_ID}) % {parts} = {part}" if parts > 1 else ""
            grouped = f"SELECT {ROW_ID}, count(*) FROM ({kept}){condition} GROUP BY {ROW_ID} HAVING count(*) > 1"
            for row_id, repeats in connection.rows(f"{grouped} ORDER BY {ROW_ID} LIMIT 1"):
                return int(row_id), int(repeats)
    return None


@contextmanager
def kept_ids(connection: Connection, rows: str, count: int) -> Iterator[str]:
    """SQL that returns ids as `ROW_ID`, and can run many times; many ids are in a local file, to spare a bucket.

    Args:
        connection: Reads the rows.
        rows: SQL that returns rows with ids, as `ROW_ID`.
        count: The number of rows.
    """
    if count <= IDS_IN_MEMORY:
        yield f"SELECT {ROW_ID} FROM ({rows})"
        return
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as folder:
        path = literal(str(Path(folder) / "row-ids.parquet"))
        connection.execute(f"COPY (SELECT {ROW_ID} FROM ({rows})) TO {path} (FORMAT parquet)")
        yield f"SELECT {ROW_ID} FROM read_parquet({path}, hive_partitioning = false)"


def _summary(connection: Connection, source: str, column: str) -> tuple[int, ...]:
    name = identifier(column)
    query = f"SELECT count({name}), coalesce(sum(hash({name})::HUGEINT), 0), min({name}), max({name}) {source}"
    (found,) = connection.rows(query)
    return found
