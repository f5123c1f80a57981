"""A plugin of pytest: at the end of a run, it shows where the process of a worker crashed and with which exit code.

pytest prints the stacks of a crash at once, far above the summary of a long run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

_KEY = "crash_reports"
_MOST_LINES = 60
_folder = pytest.StashKey[Path]()
_ends = pytest.StashKey[list[str]]()


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tells a new worker where to write its stacks."""
    if _folder not in node.config.stash:
        node.config.stash[_folder] = Path(tempfile.mkdtemp(prefix="lakeconf-crashes-"))
        node.config.stash[_ends] = []
    node.workerinput[_KEY] = str(node.config.stash[_folder] / node.gateway.id)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """In a worker, replaces pytest's own report, which goes to stderr."""
    path = getattr(config, "workerinput", {}).get(_KEY)
    if path is not None:
        faulthandler.enable(file=Path(path).open("w", encoding="utf-8"))  # noqa: SIM115 - until the process ends


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Notes how a worker ended that has not said goodbye."""
    if error is not None:
        process = node.gateway._io.popen
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=10)
        node.config.stash[_ends].append(f"{node.gateway.id} ended with exit code {process.returncode}: {error}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Shows the stacks of all crashed workers."""
    folder = config.stash.get(_folder, None)
    if folder is None:
        return
    ends, files = config.stash[_ends], [path for path in sorted(folder.iterdir()) if path.stat().st_size]
    if ends or files:
        terminalreporter.section("crashed workers")
    for line in ends:
        terminalreporter.write_line(line)
    for path in files:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        terminalreporter.write_line(f"{path.name}:")
        for line in lines[:_MOST_LINES]:
            terminalreporter.write_line(f"  {line}")
    shutil.rmtree(folder, ignore_errors=True)
