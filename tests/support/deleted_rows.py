"""Rows to delete by whole files and by positions, and what a delete reads and runs."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from plain_sql import plain_rows

if TYPE_CHECKING:
    from lakeconf import Lake

COLUMNS = {"id": "BIGINT", "day": "DATE", "kind": "VARCHAR", "x": "DECIMAL(9, 1)"}


def frame(count: int, days: int = 3) -> pa.Table:
    first = dt.date(2024, 1, 1)
    return pa.table(
        {
            "id": pa.array(range(count), pa.int64()),
            "day": [first + dt.timedelta(number % days) for number in range(count)],
            "kind": [["a", "b/c", None][number % 3] for number in range(count)],
            "x": [None if number % 5 == 0 else Decimal(number) / 2 for number in range(count)],
        }
    )


def ids(lake: Lake, table: str = "t", version: int | None = None) -> list[int]:
    """Not a read of the lake, which would make later deletes depend on it."""
    at = "" if version is None else f" AT (VERSION => {version})"
    return sorted(id_ for (id_,) in plain_rows(lake, f"SELECT id FROM dev.{table}{at}"))


def damage(lake: Lake, where: str, table: str = "t") -> None:
    """Overwrites the data pages of the files with matching rows; the footers remain."""
    for (path,) in plain_rows(lake, f"SELECT DISTINCT filename FROM dev.{table} WHERE {where}"):
        content = Path(path).read_bytes()
        footer = int.from_bytes(content[-8:-4], "little") + 8
        Path(path).write_bytes(content[:4] + b"\xab" * (len(content) - 4 - footer) + content[-footer:])
