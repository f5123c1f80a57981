"""Fails a test run that skipped tests because a tool is missing. A pytest plugin.

With LAKECONF_ALLOW_MISSING=1 the run passes, for machines without a browser or without Maven.
"""

from __future__ import annotations

import os

import pytest

LEFT_OUT = pytest.StashKey[str]()
_ALLOWED = os.environ.get("LAKECONF_ALLOW_MISSING") == "1"
_HINT = "install what is missing (see CONTRIBUTING.md), or set LAKECONF_ALLOW_MISSING=1"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.OK and not _ALLOWED and _left_out(session.config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    lines = _left_out(config)
    for line in lines:
        terminalreporter.write_line(line, yellow=True)
    if lines and not _ALLOWED:
        terminalreporter.write_line(f"the run fails since tests were left out: {_HINT}", red=True)


def _left_out(config: pytest.Config) -> list[str]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", ())) if reporter is not None else 0
    lines = [f"{skipped} tests were skipped"] if skipped else []
    return [*lines, config.stash[LEFT_OUT]] if LEFT_OUT in config.stash else lines
