"""Compacts a table of many tiny files, against DuckLake's own function in one transaction.

Usage: python benchmarks/compaction.py [FILES ...]      (default: 5,000, 20,000 and 100,000 files)

Each table has one row per file. All files are links to one file, which the catalog lists under different names, because
writing them one by one would take longer than everything that is measured. Each compaction runs in its own process.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb

import lakeconf

# The rival needs memory and time that grow with the square of the number of files.
RIVAL_UP_TO = 20_000
_LINKS = 30_000
_METADATA = "__ducklake_metadata_dev"


def store_in(folder: Path) -> lakeconf.Store:
    backends = {
        "metadata_backend": {"type": "duckdb", "uri": str(folder / "catalog")},
        "storage_backend": {"type": "local", "path": str(folder / "data")},
    }
    return lakeconf.init({"stores": {"dev": backends}}).get_store()


def make(folder: Path, files: int) -> None:
    """Makes a lake with one table of this many files of one row."""
    with store_in(folder).open() as lake:
        lake.create_table("t", {"id": "INTEGER", "name": "VARCHAR"})
        lake.execute("INSERT INTO t VALUES (1, 'x')")
        (file,) = (folder / "data").rglob("ducklake-*.parquet")
    source = file
    for number in range(files - 1):
        if number % _LINKS == 0:  # file systems limit the links of a file
            source = file.with_name(f"source{number}")
            shutil.copy(file, source)
        os.link(source, file.with_name(f"copy{number}.parquet"))
    with store_in(folder).connect() as connection:
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


def measure(folder: Path, how: str) -> None:
    """Compacts, and prints the seconds and the megabytes of memory."""
    started = time.perf_counter()
    if how == "lakeconf":
        with store_in(folder).open() as lake:
            lake.maintenance.compact(memory_limit="4GB")
            if len(lake.table("t").files()) != 1:
                raise SystemExit("the files were not merged")
    else:
        with store_in(folder).connect() as connection:
            connection.execute("SET memory_limit = '4GB'")
            connection.execute("CALL ducklake_merge_adjacent_files('dev')")
    taken = time.perf_counter() - started
    print(f"{taken:.1f} {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}")


def measured(files: int, how: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder), files)
        command = [sys.executable, __file__, "--measure", folder, how]
        seconds, memory = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return f"{seconds} s, {memory} MB"


def main(counts: list[int]) -> None:
    print("| files | lakeconf | one `ducklake_merge_adjacent_files` |\n|---|---|---|")
    for files in counts:
        rival = measured(files, "ducklake") if files <= RIVAL_UP_TO else "not run"
        print(f"| {files:,} | {measured(files, 'lakeconf')} | {rival} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(Path(sys.argv[2]), sys.argv[3])
    else:
        main([int(each) for each in sys.argv[1:]] or [5_000, 20_000, 100_000])
