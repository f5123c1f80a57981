"""`lakeconf adopt` shows a plan, asks, and registers files once, whenever its process is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import lakeconf

SCRIPT = Path(__file__).parents[1] / "support" / "dying_command.py"


@pytest.fixture
def source(project: Path) -> Path:
    folder = project / "events"
    duckdb.sql(f"COPY (SELECT unnest(range(5)) AS id, 'a' AS kind) TO '{folder}' (FORMAT parquet, PARTITION_BY (kind))")
    return folder


def adopted_rows() -> int:
    with lakeconf.init().get_store().open() as lake:
        return lake.table("raw.events").count() if lake.tables() else 0


def test_adopt_shows_its_plan_and_needs_consent(source: Path, called: Any) -> None:
    arguments = ("adopt", "events", "--table", "raw.events")
    code, out, err = called(*arguments)
    assert (code, "then pass --yes" in err, adopted_rows()) == (2, True, 0)
    lines = out.splitlines()
    assert lines[0] == f"source      {source}/: 1 Parquet file"
    assert [line.split("  ")[0] for line in lines[1:]] == ["table", "files", "rows", "columns", "partitions"]
    assert called(*arguments, "--dry-run")[:2] == (0, out)
    code, adopted, _ = called(*arguments, "--yes", "--verify", "full")
    assert (code, adopted, adopted_rows()) == (0, f"{out}adopted in snapshot 1\n", 5)
    code, out, _ = called(*arguments, "--format", "json", "--yes")
    again = json.loads(out)
    assert (code, again["snapshot_id"], again["files"], again["known"]) == (0, None, [], 1)


def test_the_types_of_columns_can_be_declared(source: Path, called: Any) -> None:
    arguments = ("adopt", str(source), "--table", "raw.events", "--yes")
    code, _, err = called(*arguments, "--type", "nothing=INTEGER")
    assert (code, "has no column 'nothing'" in err) == (1, True)
    code, _, err = called(*arguments, "--type", "id=INTEGER")
    assert (code, "DuckLake cannot register the files" in err, adopted_rows()) == (1, True, 0)
    assert called(*arguments, "--type", "id=HUGEINT")[0] == 1
    assert called(*arguments, "--type", "kind=VARCHAR")[0] == 0


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after", "instead"])
def test_a_killed_adoption_adds_all_rows_or_none_and_can_be_repeated(source: Path, when: str, called: Any) -> None:
    before = [path.read_bytes() for path in source.rglob("*.parquet")]
    command = [sys.executable, str(SCRIPT), "1", when, "adopt", "events", "--table", "raw.events", "--yes"]
    environment = {**os.environ, "PYTHONPATH": str(Path(lakeconf.__file__).parents[1])}
    died = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, env=environment)
    assert died.returncode == (1 if when == "instead" else 9), died.stderr
    assert adopted_rows() == (5 if when == "after" else 0)
    assert called("adopt", "events", "--table", "raw.events", "--yes")[0] == 0
    assert adopted_rows() == 5
    assert [path.read_bytes() for path in source.rglob("*.parquet")] == before
