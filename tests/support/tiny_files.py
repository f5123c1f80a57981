"""A lake with one table of many files of one row."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

    from lakeconf import Store

_LINKS = 30_000
_METADATA = "__ducklake_metadata_dev"


def make_tiny_files(store: Store, folder: Path, files: int) -> None:
    """Makes the table `t (id INTEGER, name VARCHAR)` with this many files, in a store on a DuckDB file without a lake.

    All files are links to one file, because writing them one by one would take longer than what is measured.
    """
    with store.open() as lake:
        lake.create_table("t", {"id": "INTEGER", "name": "VARCHAR"})
        lake.execute("INSERT INTO t VALUES (1, 'x')")
        (file,) = folder.rglob("ducklake-*.parquet")
    source = file
    for number in range(files - 1):
        if number % _LINKS == 0:  # file systems limit the links of a file
            source = file.with_name(f"source{number}")
            shutil.copy(file, source)
        os.link(source, file.with_name(f"copy{number}.parquet"))
    with store.connect() as connection:
        _copy(connection, "ducklake_data_file", files, {"path": "'copy' || i || '.parquet'", "row_id_start": "i + 1"})
        _copy(connection, "ducklake_file_column_stats", files, {})
        connection.execute(f"UPDATE {_METADATA}.ducklake_snapshot SET next_file_id = next_file_id + {files}")
        connection.execute(f"UPDATE {_METADATA}.ducklake_table_stats SET record_count = {files}, next_row_id = {files}")


def _copy(connection: duckdb.DuckDBPyConnection, table: str, files: int, changed: dict[str, str]) -> None:
    """Lists the only file of the lake again, under other ids and names."""
    columns = [name for name, *_ in connection.execute(f"DESCRIBE {_METADATA}.{table}").fetchall()]
    changed = {"data_file_id": "data_file_id + 1 + i", **changed}
    values = ", ".join(changed.get(name, name) for name in columns)
    rows = f"SELECT {values} FROM {_METADATA}.{table}, range({files - 1}) AS r(i)"
    connection.execute(f"INSERT INTO {_METADATA}.{table} {rows}")
