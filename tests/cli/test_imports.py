"""Commands that read a lake, or make a branch of it, load no library that they do not need."""

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
default_store = "dev"
[stores.dev]
metadata_backend = { type = "sqlite", uri = "catalog.sqlite" }
storage_backend = { type = "local", path = "data" }

[stores.pr]
branch_of = "dev"
metadata_backend = { type = "sqlite", uri = "pr.sqlite" }
storage_backend = { type = "local", path = "pr" }
"""
# Each takes 0.02 s or more.
SLOW = {
    "dagster",
    "dbt",
    "dlt",
    "http.server",
    "lakeconf.lake.adoption.adoption",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "rich",
    "sqlglot",
    "sqlmesh",
}
COMMANDS = (
    *("tables", "snapshots", "tables raw.events", "maintain --dry-run", "sql FROM|raw.events", "doctor", "stores"),
    "branch dev pr --yes",
)
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
    with lakeconf.init(folder / "lakeconf.toml").get_store("dev").open() as lake:
        lake.create_table("raw.events", {"id": "BIGINT"}).append(lake.sql("SELECT range AS id FROM range(10)"))
    return folder


@pytest.mark.parametrize("command", COMMANDS)
def test_command_loads_only_what_it_needs(project: Path, command: str) -> None:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("LAKECONF_")}
    arguments = [word.replace("|", " ") for word in command.split()]
    subprocess.run([sys.executable, "-c", PROGRAM, *arguments], cwd=project, env=environment, check=True)
    found = set((project / "modules").read_text().split())
    assert found & SLOW == set()
    assert "lakeconf.cli.app" in found
