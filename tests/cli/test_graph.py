"""`lakeconf graph`, and completion in a shell."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    assert shown("graph", "marts.d*") == "marts.dearest (full)\n  reads raw.prices\n"


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
        shown("graph", "marts.by_day", "marts.dearest", "--format", "mermaid")
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


def test_the_script_of_a_shell_is_printed(project: Path) -> None:
    program = Path(sys.executable).with_name("lakeconf")
    variables = {"_LAKECONF_COMPLETE": "bash_source"}
    done = subprocess.run([program], env=os.environ | variables, capture_output=True, text=True, check=False)
    assert "_LAKECONF_COMPLETE" in done.stdout
