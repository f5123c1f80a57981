"""What depends on the version of Spark: tests that older ones cannot run, and the comparisons with DuckDB's rows.

A pytest plugin. `--write-matrix` writes the numbers of comparisons to docs/platforms.md.
"""

from __future__ import annotations

from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "platforms.md"
WAYS = ("classic", "Connect", "data source")
OUTCOMES = ("equal", "rejected", "wrong")
_COUNTED = Counter[tuple[str, str]]()


def way_of(spark: SparkSession) -> str:
    """How a session reads a lake with `Table.scan`."""
    return "classic" if hasattr(spark, "sparkContext") else "Connect"


def count(way: str, outcome: str) -> None:
    """Counts one comparison."""
    assert way in WAYS
    assert outcome in OUTCOMES
    _COUNTED[way, outcome] += 1


def row_of(spark: str, counted: Counter[tuple[str, str]]) -> str:
    """The row of a version of Spark in the table of the page."""
    cells = ("; ".join(f"{counted[way, outcome]:,}" for outcome in OUTCOMES) for way in WAYS)
    return f"| {spark} | {' | '.join(cells)} |"


def with_row(page: str, row: str) -> str:
    """The page with the row in place of that of the same minor version."""
    start = row[: len("| 4.0.")]
    lines = page.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith(start))
    return "\n".join([*lines[:at], row, *lines[at + 1 :]]) + "\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-matrix", action="store_true", help="Write the numbers of comparisons to the page.")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs_spark(version): what it tests came with this version of Spark")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = Version(version("pyspark"))
    marks = ((item, item.get_closest_marker("needs_spark")) for item in items)
    left_out = [item for item, mark in marks if mark is not None and here < Version(mark.args[0])]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-matrix"):
        PAGE.write_text(with_row(PAGE.read_text("utf-8"), row_of(version("pyspark"), _COUNTED)), "utf-8")
