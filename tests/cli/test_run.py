"""`lakeconf run` and `test`: results of models and their tests, consent to a rebuild, and the exit code."""

from __future__ import annotations

import json
import os
import pty
import sys
from typing import TYPE_CHECKING, Any

import pytest

import lakeconf
from lakeconf.cli.pipeline_commands import _show_run
from lakeconf.errors import AuditError
from lakeconf.pipelines import ModelResult

if TYPE_CHECKING:
    from pathlib import Path


UNTIL = ("--to", "2024-01-03")


def snapshot() -> int:
    with lakeconf.init().get_store().open() as lake:
        return lake.snapshot_id


@pytest.mark.slow
def test_models_run_once(pipeline_folder: Path, called: Any) -> None:
    code, out, err = called("run", *UNTIL)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "done     raw.prices: first run, 3 rows in snapshot 1",
        "done     marts.by_day: first run: 2024-01-01 to 2024-01-03, 2 rows in snapshot 2",
        "done     marts.dearest: first run, 2 rows in snapshot 3",
        "3 done",
    ]
    code, out, _ = called("run", *UNTIL)
    assert (code, out.splitlines()[-1]) == (0, "3 skipped")
    assert out.splitlines()[0] == "skipped  raw.prices: nothing has changed"


@pytest.mark.slow
def test_failed_model_is_reported(pipeline_folder: Path, called: Any) -> None:
    (pipeline_folder / "prices.csv").write_text("day,price\n2024-01-02,-4.5\n")
    code, out, err = called("run", *UNTIL)
    assert code == 1
    assert "failed   marts.by_day" in out
    assert out.splitlines()[-1] == "2 done, 1 failed"
    assert "error: the audit 'positive' found 1 row" in err
    code, out, err = called("run", *UNTIL, "--format", "json")
    found = {one["model"]: one for one in json.loads(out)}
    assert (code, err) == (1, "")
    assert found["marts.by_day"]["error"].startswith("the audit 'positive' found 1 row")
    assert (found["raw.prices"]["status"], found["raw.prices"]["error"]) == ("skipped", None)


def test_view_is_created_and_has_no_rows(pipeline_folder: Path, called: Any) -> None:
    file = pipeline_folder / "lakeconf.toml"
    file.write_text(file.read_text() + '\n[pipeline.models."marts.v"]\nkind = "view"\nsql = "v.sql"\n')
    (pipeline_folder / "v.sql").write_text("SELECT 1 AS n")
    code, out, err = called("run", "marts.v")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "done     marts.v: first run, created in snapshot 1"


