"""The markers that assign tests to tiers, and what fails a run: skipped tests, and quick tests that are slow."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from source_tree import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

CASES = """\
import pytest
import tiers


def test_unmarked() -> None:
    pass


@pytest.mark.slow
def test_slow() -> None:
    pass


@pytest.mark.prove
def test_proof() -> None:
    pass


@pytest.mark.slow("on_spark")
@pytest.mark.prove("on_duckdb-b")
@pytest.mark.parametrize("value", ["a", "b", pytest.param("c", marks=pytest.mark.slow)])
@pytest.mark.parametrize("engine", ["on_duckdb", "on_spark"])
def test_cases(engine: str, value: str) -> None:
    pass


@pytest.mark.parametrize("value", [1, 2])
@pytest.mark.parametrize("catalog", ["sqlite", "duckdb", "postgres"])
def test_catalogs(catalog: str, value: int) -> None:
    pass


@pytest.mark.parametrize("catalog", ["duckdb", "postgres"])
def test_servers(catalog: str) -> None:
    pass
"""
QUICK = {
    "test_unmarked",
    "test_cases[on_duckdb-a]",
    "test_catalogs[sqlite-1]",
    "test_catalogs[sqlite-2]",
    "test_servers[duckdb]",
    "test_servers[postgres]",
}
REST = {
    "test_slow",
    *(f"test_cases[{case}]" for case in ("on_duckdb-c", "on_spark-a", "on_spark-b", "on_spark-c")),
    *(f"test_catalogs[{catalog}-{value}]" for catalog in ("postgres",) for value in (1, 2)),
}
PROOFS = {"test_proof", "test_cases[on_duckdb-b]", "test_catalogs[duckdb-1]", "test_catalogs[duckdb-2]"}


def run(folder: Path, plugin: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest on a folder with one plugin of lakeconf's tests."""
    command = [sys.executable, "-m", "pytest", "-p", plugin, "-p", "no:cacheprovider", *arguments]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LAKECONF_")}
    environment |= {"PYTHONPATH": str(REPOSITORY / "tests" / "support"), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment |= variables
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("arguments", "prove", "expected"),
    [
        (["--tier", "quick"], "", QUICK),
        (["--tier", "rest"], "", REST),
        ([], "", QUICK | REST),
        ([], "1", QUICK | REST | PROOFS),
        (["test_it.py::test_proof"], "", {"test_proof"}),
    ],
    ids=["test", "test-rest", "test-all", "prove", "chosen"],
)
def test_markers_and_catalogs_decide_which_cases_run(
    arguments: list[str], prove: str, expected: set[str], tmp_path: Path
) -> None:
    assert collected(tmp_path, *arguments, LAKECONF_PROVE=prove) == expected


def test_parts_are_together_the_whole(tmp_path: Path) -> None:
    halves = [collected(tmp_path, "--tier", "rest", "--part", part) for part in ("1/2", "2/2")]
    assert halves[0] | halves[1] == REST
    assert not halves[0] & halves[1]
    assert all(halves)


@pytest.mark.parametrize("part", ["0/2", "3/2", "2"])
def test_part_that_does_not_exist_fails_the_run(part: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(CASES)
    result = run(tmp_path, "tiers", "--part", part)
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "argument --part: invalid" in result.stderr


def collected(folder: Path, *arguments: str, **variables: str) -> set[str]:
    """The cases of the sample above that pytest would run."""
    (folder / "test_it.py").write_text(CASES)
    result = run(folder, "tiers", "--collect-only", "-q", *arguments, **variables)
    assert result.returncode == pytest.ExitCode.OK, result.stdout + result.stderr
    return {line.partition("::")[2] for line in result.stdout.splitlines() if "::" in line}


BUSY = """\
import subprocess
import sys
import time

import pytest

children = []


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


@pytest.mark.parametrize("value", [1, 2])
def test_busy(value: int) -> None:
    work(0.6)


def test_child() -> None:
    code = "import sys, time\\nwhile time.process_time() < 1.2: pass\\nprint(flush=True)\\nsys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    child.stdout.readline()
    children.append(child)  # it runs until the end


def test_idle() -> None:
    time.sleep(1.2)
"""


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["-k", "idle or 1"], 0),
        (["-k", "busy"], 1),
        (["-k", "busy", "-p", "xdist", "-n", "2"], 1),
        (["-k", "idle or 1", "-p", "xdist", "-n", "2"], 0),
        (["-k", "child"], 1),
    ],
    ids=["idle", "one process", "two processes", "two idle processes", "a child"],
)
def test_quick_tests_that_take_more_cpu_time_than_they_may_fail_the_run(
    arguments: list[str], code: int, tmp_path: Path
) -> None:
    (tmp_path / "conftest.py").write_text("import tiers\n\ntiers.QUICK_SECONDS = 1.0\n")
    (tmp_path / "test_it.py").write_text(BUSY)
    result = run(tmp_path, "tiers", "--tier", "quick", *arguments)
    assert result.returncode == code, result.stdout + result.stderr
    assert "s of CPU time, and may take 1 s" in result.stdout
    assert ("mark tests as slow" in result.stdout) == (code == 1)


SKIPPED = (
    "import pytest\n\n\ndef test_a() -> None:\n    pass\n\n\ndef test_b() -> None:\n    pytest.skip('no browser')\n"
)


@pytest.mark.parametrize(("allowed", "code"), [("", 1), ("1", 0)])
def test_skipped_test_fails_the_run_unless_allowed(allowed: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(SKIPPED)
    result = run(tmp_path, "missing_tools", "-q", LAKECONF_ALLOW_MISSING=allowed)
    assert result.returncode == code, result.stdout
    assert "1 tests were skipped" in result.stdout
    assert ("LAKECONF_ALLOW_MISSING=1" in result.stdout) == (code == 1)
