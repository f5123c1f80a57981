"""`lakeconf graph`, and completion in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakeconf.config.config import init

TAGGED = """
[pipeline.models."marts.tagged"]
sql = "dearest.sql"
tags = ["nightly"]
tests = { not_null = ["day"] }
"""


def test_graph_as_text(pipeline_folder: Path, shown: Any) -> None:
    assert (
        shown("graph")
        == """\
raw.prices (seed)
marts.by_day (incremental)
  reads raw.prices
marts.dearest (full)
  reads raw.prices
"""
    )
    assert shown("graph", "marts.*", "--exclude", "marts.by_day") == "marts.dearest (full)\n  reads raw.prices\n"


def test_graph_as_json_and_mermaid(pipeline_folder: Path, shown: Any) -> None:
    with (pipeline_folder / "lakeconf.toml").open("a") as file:
        file.write(TAGGED)
    assert json.loads(shown("graph", "tag:nightly", "--format", "json")) == [
        {
            "model": "marts.tagged",
            "kind": "full",
            "tags": ["nightly"],
            "inputs": ["raw.prices"],
            "checks": ["not_null day"],
            "comment": None,
        }
    ]
    assert (
        shown("graph", "marts.*", "--format", "mermaid", "--exclude", "tag:nightly")
        == """\
flowchart LR
    t0["marts.by_day<br>incremental"]
    t1["marts.dearest<br>full"]
    t2("raw.prices")
    t2 --> t0
    t2 --> t1
"""
    )
    assert not (pipeline_folder / "catalog.sqlite").exists()


def completed(*words: str) -> list[str]:
    """What bash offers for the last word of a command line."""
    line = " ".join(words)
    variables = {"_LAKECONF_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    program = Path(sys.executable).with_name("lakeconf")
    done = subprocess.run([program], env=os.environ | variables, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return [found.partition(",")[2] for found in done.stdout.split()]


@pytest.fixture
def two_stores(events_folder: Path) -> Path:
    """The project with tables, and a store without a lake."""
    with (events_folder / "lakeconf.toml").open("a") as file:
        file.write('\n[stores.other.metadata_backend]\ntype = "sqlite"\nuri = "o.sqlite"\n')
        file.write('[stores.other.storage_backend]\ntype = "local"\npath = "other"\n')
    with init().get_store("dev").open() as lake:
        for name in ('raw."two words"', 'raw."a\nb"', "marts.daily"):
            lake.create_table(name, {"id": "BIGINT"})
    return events_folder


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["stores", ""], ["dev", "other"]),
        (["doctor", "--store", "o"], ["other"]),
        (["snapshots", "--store", "d"], ["dev"]),
        (["validate", "--store", "dev", "--store", "o"], ["other"]),
        (["copy", "dev", "o"], ["other"]),
        (["tables", ""], ["marts.daily", "raw.events"]),
        (["restore", "--store", "dev", "r"], ["raw.events"]),
        (["diff", "dev", "other", "m"], ["marts.daily"]),
        (["--config", "lakeconf.toml", "verify", "m"], ["marts.daily"]),
        (["tables", "--store", "other", ""], []),
        (["tables", "--store", "none", ""], []),
        (["--config", "missing.toml", "tables", ""], []),
        (["pre"], ["preview-sql"]),
    ],
)
def test_names_that_begin_with_the_word(words: list[str], found: list[str], two_stores: Path) -> None:
    assert completed("lakeconf", *words) == found
    assert not (two_stores / "o.sqlite").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed(shell: str, project: Path) -> None:
    program = Path(sys.executable).with_name("lakeconf")
    variables = {"_LAKECONF_COMPLETE": f"{shell}_source"}
    done = subprocess.run([program], env=os.environ | variables, capture_output=True, text=True, check=False)
    assert "_LAKECONF_COMPLETE" in done.stdout
