"""Counts the comparisons of Spark's rows with DuckDB's; `--write-matrix` puts them into docs/platforms.md. A plugin."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

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


def row_of(version: str, counted: Counter[tuple[str, str]]) -> str:
    """The row of a version of Spark in the table of the page."""
    cells = ("; ".join(f"{counted[way, outcome]:,}" for outcome in OUTCOMES) for way in WAYS)
    return f"| {version} | {' | '.join(cells)} |"


def with_row(page: str, row: str) -> str:
    """The page with the row in place of that of the same minor version."""
    start = row[: len("| 4.0.")]
    lines = page.splitlines()
    (at,) = (number for number, line in enumerate(lines) if line.startswith(start))
    return "\n".join([*lines[:at], row, *lines[at + 1 :]]) + "\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-matrix", action="store_true", help="Write the numbers of comparisons to the page.")


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--write-matrix"):
        import pyspark  # slow; only for runs that use Spark

        PAGE.write_text(with_row(PAGE.read_text("utf-8"), row_of(pyspark.__version__, _COUNTED)), "utf-8")
