"""The tiers of the tests: `make test` runs those that answer quickly, `make test-all` runs everything.

No test is marked. `make test-costs` measures what each function costs and writes tests/costs.txt; `Choice` turns costs
into a tier. A test without a cost is quick, so a new test always runs. A test that became slow leaves the tier when
costs are measured again.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable

COSTS = Path(__file__).parent.parent / "costs.txt"
# Seconds of one case on a quiet machine, its share of fixtures included.
CHEAP = 0.05  # all cases of such a function are quick
ONE_CASE = {"core": 0.5, "other": 0.3}  # one case of such a function is quick
LEFT_FILE = 1.5  # one case of a file that would have none
CORE = ("catalog", "commit", "connection", "guard", "histories", "lake", "security", "write")
# A few of the dear cases that need Spark or a server: each engine, catalog and storage from end to end.
END_TO_END = frozenset(
    {
        "tests/engines/spark/connect/test_engine.py",
        "tests/datasource/test_writing.py",
        "tests/differential/test_random_lakes.py",
        "tests/write/test_twin_merges.py",
        "tests/lake/test_s3_requests.py",
        "tests/guard/test_server_locks.py",
    }
)


@dataclasses.dataclass(frozen=True)
class Cost:
    """What a test function costs.

    Attributes:
        seconds: The median of its cases.
        is_heavy: True if it starts Spark or a server.
    """

    seconds: float
    is_heavy: bool


def read_costs() -> dict[str, Cost]:
    """The cost of each function, by `path::function`."""
    lines = COSTS.read_text("utf-8").splitlines() if COSTS.exists() else []
    parts = (line.split(maxsplit=2) for line in lines)
    return {name: Cost(float(seconds), kind == "heavy") for seconds, kind, name in parts}


class Choice:
    """Decides which cases are quick.

    Args:
        costs: The costs of functions.
    """

    def __init__(self, costs: dict[str, Cost]) -> None:
        self._costs = costs
        self._files: dict[str, list[str]] = defaultdict(list)
        for name in costs:
            self._files[name.partition("::")[0]].append(name)
        self._lonely = {name for path, names in self._files.items() for name in self._one_of(path, names)}

    def cases(self, name: str) -> int | None:
        """How many cases of a function are quick; None for all."""
        cost = self._costs.get(name)
        if cost is None or (cost.seconds <= CHEAP and not cost.is_heavy):
            return None
        return 1 if self._has_one(name, cost) or name in self._lonely else 0

    def is_left_out(self, path: str) -> bool:
        """True if no case of a file is quick. Its module is not even imported, so new functions in it wait."""
        names = self._files.get(path, [])
        return bool(names) and all(self.cases(name) == 0 for name in names)

    def _has_one(self, name: str, cost: Cost) -> bool:
        folder = name.split("/")[1]
        return not cost.is_heavy and cost.seconds <= ONE_CASE["core" if folder in CORE else "other"]

    def _one_of(self, path: str, names: Iterable[str]) -> Iterable[str]:
        """The cheapest function of a file without a quick one, if it is not too dear."""
        costs = {name: self._costs[name] for name in names}
        if any((cost.seconds <= CHEAP and not cost.is_heavy) or self._has_one(n, cost) for n, cost in costs.items()):
            if path not in END_TO_END:
                return ()
            costs = {name: cost for name, cost in costs.items() if cost.is_heavy} or costs
        cheapest = min(costs, key=lambda name: costs[name].seconds)
        is_dear = costs[cheapest].seconds > LEFT_FILE or costs[cheapest].is_heavy
        return (cheapest,) if path in END_TO_END or not is_dear else ()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lakeconf")
    group.addoption("--tier", choices=["quick", "rest", "all"], default="all", help="Run only the tests of a tier.")
    group.addoption("--write-costs", action="store_true", help="Measure all tests, and write tests/costs.txt.")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--tier") != "quick" or collection_path.suffix != ".py":
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if _choice(config).is_left_out(path) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("--tier")
    if tier == "all":
        return
    choice, taken = _choice(config), defaultdict[str, int](int)
    quick, rest = [], []
    for item in sorted(items, key=lambda item: item.nodeid):
        name = item.nodeid.partition("[")[0]
        limit = choice.cases(name)
        taken[name] += 1
        (quick if limit is None or taken[name] <= limit else rest).append(item)
    chosen = set(quick if tier == "quick" else rest)
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]


_HEAVY = {"spark", "classic_session", "only_connect_session", "postgres_server", "s3_server", "connect_server"}


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> object:
    outcome = yield
    report = outcome.get_result()  # type: ignore[attr-defined]
    if _HEAVY & set(getattr(item, "fixturenames", ())):
        report.user_properties.append(("heavy", True))


_measured: dict[str, float] = defaultdict(float)
_heavy: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _measured[report.nodeid] += report.duration
    if ("heavy", True) in report.user_properties:
        _heavy.add(report.nodeid.partition("[")[0])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not session.config.getoption("--write-costs") or hasattr(session.config, "workerinput"):
        return
    cases: dict[str, list[float]] = defaultdict(list)
    for nodeid, seconds in _measured.items():
        cases[nodeid.partition("[")[0]].append(seconds)
    lines = (
        f"{statistics.median(times):.3f} {'heavy' if name in _heavy else 'light'} {name}\n"
        for name, times in sorted(cases.items())
    )
    COSTS.write_text("".join(lines), "utf-8")


def _choice(config: pytest.Config) -> Choice:
    if not hasattr(config, "_lakeconf_choice"):
        config._lakeconf_choice = Choice(read_costs())
    return config._lakeconf_choice
