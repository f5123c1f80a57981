"""The tiers of the tests, from two markers on functions and parameters. A pytest plugin.

`make test` runs what has no marker, `make test-rest` what is `slow`, and `make prove` also what is marked `prove`:
repetitions of what other cases cover. Both markers may name parameters, as in `@pytest.mark.slow("on_spark")`: then
they are about the cases whose IDs contain one of them. A test of several catalogs is quick on SQLite, in the rest on
PostgreSQL, and on DuckDB in `make prove` if it runs on these two. `--part 1/2` runs half of the cases that are left;
the other half is `2/2`.
"""

from __future__ import annotations

import os
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from strength import PROVE

# Seconds of CPU time of all quick tests, in all processes together. On a busy machine, a run takes more minutes, but
# not many more of these seconds.
QUICK_SECONDS = 2000.0
QUICK_CATALOG = "sqlite"
CATALOGS = {"duckdb", "postgres", QUICK_CATALOG}
_KEY = "cpu_seconds"
_HINT = "mark tests as slow (`--durations=20` shows the slowest), or make them faster"
_SPARK = {"spark", "classic_session", "connect", "connect_session", "connect_url", "only_connect_session"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lakeconf")
    group.addoption("--tier", choices=["quick", "rest", "all"], default="all", help="Run only the tests of a tier.")
    group.addoption("--part", type=part_of, metavar="K/N", help="Run only the K-th of N parts of the tests.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow(*ids): not in `make test`; with IDs of parameters, only their cases")
    config.addinivalue_line("markers", "prove(*ids): only in `make prove`; with IDs of parameters, only their cases")
    if config.getoption("--tier") == "quick":
        config.pluginmanager.register(Budget(), "budget")


def part_of(text: str) -> tuple[int, int]:
    """The number of a part and of all parts, of `K/N`."""
    number, parts = (int(digits) for digits in text.split("/"))
    if not 1 <= number <= parts:
        raise ValueError(text)
    return number, parts


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not PROVE and not any("::" in argument for argument in config.args):  # a chosen test runs
        repeated = on_other_catalogs(items, {"sqlite", "postgres"}, "duckdb")
        leave_out(config, items, [item for item in items if is_marked(item, "prove") or item in repeated])
    keep_tier(config, items, config.getoption("--tier"))
    if part := config.getoption("--part"):
        number, parts = part
        # Only the names decide, so each process of a run, and each machine, makes the same parts.
        leave_out(config, items, [item for item in items if zlib.crc32(item.nodeid.encode()) % parts != number - 1])


def keep_tier(config: pytest.Config, items: list[pytest.Item], tier: str) -> None:
    """Leaves out what is not of a tier."""
    if tier == "all":
        return
    others = {item for catalog in ("duckdb", "postgres") for item in on_other_catalogs(items, {QUICK_CATALOG}, catalog)}
    slow = {item for item in items if is_marked(item, "slow")} | others
    leave_out(config, items, [item for item in items if (item in slow) is (tier == "quick")])
    if tier == "quick":  # the first process gets the first tests, so that only one of them starts Spark
        items.sort(key=lambda item: not needs_spark(item))


def is_marked(item: pytest.Item, name: str) -> bool:
    """True if a case has a marker that names no parameters or one of the case."""
    parameters = f"-{item.callspec.id}-" if hasattr(item, "callspec") else ""
    return any(
        not mark.args or any(f"-{parameter}-" in parameters for parameter in mark.args)
        for mark in item.iter_markers(name)
    )


def on_other_catalogs(items: list[pytest.Item], catalogs: set[str], other: str) -> set[pytest.Item]:
    """The cases on another catalog of which the same case exists on each of some catalogs."""
    alike: dict[tuple[str, ...], dict[str, pytest.Item]] = defaultdict(dict)
    for item in items:
        parts = item.callspec.id.split("-") if hasattr(item, "callspec") else []
        named = [part for part in parts if part in CATALOGS]
        if named:
            rest = ("*" if part in CATALOGS else part for part in parts)
            alike[item.nodeid.partition("[")[0], *rest][" ".join(named)] = item
    return {group[other] for group in alike.values() if other in group and catalogs <= group.keys()}


def needs_spark(item: pytest.Item) -> bool:
    """True if a case starts Spark or uses its session."""
    return bool(_SPARK & set(getattr(item, "fixturenames", ()))) or "spark" in item.nodeid.partition("[")[2]


def leave_out(config: pytest.Config, items: list[pytest.Item], others: list[pytest.Item]) -> None:
    """Removes cases from those that run."""
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


class Budget:
    """Adds up the CPU time of the tests of a run, and fails the run if they took more than they may."""

    def __init__(self) -> None:
        self._seconds = 0.0
        self._before = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self) -> None:
        self._before = cpu_seconds()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Adds what a worker counted, unless it crashed."""
        self._seconds += getattr(node, "workeroutput", {}).get(_KEY, 0.0)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if not self._seconds:  # else workers did the work
            self._seconds = cpu_seconds() - self._before
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput[_KEY] = self._seconds
        elif self._seconds > QUICK_SECONDS and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        is_within = self._seconds <= QUICK_SECONDS
        line = f"the quick tests took {self._seconds:.0f} s of CPU time, and may take {QUICK_SECONDS:.0f} s"
        terminalreporter.write_line(line if is_within else f"{line}: {_HINT}", green=is_within, red=not is_within)


def cpu_seconds() -> float:
    """The CPU time of this process and its children, on Linux also of those that still run, such as Java."""
    return sum(os.times()[:4]) + sum(_used_by(child) for child in _children("self"))


def _children(process: str) -> list[str]:
    """The processes that a process started and that run, with their own; none if the system does not tell."""
    try:
        texts = [path.read_text() for path in Path(f"/proc/{process}/task").glob("*/children")]
    except OSError:  # it ended meanwhile
        return []
    children = " ".join(texts).split()
    return [*children, *(other for child in children for other in _children(child))]


def _used_by(process: str) -> float:
    """The CPU time of another process and its ended children."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
