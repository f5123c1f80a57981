"""Strict type checkers accept a job of a user, and find its mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import mypy.api
import pytest
from source_tree import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

JOB = """\
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import narwhals as nw
import polars as pl

import lakeconf
from lakeconf import Insert, Lake, Table, Update
from lakeconf.pipelines import Full, Pipeline, model, not_null, run, unique


@model("marts.daily", Full(), tests=[not_null("day"), unique("day")], tags=["nightly"])
def daily(raw_events: nw.LazyFrame[Any]) -> nw.LazyFrame[Any]:
    return raw_events.group_by("day").agg(nw.col("amount").sum())


def load(lake: Lake, rows: list[dict[str, object]]) -> int:
    events: Table = lake.create_table("raw.events", {"id": "BIGINT", "day": "DATE"}, if_not_exists=True)
    events.append(rows, idempotency_key="first")
    events.merge(pl.DataFrame(rows), on="id", matched=Update(), not_matched=Insert())
    with lake.transaction("replace") as tx:
        tx.drop_table("raw.old", if_exists=True)
        tx.rename_table("raw.new", "raw.old")
        tx.audit("ids", "FROM raw.events WHERE id IS NULL")
    lake.create_view("raw.sales", "FROM raw.events")
    first: Mapping[str, Any] = events.head(1)[0]
    table = events.to_arrow(["id"], where="id > 1")
    frame: pl.DataFrame = events.to_polars()
    days: list[datetime] = [snapshot.time for snapshot in lake.snapshots()]
    comment: str | None = events.comment
    print(first, table.num_rows, frame.height, days, comment, events.to_pandas().shape)
    return lake.restore("raw.events", timestamp=datetime(2026, 1, 1, tzinfo=UTC))


with lakeconf.init().get_store("prod").open() as opened:
    print(load(opened, []), [result.status for result in run(Pipeline([daily]), opened)])
"""
MISTAKES = {
    "lake.drop_table(1)": "arg-type",
    "lake.restore('t', versoin=1)": "call-arg",
    "lake.table('t').hed()": "attr-defined",
    "name: int = lake.table('t').comment": "assignment",
}


# What pyright calls them.
RULES = ("reportArgumentType", "reportCallIssue", "reportAttributeAccessIssue", "reportAssignmentType")
CALLS = "from lakeconf import Lake\n\n\ndef job(lake: Lake) -> None:\n" + "\n".join(f"    {line}" for line in MISTAKES)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a correct job and one with mistakes."""
    (tmp_path / "correct.py").write_text(JOB)
    (tmp_path / "mistaken.py").write_text(CALLS)
    return tmp_path


@pytest.mark.slow
def test_strict_mypy_finds_the_mistakes_and_nothing_else(folder: Path) -> None:
    cache = REPOSITORY / ".mypy_cache"
    options = ["--strict", "--config-file=", f"--cache-dir={cache}", "--no-pretty"]
    found, errors, _ = mypy.api.run([*options, str(folder / "correct.py"), str(folder / "mistaken.py")])
    assert not errors, errors
    lines = [line for line in found.splitlines() if ": error: " in line]
    assert all("mistaken.py" in line for line in lines), found
    assert [line.rpartition("[")[2].rstrip("]") for line in lines] == list(MISTAKES.values())


@pytest.mark.slow
def test_pyright_finds_the_mistakes_and_nothing_else(folder: Path) -> None:
    # Its strict mode would report that types of pyarrow and pandas are unknown.
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # does not look for a newer version
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    assert all(one["file"].endswith("mistaken.py") for one in found), found
    assert [one["rule"] for one in found] == list(RULES)
