"""Daily revenue: initial load into dev and prod, two late events in dev, a diff, and the copy to prod.

Each step is a lakeconf command; `python run.py spark` uses Spark instead of DuckDB.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from lakeconf.cli import app

HERE = Path(__file__).parent
TABLE = "analytics.daily_revenue"


def lakeconf(*arguments: str) -> int:
    """Runs a lakeconf command, and returns its exit code."""
    print(f"$ lakeconf {' '.join(arguments)}", flush=True)
    # In this process, so that Spark starts only once.
    return app.run(arguments)


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
        # The exit code is 1 if the tables differ.
        lakeconf("diff", "dev", "prod", TABLE, "--on", "event_date")
        failed += lakeconf("copy", "dev", "prod", TABLE, "--yes")
        failed += lakeconf("diff", "dev", "prod", TABLE, "--on", "event_date")
        failed += lakeconf("run", "--store", "prod", "--engine", engine, "--to", "2025-08-07")
    finally:
        later.unlink(missing_ok=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
