"""Commands that only read a lake load neither the code that writes nor a library that they do not need."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import lakeconf

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
[stores.dev]
metadata_backend = { type = "sqlite", uri = "catalog.sqlite" }
storage_backend = { type = "local", path = "data" }
"""
# Each takes 0.02 s or more.
SLOW = {
    "dagster",
    "dbt",
    "dlt",
    "narwhals",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "rich",
    "sqlglot",
    "sqlmesh",
}
# What reads a catalog needs.
CATALOG = {
    *("catalog.cached", "catalog.cursors", "catalog.definitions", "catalog.missing_table", "catalog.own_queries"),
    *("catalog.reader", "catalog.snapshot", "catalog.table", "catalog.table_name"),
}
# What opens a lake needs.
LAKE = CATALOG | {
    *("catalog.changes_made", "catalog.column_lookup", "catalog.unknown_tables", "catalog.views"),
    *("commit.committing", "commit.conflicts", "commit.scope", "commit.session"),
    *("engines.base", "engines.duckdb"),
    *("lake.definitions", "lake.lake", "lake.notebook", "lake.opening", "lake.queries", "lake.reads", "lake.table"),
    "write.merge_clauses",
}
FILES = {"catalog.data_file", "catalog.history", "catalog.scan", "inspection.sizes"}
COMMANDS: dict[str, set[str]] = {
    "tables": LAKE | FILES,
    "snapshots": LAKE | {"catalog.change_summary"},
    "files raw.events": LAKE | FILES,
    "maintain --dry-run": LAKE
    | {"catalog.lost_bounds", "catalog.stale_bounds", "engines.staging"}
    | {"lake.cleanup", "lake.compaction", "lake.maintenance", "lake.maintenance_plan"},
    "sql --": CATALOG
    | {"catalog.only_reads", "catalog.parse_tree", "catalog.references", "catalog.stored_queries", "catalog.stored_sql"}
    | {"catalog.unknown_tables", "catalog.views", "inspection.read_only_sql"},
    "doctor": CATALOG
    | {"catalog.lost_deletes", "catalog.stale_bounds", "engines.spark.java"}
    | {"inspection.data_path_files", "inspection.doctor", "inspection.doctor_lake", "inspection.doctor_probe"},
    "stores": set(),
}
FOLDERS = ("catalog", "commit", "datasource", "engines", "inspection", "integrations", "lake", "pipelines", "write")
PACKAGES = {*FOLDERS, "engines.spark"}
PROGRAM = """
import sys
from lakeconf.cli import main
code = main()
print(*sys.modules, sep="\\n", file=open("modules", "w"))
sys.exit(code)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose lake has a table with a file."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "lakeconf.toml").write_text(CONFIG)
    with lakeconf.init(folder / "lakeconf.toml").get_store().open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"}).append(lake.sql("SELECT range AS id FROM range(10)"))
    return folder


def loaded_by(project: Path, arguments: list[str]) -> set[str]:
    """The modules that a command has loaded when it ends."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LAKECONF_")}
    command = [sys.executable, "-c", PROGRAM, *arguments]
    subprocess.run(command, cwd=project, env=environment, check=True, capture_output=True)
    return set((project / "modules").read_text().split())


@pytest.mark.parametrize("command", COMMANDS)
def test_command_loads_only_what_it_needs(project: Path, command: str) -> None:
    query = ["FROM raw.events"] if command.startswith("sql") else []
    found = loaded_by(project, [*command.split(), *query])
    assert found & SLOW == set()
    assert "lakeconf.cli.commands" in found
    own = {name.removeprefix("lakeconf.") for name in found if name.startswith("lakeconf.")}
    modules = {name for name in own if name.partition(".")[0] in FOLDERS and name not in PACKAGES}
    assert modules - COMMANDS[command] == set()
    assert COMMANDS[command] - modules == set(), "the list has modules that are no longer loaded"
