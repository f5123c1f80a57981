"""CPU time of commands that read a catalog, compared with starting DuckDB and with DuckDB's own ATTACH, as processes.

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
from lakeconf.connection.connection import extension_sql

ROUNDS = 7
GOAL_SECONDS = 0.5
START = "import duckdb; duckdb.connect().execute('SELECT 1').fetchall()"
# DuckDB checks the signature of each extension, 35 MB, when it loads it.
ATTACH = """
import sys, duckdb
with duckdb.connect() as connection:
    for load in sys.argv[1:]:
        connection.execute(load)
    connection.execute("ATTACH 'ducklake:sqlite:catalog.sqlite' AS dev")
    connection.execute("FROM dev.raw.events").fetchall()
"""
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
        loads = [extension_sql(name) for name in ("ducklake", "sqlite_scanner")]
        attach = cpu_seconds([sys.executable, "-c", ATTACH, *loads], environment) - start
        print(f"| DuckDB alone: LOAD, ATTACH and a query | {attach:.2f} | | |")
        print(f"\nStarting DuckDB: {start:.2f} s")


if __name__ == "__main__":
    main()
