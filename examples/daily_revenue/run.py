"""A first load into dev and prod, two later events in dev, the difference, and its promotion.

Each step is a command of lakeconf; `python run.py spark` computes with Spark in place of DuckDB.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from lakeconf.cli import commands

HERE = Path(__file__).parent
TABLE = "analytics.daily_revenue"


def lakeconf(*arguments: str) -> int:
    """Runs a command; gives its exit code."""
    print(f"$ lakeconf {' '.join(arguments)}", flush=True)
    # In this process, so that Spark starts once.
    return commands.run(arguments)


def main() -> None:
    os.chdir(HERE)
    engine = sys.argv[1] if len(sys.argv) > 1 else "duckdb"
    shutil.rmtree(HERE / ".lakeconf", ignore_errors=True)
    (HERE / ".lakeconf").mkdir()
    later = HERE / "events" / "later.csv"
    later.unlink(missing_ok=True)
    try:
        failed = lakeconf("run", "--store", "dev", "--engine", engine, "--to", "2025-08-05")
        failed += lakeconf("run", "--store", "prod", "--engine", engine, "--to", "2025-08-05")
        shutil.copy(HERE / "later.csv", later)
        failed += lakeconf("run", "--store", "dev", "--engine", engine, "--to", "2025-08-07")
        # Where two tables differ, the exit code is 1.
        lakeconf("diff", "dev", "prod", TABLE, "--on", "event_date")
        failed += lakeconf("promote", "dev", "prod", "--yes")
        failed += lakeconf("diff", "dev", "prod", TABLE, "--on", "event_date")
        failed += lakeconf("run", "--store", "prod", "--engine", engine, "--to", "2025-08-07")
    finally:
        later.unlink(missing_ok=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
