"""The tiers of the tests: `make test` runs those that answer quickly, `make test-all` runs everything. A pytest plugin.

Both leave cases of dear functions to `make prove`. No test is marked. `make test-costs` measures all tests and writes
tests/costs.txt, and `Choice` turns costs into tiers. A test without a cost is quick, so a new test always runs. A test
that became slow leaves the tier when costs are measured again.
"""

from __future__ import annotations

import re
import statistics
import zlib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from strength import PROVE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
COSTS = ROOT / "tests" / "costs.txt"
# Seconds of a case on two quiet cores, with its fixtures.
CHEAP = 0.07  # all cases of such a function are quick
ONE_CASE = {"core": 0.8, "other": 0.5}  # one case of such a function is quick
LEFT_FILE = 2.0  # one case of a file that would have none
# Functions of files that read lakeconf's source are quick up to this: any change can break their rules.
SOURCE_RULES = 3.0
_READS_SOURCE = re.compile(r"^import ast$|^from source_tree import .*(sources|all_imports)", re.MULTILINE)
CORE = ("catalog", "commit", "connection", "guard", "histories", "lake", "security", "write")
# One case of these functions is quick whatever it costs: classic sessions, Connect and the data source from end to end.
END_TO_END = frozenset(
    {
        "tests/conformance/test_lake.py::test_the_life_of_a_table_in_a_lake spark",
        "tests/engines/spark/connect/test_engine.py::test_scan_is_a_frame_of_the_session spark",
        "tests/engines/spark/connect/test_engine.py::test_spark_writes_the_files_of_an_append spark",
        "tests/test_pyspark_lakeconf.py::test_a_table_is_read_with_its_types spark",
    }
)
# Without `make prove`, a dear function runs on one of its catalogs, another one for each function.
ONE_CATALOG = {True: 0.5, False: 2.0}  # on Spark, and without
# Without `make prove`, the cases of a function that is not cheap run for this many seconds at most, but at least one.
FUNCTION = 1.0
EVERY_CATALOG = ("tests/conformance/", "tests/differential/")
CATALOGS = {"duckdb", "postgres", "sqlite"}
_SPARK = {"spark", "classic_session", "connect", "connect_session", "connect_url", "only_connect_session"}


def group_of(item: pytest.Item) -> str:
    """The function of a case, and whether the case needs Spark: `path::function` or `path::function spark`."""
    name, _, parameters = item.nodeid.partition("[")
    needs = _SPARK & set(getattr(item, "fixturenames", ())) or "spark" in parameters
    return f"{name} spark" if needs else name


def reads_source(path: str) -> bool:
    """True if a file of tests reads the source of lakeconf."""
    file = ROOT / path
    return file.exists() and bool(_READS_SOURCE.search(file.read_text("utf-8")))


class Cost(NamedTuple):
    """The median of the seconds of a group's cases, and their number."""

    seconds: float
    cases: int


class Choice:
    """Decides how many cases of each group are quick, from their costs."""

    def __init__(self, costs: dict[str, Cost]) -> None:
        self._costs = costs
        self._files: dict[str, list[str]] = defaultdict(list)
        for group in costs:
            self._files[group.partition("::")[0]].append(group)
        self._one = {group for path, groups in self._files.items() for group in self._chosen(path, groups)}

    def cases(self, group: str) -> int | None:
        """How many cases of a group are quick; None for all."""
        cost = self._costs.get(group)
        if cost is None or cost.seconds <= CHEAP:
            return None
        return 1 if group in self._one else 0

    def on_one_catalog(self, group: str) -> bool:
        """True if a function is so dear that it runs on one of its catalogs."""
        cost = self._costs.get(group)
        is_dear = cost is not None and cost.seconds > ONE_CATALOG[group.endswith(" spark")]
        return is_dear and not PROVE and not group.startswith(EVERY_CATALOG)

    def share(self, group: str) -> int | None:
        """How many cases of a group run without `make prove`; None for all."""
        cost = self._costs.get(group)
        if cost is None or cost.seconds <= CHEAP or PROVE or group.startswith(EVERY_CATALOG):
            return None
        return max(1, int(FUNCTION / cost.seconds))

    def seconds(self) -> float:
        """The seconds of all quick cases, on one core."""
        return sum(
            cost.seconds * (cost.cases if quick is None else quick)
            for group, cost in self._costs.items()
            for quick in [self.cases(group)]
        )

    def is_left_out(self, path: str) -> bool:
        """True if no case of a file is quick. The file is not even imported, so new functions in it wait."""
        groups = self._files.get(path, [])
        return bool(groups) and all(self.cases(group) == 0 for group in groups)

    def _chosen(self, path: str, groups: list[str]) -> Iterator[str]:
        """The groups of a file of which one case is quick."""
        limit = SOURCE_RULES if reads_source(path) else ONE_CASE["core" if path.split("/")[1] in CORE else "other"]
        quick = [group for group in groups if self._costs[group].seconds <= limit or group in END_TO_END]
        yield from quick
        cheapest = min(groups, key=self._costs.__getitem__)
        if not quick and self._costs[cheapest].seconds <= LEFT_FILE:
            yield cheapest


