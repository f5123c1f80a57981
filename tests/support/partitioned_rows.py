"""Rows for tables that are partitioned by a day and a text, and what a lake with such a table contains."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pyarrow as pa
from faulty_lake import local_files
from plain_sql import plain_rows

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake

COLUMNS = {"id": "BIGINT", "day": "DATE", "kind": "VARCHAR"}


def frame(*ids: int) -> pa.Table:
    """Rows in three days and, among others, in a partition that only DuckDB can write."""
    days = [dt.date(2024, 1, 1 + number % 3) for number in ids]
    kinds = [["a b", None, "NULL", ""][number % 4] for number in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "day": days, "kind": kinds})


FIRST, SECOND = frame(*range(12)), frame(*range(100, 112))


def ids_of(lake: Lake, table: str = "t") -> list[int]:
    return sorted(id_ for (id_,) in plain_rows(lake, f"SELECT id FROM dev.{table}"))


def parquet_files(tmp_path: Path) -> list[str]:
    return [path for path in local_files(tmp_path / "data") if path.endswith(".parquet")]


def writers(lake: Lake, table: str = "t") -> list[str]:
    """Who wrote each file: `lakeconf`, through Spark, or `ducklake`."""
    return sorted(file.path.rpartition("/")[2].partition("-")[0] for file in lake.table(table).files())