@pytest.mark.slow
def test_rebuild_without_a_terminal_needs_yes(pipeline_folder: Path, called: Any) -> None:
    # There is nothing to replace in the first run.
    assert called("run", "--rebuild", *UNTIL)[0] == 0
    before = snapshot()
    code, out, err = called("run", "marts.dearest", "--rebuild", *UNTIL)
    assert (code, out) == (2, "run  marts.dearest  full  requested: replaces all rows\n")
    assert "--yes" in err
    code, out, err = called("run", "marts.dearest", "--rebuild", "--format", "json", *UNTIL)
    assert (code, out) == (2, "")
    assert snapshot() == before
    code, out, _ = called("run", "marts.dearest", "--rebuild", "--yes", *UNTIL)
    assert (code, out.splitlines()[-1], snapshot()) == (0, "1 done", before + 1)
    assert "run  " not in out


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["y", "n"])
def test_rebuild_asks_on_a_terminal(
    answer: str, pipeline_folder: Path, called: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert called("run", *UNTIL)[0] == 0
    before = snapshot()
    master, slave = pty.openpty()
    os.write(master, f"{answer}\n".encode())
    with os.fdopen(slave, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        code, _, err = called("run", "marts.*", "--rebuild", *UNTIL)
    os.close(master)
    assert "Replace the rows of marts.by_day, marts.dearest?" in err
    assert (code, snapshot() > before) == ((0, True) if answer == "y" else (1, False))


@pytest.mark.slow
def test_dropped_columns_need_the_option(pipeline_folder: Path, called: Any) -> None:
    assert called("run", *UNTIL)[0] == 0
    (pipeline_folder / "dearest.sql").write_text("SELECT max(price) AS price FROM raw.prices")
    code, _, err = called("run", "marts.dearest")
    assert (code, "this would drop the column day of marts.dearest" in err) == (1, True)
    assert called("run", "marts.dearest", "--allow-drop-columns")[0] == 0


@pytest.mark.slow
def test_late_rows_are_a_warning_until_their_interval_runs(pipeline_folder: Path, called: Any) -> None:
    assert called("run", *UNTIL)[0] == 0
    (pipeline_folder / "prices.csv").write_text("day,price\n2024-01-01,9.5\n2024-01-02,4\n")
    code, out, err = called("run", *UNTIL)
    assert (code, out.splitlines()[-1]) == (0, "2 done, 1 skipped")
    assert err.startswith("warning: marts.by_day: raw.prices changed in done intervals")
    arguments = err.splitlines()[0].partition("run with ")[2].split()
    code, out, err = called("run", "marts.by_day", *arguments)
    assert (code, err, out.splitlines()[-1]) == (0, "", "1 done")


@pytest.mark.slow
def test_store_and_engine_are_checked(pipeline_folder: Path, called: Any) -> None:
    assert 'did you mean "dev"?' in called("run", "--store", "dve")[2]
    assert called("run", "--engine", "polars")[0] == 2
    assert called("run", "--store", "dev", "--engine", "duckdb", *UNTIL)[0] == 0


def test_result_without_a_snapshot_has_no_rows(capsys: pytest.CaptureFixture[str]) -> None:
    _show_run(ModelResult("m.a", "not run", "m.b failed"), ())
    _show_run(
        ModelResult("m.b", "failed", "first run", 7, 2, error=AuditError("bad rows", hint="look"), warnings=["odd"]), ()
    )
    assert capsys.readouterr() == (
        "not run  m.a: m.b failed\nfailed   m.b: first run, 2 rows in snapshot 7\n",
        "error: bad rows\n  hint: look\nwarning: m.b: odd\n",
    )


TESTS = """
[pipeline.tests.by_day]
model = "marts.by_day"
start = 2024-01-01
end = 2024-01-02
given."raw.prices" = [
    { day = 2024-01-01, price = 1.5 },
    { day = 2024-01-01, price = 2 },
    { day = 2024-01-02, price = 9 },
]
expect = [{ day = 2024-01-01, price = 3.5 }]

[pipeline.tests.dearest]
model = "marts.dearest"
given."raw.prices" = [{ day = 2024-01-01, price = 1.5 }, { day = 2024-01-02, price = 2.0 }]
expect = [{ day = 2024-01-02, price = 2.5 }, { day = 2024-01-01, price = 1.5 }]
"""


@pytest.fixture
def tested_folder(pipeline_folder: Path) -> Path:
    file = pipeline_folder / "lakeconf.toml"
    file.write_text(file.read_text() + TESTS)
    return pipeline_folder


def test_tests_are_run_without_a_store(tested_folder: Path, called: Any) -> None:
    file = tested_folder / "lakeconf.toml"
    # A store whose variables are not set cannot be opened.
    text = file.read_text()
    assert 'uri = "catalog.sqlite"' in text
    file.write_text(text.replace('uri = "catalog.sqlite"', 'uri = "${NOT_SET}"'))
    before = sorted(tested_folder.rglob("*"))
    line = file.read_text().splitlines().index("[pipeline.tests.dearest]") + 1
    code, out, err = called("test")
    assert (code, err) == (1, "")
    assert out.splitlines() == [
        "passed   by_day (marts.by_day)",
        "failed   dearest (marts.dearest): 1 row missing, 1 row unexpected",
        "    day         price",
        "  + 2024-01-02  2.0",
        "  - 2024-01-02  2.5",
        f"  test: lakeconf.toml:{line}:17",
        "1 passed, 1 failed",
    ]
    code, out, err = called("test", "--format", "json")
    passed, failed = json.loads(out)
    assert (code, err, passed["status"], passed["missing"]) == (1, "", "passed", [])
    assert (failed["test"], failed["model"], failed["status"]) == ("dearest", "marts.dearest", "failed")
    assert failed["missing"] == [{"day": "2024-01-02", "price": "2.5"}]
    assert failed["unexpected"] == [{"day": "2024-01-02", "price": "2.0"}]
    assert sorted(tested_folder.rglob("*")) == before


def test_selection_and_exit_code(tested_folder: Path, called: Any) -> None:
    assert called("test", "by_day")[:2] == (0, "passed   by_day (marts.by_day)\n1 passed\n")
    assert called("test", "marts.*")[0] == 1
    assert called("test", "raw.prices")[:2] == (0, "no tests\n")
    code, _, err = called("test", "by_dya")
    assert (code, "no test and no model is named 'by_dya'" in err) == (1, True)
    assert called("test", "--nope")[0] == 2
    file = tested_folder / "lakeconf.toml"
    file.write_text(file.read_text().partition("[pipeline.tests")[0])
    code, _, err = called("test", "nope")
    message = "error: no test and no model is named 'nope'\n  hint: declare tests in [pipeline.tests.NAME]\n"
    assert (code, err) == (1, message)


def test_errors_are_shown_with_the_place_in_the_model(tested_folder: Path, called: Any) -> None:
    (tested_folder / "dearest.sql").write_text("SELECT day,\n prise FROM raw.prices")
    code, out, err = called("test", "dearest")
    assert (code, out.splitlines()[0], out.splitlines()[-1]) == (1, "error    dearest (marts.dearest)", "1 error")
    assert err.startswith('error: dearest.sql:2:2: Binder Error: Referenced column "prise" not found')
    assert json.loads(called("test", "dearest", "--format", "json")[1])[0]["error"].startswith("dearest.sql:2:2: ")
    (tested_folder / "dearest.sql").write_text("SELECT day FROM raw.price")
    code, _, err = called("run", "marts.dearest")
    assert (code, err.splitlines()[0]) == (1, "error: dearest.sql: no table 'raw.price' at version 0")
    assert err.splitlines()[1] == "  hint: write a model for it, create the table, or correct its name"


def test_long_differences_are_cut_and_null_is_shown(tested_folder: Path, called: Any) -> None:
    file = tested_folder / "lakeconf.toml"
    rows = ", ".join(["{ day = 2024-01-05 }"] * 30)
    file.write_text(file.read_text().replace("expect = [{ day = 2024-01-02, price = 2.5 }", f"expect = [{rows}"))
    out = called("test", "dearest")[1].splitlines()
    assert out[0].endswith("30 rows missing, 1 row unexpected")
    assert out[4].split() == ["-", "2024-01-05", "NULL"]
    assert out[-3] == "    and 11 more"
    assert len(out) == 25
