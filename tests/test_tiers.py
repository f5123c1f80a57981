"""The rule that assigns tests to tiers; a run with skipped tests (a tool is missing) fails, unless that is allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from source_tree import REPOSITORY
from strength import PROVE
from tiers import CHEAP, END_TO_END, FUNCTION, LEFT_FILE, ONE_CATALOG, Choice, Cost, read_costs

if TYPE_CHECKING:
    from pathlib import Path


# On two cores, with the collection of the tests and the start of Spark, five minutes.
SECONDS = 420


def test_new_and_cheap_functions_are_quick_as_a_whole() -> None:
    choice = Choice({"tests/cli/test_a.py::cheap": Cost(CHEAP, 9), "tests/cli/test_a.py::dear": Cost(9.0, 9)})
    assert [choice.cases(f"tests/cli/test_a.py::{name}") for name in ("new", "cheap", "dear")] == [None, None, 0]
    assert not choice.is_left_out("tests/cli/test_a.py")


def test_one_case_of_a_dearer_function_is_quick() -> None:
    costs = {f"tests/{folder}/test_a.py::f": Cost(0.8, 3) for folder in ("cli", "lake")}
    costs |= {f"tests/{folder}/test_a.py::g": Cost(0.2, 3) for folder in ("cli", "lake")}
    choice = Choice(costs)
    assert {group: choice.cases(group) for group in costs} == {
        "tests/cli/test_a.py::f": 0,
        "tests/cli/test_a.py::g": 1,
        "tests/lake/test_a.py::f": 1,
        "tests/lake/test_a.py::g": 1,
    }
    assert choice.seconds() == 0.2 + 0.8 + 0.2


def test_one_function_of_each_file_is_quick_unless_all_are_dear() -> None:
    costs = {"tests/cli/test_a.py::f": Cost(LEFT_FILE, 2), "tests/cli/test_a.py::g": Cost(LEFT_FILE + 1, 2)}
    choice = Choice({**costs, "tests/cli/test_b.py::f": Cost(LEFT_FILE + 1, 1)})
    assert [choice.cases(group) for group in costs] == [1, 0]
    assert choice.is_left_out("tests/cli/test_b.py")


def test_rules_of_the_source_are_quick() -> None:
    costs = {
        "tests/test_hints.py::f": Cost(2.9, 1),
        "tests/test_install.py::f": Cost(9.0, 1),
        "tests/test_a.py::f": Cost(2.9, 1),
    }
    choice = Choice(costs)
    assert [choice.cases(group) for group in costs] == [1, 0, 0]


def test_one_case_of_chosen_functions_is_quick() -> None:
    costs = {group: Cost(9.0, 2) for group in (*END_TO_END, "tests/lake/test_a.py::f spark")}
    assert [Choice(costs).cases(group) for group in costs] == [*[1] * len(END_TO_END), 0]


def test_dear_functions_run_on_one_catalog_except_those_about_catalogs() -> None:
    names = [f"tests/{folder}/test_a.py::f{spark}" for folder in ("write", "conformance") for spark in (" spark", "")]
    dear, cheap = ([Cost(ONE_CATALOG[" spark" in name] + more, 3) for name in names] for more in (0.1, 0.0))
    assert [Choice(dict(zip(names, dear, strict=True))).on_one_catalog(name) for name in names] == [
        *[not PROVE] * 2,
        *[False] * 2,
    ]
    assert not any(Choice(dict(zip(names, cheap, strict=True))).on_one_catalog(name) for name in names)


def test_dear_functions_run_some_of_their_cases_except_those_about_catalogs() -> None:
    costs = {"tests/lake/test_a.py::cheap": Cost(CHEAP, 900), "tests/conformance/test_a.py::f": Cost(9.0, 3)}
    costs |= {"tests/lake/test_a.py::f": Cost(FUNCTION / 2, 9), "tests/lake/test_a.py::g": Cost(FUNCTION + 1, 9)}
    assert [Choice(costs).share(group) for group in costs] == [None, None, *([None, None] if PROVE else [2, 1])]


def test_the_chosen_functions_exist_and_the_quick_tests_fit_into_five_minutes() -> None:
    costs = read_costs()
    assert costs.keys() >= END_TO_END
    found = Choice(costs).seconds()
    assert found <= SECONDS, f"{found:.0f} s: make a test cheaper, or lower the limits in tests/support/tiers.py"


SKIPPED = (
    "import pytest\n\n\ndef test_a() -> None:\n    pass\n\n\ndef test_b() -> None:\n    pytest.skip('no browser')\n"
)


@pytest.mark.parametrize(("allowed", "code"), [("", 1), ("1", 0)])
def test_skipped_test_fails_the_run_unless_allowed(allowed: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPPED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "missing_tools", "-p", "no:cacheprovider", "test_it.py"]
    variables = os.environ | {"LAKECONF_ALLOW_MISSING": allowed, "PYTHONPATH": str(REPOSITORY / "tests" / "support")}
    result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == code, result.stdout
    assert "1 tests were skipped" in result.stdout
    assert ("LAKECONF_ALLOW_MISSING=1" in result.stdout) == (code == 1)
