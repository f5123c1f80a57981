"""The summary of a test run shows where a worker crashed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from source_tree import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

TEST = "import os\n\n\ndef test_a():\n    pass\n\n\ndef test_b():\n    {call}\n"


@pytest.mark.parametrize(
    ("call", "code", "shown"),
    [("os.abort()", -6, "in test_b"), ("os.kill(os.getpid(), 9)", -9, "")],
    ids=["abort", "kill"],
)
def test_crashed_worker_is_in_the_summary(call: str, code: int, shown: str, tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TEST.format(call=call))
    command = [sys.executable, "-m", "pytest", "-q", "-n", "1", "-p", "crash_reports", "test_it.py"]
    variables = os.environ | {"PYTHONPATH": str(REPOSITORY / "tests" / "support")}
    result = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stdout
    _, _, summary = result.stdout.partition("crashed workers")
    assert f"gw0 ended with exit code {code}" in summary, result.stdout
    assert shown in summary
    assert "Traceback" not in result.stderr