CHOICE = pytest.StashKey[Choice]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("lakeconf")
    group.addoption("--tier", choices=["quick", "rest", "all"], default="all", help="Run only the tests of a tier.")
    group.addoption("--write-costs", action="store_true", help="Measure the tests, and update tests/costs.txt.")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[CHOICE] = Choice(read_costs())
    if config.getoption("--write-costs") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Costs())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    if config.getoption("--tier") != "quick" or collection_path.suffix != ".py":
        return None
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if config.stash[CHOICE].is_left_out(path) else None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tier = config.getoption("--tier")
    if not any("[" in argument for argument in config.args):  # a chosen case runs
        leave_out(config, items, on_other_catalogs(items, config.stash[CHOICE]))
        leave_out(config, items, beyond_their_share(items, config.stash[CHOICE]))
    if tier == "all":
        return
    taken: dict[str, int] = defaultdict(int)
    quick = set()
    for item in sorted(items, key=lambda item: item.nodeid):
        group = group_of(item)
        limit = config.stash[CHOICE].cases(group)
        taken[group] += 1
        if limit is None or taken[group] <= limit:
            quick.add(item)
    leave_out(config, items, [item for item in items if (item in quick) is not (tier == "quick")])
    if tier == "quick":  # the first process gets the first tests, so that only one of them starts Spark
        items.sort(key=lambda item: not group_of(item).endswith(" spark"))


def on_other_catalogs(items: list[pytest.Item], choice: Choice) -> list[pytest.Item]:
    """The cases of dear functions on other catalogs than the one that stands for all."""
    dear: dict[str, list[tuple[pytest.Item, set[str]]]] = defaultdict(list)
    for item in items:
        parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
        catalogs = {value for value in parameters if isinstance(value, str)} & CATALOGS
        if catalogs and choice.on_one_catalog(group := group_of(item)):
            dear[group].append((item, catalogs))
    left_out = []
    for group, cases in dear.items():
        every = sorted(set().union(*(catalogs for _, catalogs in cases)))
        chosen = every[zlib.crc32(group.encode()) % len(every)]
        left_out += [item for item, catalogs in cases if chosen not in catalogs]
    return left_out


def beyond_their_share(items: list[pytest.Item], choice: Choice) -> list[pytest.Item]:
    """The cases of dear functions that only `make prove` runs; the others are spread over all."""
    groups: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        groups[group_of(item)].append(item)
    left_out = []
    for group, cases in groups.items():
        share = min(choice.share(group) or len(cases), len(cases))
        run = {number * len(cases) // share for number in range(share)}
        left_out += [case for number, case in enumerate(cases) if number not in run]
    return left_out


def leave_out(config: pytest.Config, items: list[pytest.Item], others: list[pytest.Item]) -> None:
    config.hook.pytest_deselected(items=others)
    left_out = set(others)
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report: pytest.TestReport = yield  # type: ignore[assignment]
    if item.config.getoption("--write-costs"):
        report.user_properties.append(("group", group_of(item)))
    return report  # type: ignore[return-value]


class Costs:
    """Adds up the seconds of each case, in the process that reports them."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[str(dict(report.user_properties)["group"])][report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        measured = {
            group: Cost(statistics.median(times.values()), len(times)) for group, times in self._seconds.items()
        }
        write_costs(read_costs() | measured)


def read_costs() -> dict[str, Cost]:
    """The cost of each group."""
    lines = COSTS.read_text("utf-8").splitlines() if COSTS.exists() else []
    parts = (line.split(" ", 2) for line in lines)
    return {group: Cost(float(seconds), int(cases)) for seconds, cases, group in parts}


def write_costs(costs: dict[str, Cost]) -> None:
    """Writes the costs of the groups whose files exist."""
    files = {path for path in {group.partition("::")[0] for group in costs} if (ROOT / path).exists()}
    known = (group for group in sorted(costs) if group.partition("::")[0] in files)
    COSTS.write_text("".join(f"{costs[group].seconds:.3f} {costs[group].cases} {group}\n" for group in known), "utf-8")
