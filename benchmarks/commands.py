"""CPU time of commands that read a catalog, compared with starting DuckDB, as processes.

python benchmarks/commands.py
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from local_project import CONFIGURATION

import lakeconf

ROUNDS = 7
GOAL_SECONDS = 0.5
START = "import duckdb; duckdb.connect().execute('SELECT 1').fetchall()"
COMMANDS = (
    ["tables"],
    ["snapshots"],
    ["files", "raw.events"],
    ["sql", "FROM raw.events"],
    ["maintain", "--dry-run"],
    ["doctor"],
)


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """The least CPU time of the process in several runs."""
    taken = []
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(taken)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("lakeconf.toml").write_text(CONFIGURATION)
        with lakeconf.init().get_store().open() as lake:
            lake.create_table("raw.events", {"id": "BIGINT"}).append(lake.sql("SELECT range AS id FROM range(10)"))
        # Byte code is cached, as on a user's machine, whatever the environment of this process sets.
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(folder, "byte-code"))
        start = cpu_seconds([sys.executable, "-c", START], environment)
        print("| command | CPU seconds more than starting DuckDB | goal | |\n|---|---|---|---|")
        for command in COMMANDS:
            more = cpu_seconds([sys.executable, "-m", "lakeconf", *command], environment) - start
            verdict = "reached" if more <= GOAL_SECONDS else "missed"
            print(f"| `lakeconf {' '.join(command)}` | {more:.2f} | ≤ {GOAL_SECONDS} | {verdict} |", flush=True)
        print(f"\nStarting DuckDB: {start:.2f} s")


if __name__ == "__main__":
    main()
