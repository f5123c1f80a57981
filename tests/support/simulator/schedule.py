"""Runs the schedule of a seed."""

from __future__ import annotations

import functools
import json
import sqlite3
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

import lakeconf
from simulator.bucket import File
from simulator.catalog import in_memory
from simulator.invariants import problems_of
from simulator.programs import Done, Programs
from simulator.scheduler import StuckError
from simulator.world import Template, World


@dataclass(frozen=True)
class Outcomes:
    """The result of a schedule."""

    seed: int  # its seed
    problems: list[str]  # what is wrong; empty if all invariants hold
    faults: list[str]  # the faults that happened
    done: list[Done]  # the writes and their outcomes
    trace: list[str]  # the calls that left lakeconf, in order

    def __str__(self) -> str:
        parts = [f"seed {self.seed}:", *self.problems, "faults:", *self.faults, "writes:", *map(str, self.done)]
        return "\n  ".join(parts)


def run_schedule(seed: int, rates: tuple[float, float] | None = None) -> Outcomes:
    """Runs the schedule of a seed and checks the invariants; `rates` of faults are for a call and for COMMIT."""
    world = World.new(seed, template(), rates)
    programs = Programs(world)
    problems: list[str] = []
    with world.around():
        try:
            world.scheduler.run(programs.processes())
            problems = problems_of(world, programs.done)
        except StuckError as error:
            problems = [str(error)]
    return Outcomes(seed, problems, world.happened, programs.done, world.scheduler.trace)


@functools.cache
def template() -> Template:
    """The lake at the start of each schedule; DuckLake itself creates it, on SQLite."""
    folder = tempfile.TemporaryDirectory(prefix="lakeconf-simulator-")
    path = Path(folder.name)
    catalog = {"type": "sqlite", "uri": str(path / "catalog")}
    storage = {"type": "local", "path": str(path / "data")}
    options = {"data_inlining_row_limit": 0}
    local = {"metadata_backend": catalog, "storage_backend": storage, "attach_options": options}
    with lakeconf.init({"stores": {"dev": local}}).get_store("dev").open() as lake:
        for table in ("events", "audit", "counter"):
            lake.create_table(table, {"id": "BIGINT"})
        zero = duckdb.sql("SELECT 0::BIGINT AS id")
        lake.table("counter").append(zero, idempotency_key="first")
    bucket = {"type": "s3", "bucket": "lake", "prefix": "data", "key_id": "k", "secret": "s", "region": "us-east-1"}
    server = {"type": "postgres", "host": "db", "database": "lake", "user": "u", "password": "p"}
    stores = [
        lakeconf.init({"stores": {"dev": {"metadata_backend": metadata, "storage_backend": bucket}}}).get_store("dev")
        for metadata in (server, catalog)
    ]
    state, data_path = _small(path / "catalog"), "s3://lake/data/"
    files = _files(path / "data", data_path)
    lake = state.execute("SELECT schema_uuid FROM ducklake_schema ORDER BY schema_id LIMIT 1").fetchone()[0]
    files[f"{data_path}_lakeconf.json"] = File(json.dumps({"lake": lake}), 0.0)
    made = Template(state, files, data_path, *stores)
    _FOLDERS.append(folder)
    return made


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []


def _small(path: Path) -> sqlite3.Connection:
    """The catalog in memory, with small pages, because each state is a copy."""
    found = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    made = in_memory()
    made.execute("PRAGMA page_size = 1024")
    made.executescript("\n".join(found.iterdump()))
    # The times of the server continue from here.
    made.execute("UPDATE ducklake_snapshot SET snapshot_time = '2027-01-01 00:00:00.000000+00'")
    found.close()
    return made


def _files(folder: Path, data_path: str) -> dict[str, Any]:
    files = {}
    for path in sorted(folder.rglob("*.parquet")):
        rows: list[Any]
        if path.parent.name == "commits":
            query = f"SELECT table_name, idempotency_key, table_uuid, token FROM read_parquet('{path}')"
            rows = duckdb.sql(query).fetchall()
        else:
            rows = [row for (row,) in duckdb.sql(f"SELECT id FROM read_parquet('{path}')").fetchall()]
        files[data_path + str(path.relative_to(folder))] = File(rows, 0.0)
    # Left behind by a writer that crashed long ago.
    files[f"{data_path}main/events/ducklake-01a2038f-458f-7bf2-9b60-aa3bf78bc080.parquet"] = File([], 1.0)
    return files
