"""`lakeconf plan` and `graph`: what a run would do, with warnings and column changes; nothing changes. Completion."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lakeconf.cli.pipeline_commands import show_plan
from lakeconf.pipelines.column_changes import ColumnChanges
from lakeconf.pipelines.models.kinds import Full, Merge
from lakeconf.pipelines.models.model import Model
from lakeconf.pipelines.plan import Step

UNTIL = ("--to", "2024-01-03")


def test_plan_of_a_first_run_creates_nothing(pipeline_folder: Path, called: Any) -> None:
    before = sorted(pipeline_folder.rglob("*"))
    code, out, err = called("plan", *UNTIL)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "run  raw.prices     seed         first run",
        "run  marts.by_day   incremental  first run: 2024-01-01 to 2024-01-03",
        "run  marts.dearest  full         first run",
    ]
    assert sorted(pipeline_folder.rglob("*")) == before


@pytest.mark.slow
def test_options_reach_the_plan(pipeline_folder: Path, called: Any, shown: Any) -> None:
    shown("run", *UNTIL)
    assert [line.split()[0] for line in shown("plan", *UNTIL).splitlines()] == ["skip"] * 3
    assert "requested" in shown("plan", "marts.dearest", "--rebuild", *UNTIL)
    (line,) = shown("plan", "marts.by_day", "--from", "2024-01-02 00:00:00", *UNTIL).splitlines()
    assert line == "run  marts.by_day  incremental  missing: 2024-01-02 to 2024-01-03"
    for names, expected in (
        (("+marts.by_day",), ["raw.prices", "marts.by_day"]),
        (("raw.*", "marts.dearest"), ["raw.prices", "marts.dearest"]),
    ):
        assert [line.split()[1] for line in shown("plan", *names, *UNTIL).splitlines()] == expected
    (pipeline_folder / "prices.csv").write_text("day,price\n2024-01-01,9.5\n")
    shown("run", "raw.prices")
    code, out, err = called("plan", "marts.by_day", *UNTIL)
    assert (code, out.split()[0]) == (0, "skip")
    assert err.startswith("warning: marts.by_day: raw.prices changed in done intervals: run with --from")


def test_plan_as_json(pipeline_folder: Path, shown: Any) -> None:
    first, second, _ = json.loads(shown("plan", "--format", "json", *UNTIL))
    columns: dict[str, Any] = {"added": {}, "renamed": {}, "retyped": {}, "dropped": [], "replaced": []}
    assert first == {
        "model": "raw.prices",
        "kind": "seed",
        "tags": [],
        "runs": True,
        "reason": "first run",
        "rebuild": True,
        "replaces": False,
        "ranges": [],
        "files": [],
        "columns": columns,
        "warnings": [],
    }
    assert (second["kind"], second["reason"]) == ("incremental", "first run: 2024-01-01 to 2024-01-03")
    assert second["ranges"] == [{"start": "2024-01-01T00:00:00", "end": "2024-01-03T00:00:00", "redone": False}]


@pytest.mark.slow
def test_exit_code_tells_of_pending_changes(pipeline_folder: Path, called: Any, shown: Any) -> None:
    assert called("plan", "raw.prices")[0] == 0
    assert called("plan", "raw.prices", "--exit-code")[0] == 3
    shown("run", "raw.prices")
    assert called("plan", "raw.prices", "--exit-code")[0] == 0
    assert called("plan", "--exit-code", *UNTIL)[0] == 3


def test_unknown_names_and_times(pipeline_folder: Path, called: Any) -> None:
    for arguments, code, message in (
        (("marts.by_dy",), 1, 'did you mean "marts.by_day"?'),
        (("--store", "dve"), 1, 'did you mean "dev"?'),
        *((("--to", time), 2, "Invalid value for '--to'") for time in ("01.01.2024", "2024-01-01T03", "2024-13-01")),
    ):
        found, out, err = called("plan", *arguments)
        assert (found, out, message in err) == (code, "", True), arguments


def test_configuration_without_a_pipeline(project: Path, called: Any) -> None:
    assert "has no [pipeline]" in called("plan")[2]


def test_dropped_columns_need_consent_unless_the_model_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    changes = ColumnChanges(added={"b": "INTEGER"}, dropped=["A"])
    steps = [
        Step(Model("m.refused", Full()), "why", columns=changes, warnings=["odd", "strange"]),
        Step(Model("m.agreed", Merge("id"), dropped=["a", "c"]), "why", columns=changes),
        Step(Model("m.skipped", Full()), "done", runs=False),
    ]
    show_plan(steps, "text")
    assert capsys.readouterr() == (
        "run   m.refused  full   why; adds b INTEGER, drops A (needs --allow-drop-columns)\n"
        "run   m.agreed   merge  why; adds b INTEGER, drops A\n"
        "skip  m.skipped  full   done\n",
        "warning: m.refused: odd\nwarning: m.refused: strange\n",
    )
    show_plan(steps, "json")
    found = json.loads(capsys.readouterr().out)
    assert [one["warnings"] for one in found] == [["odd", "strange"], [], []]
    assert [one["runs"] for one in found] == [True, True, False]
    columns = {"added": {"b": "INTEGER"}, "renamed": {}, "retyped": {}, "dropped": ["A"], "replaced": []}
    assert found[0]["columns"] == columns


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
