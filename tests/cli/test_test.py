"""`lakeconf test`: output, exit codes, selection, and no store."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

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


def test_long_differences_are_cut_and_null_is_shown(tested_folder: Path, called: Any) -> None:
    file = tested_folder / "lakeconf.toml"
    rows = ", ".join(["{ day = 2024-01-05 }"] * 30)
    file.write_text(file.read_text().replace("expect = [{ day = 2024-01-02, price = 2.5 }", f"expect = [{rows}"))
    out = called("test", "dearest")[1].splitlines()
    assert out[0].endswith("30 rows missing, 1 row unexpected")
    assert out[4].split() == ["-", "2024-01-05", "NULL"]
    assert out[-3] == "    and 11 more"
    assert len(out) == 25
