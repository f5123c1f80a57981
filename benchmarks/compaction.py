"""Compacts a table of many tiny files, against DuckLake's own function in one transaction.

Usage: python benchmarks/compaction.py [FILES ...]      (default: 5,000, 20,000 and 100,000 files)

Each table has one row per file. Each compaction runs in its own process.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lakeconf

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
from tiny_files import make_tiny_files

# The rival needs memory and time that grow with the square of the number of files.
RIVAL_UP_TO = 20_000


def store_in(folder: Path) -> lakeconf.Store:
    backends = {
        "metadata_backend": {"type": "duckdb", "uri": str(folder / "catalog")},
        "storage_backend": {"type": "local", "path": str(folder / "data")},
    }
    return lakeconf.init({"stores": {"dev": {**backends, "maintenance": {"memory_limit": "4GB"}}}}).get_store()


def measure(folder: Path, how: str) -> None:
    """Compacts, and prints the seconds and the megabytes of memory."""
    started = time.perf_counter()
    if how == "lakeconf":
        with store_in(folder).open() as lake:
            lake.maintenance.compact()
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
        make_tiny_files(store_in(Path(folder)), Path(folder) / "data", files)
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
