"""Strict type checkers accept a job of a user, and find its mistakes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import mypy.api
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


def checked(folder: Path, code: str) -> str:
    file = folder / "job.py"
    file.write_text(code)
    cache = REPOSITORY / ".mypy_cache"
    found, errors, _ = mypy.api.run(["--strict", "--config-file=", f"--cache-dir={cache}", "--no-pretty", str(file)])
    assert not errors, errors
    return found


def test_strict_mypy_accepts_a_job(tmp_path: Path) -> None:
    assert checked(tmp_path, JOB) == "Success: no issues found in 1 source file\n"


def test_strict_mypy_finds_mistakes(tmp_path: Path) -> None:
    errors = [line for line in checked(tmp_path, CALLS).splitlines() if ": error: " in line]
    assert [line.rpartition("[")[2].rstrip("]") for line in errors] == list(MISTAKES.values())


def with_pyright(folder: Path, code: str) -> list[str]:
    """The rules that pyright reports; its strict mode would report that types of pyarrow and pandas are unknown."""
    (folder / "job.py").write_text(code)
    (folder / "pyrightconfig.json").write_text('{"typeCheckingMode": "standard"}')
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    environment = {**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}  # does not look for a newer version
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return [found["rule"] for found in json.loads(done.stdout)["generalDiagnostics"]]


def test_pyright_accepts_a_job(tmp_path: Path) -> None:
    assert with_pyright(tmp_path, JOB) == []


def test_pyright_finds_mistakes(tmp_path: Path) -> None:
    assert with_pyright(tmp_path, CALLS) == list(RULES)
