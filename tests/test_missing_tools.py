"""A test run with skipped tests (a tool is missing) fails, unless that is allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from source_tree import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

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
