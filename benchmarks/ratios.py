"""Times alternatives against each other in one run, and prints ratios; absolute times mean nothing."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One measured comparison.

    Attributes:
        what: What was done.
        ratio: Median time of ours by the median time of the rival's.
        rival: Who it is compared with.
        goal: The ratio that it should not exceed; None where there is none.
    """

    what: str
    ratio: float
    rival: str
    goal: float | None = None


def medians(alternatives: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Median time of each alternative in seconds, after one warm-up; they take turns, so that noise hits all alike."""
    for run in alternatives.values():
        run()
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    for _ in range(repeats):
        for name, run in alternatives.items():
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return {name: statistics.median(taken) for name, taken in times.items()}


def compare(
    what: str, ours: Callable[[], object], rival: str, theirs: Callable[[], object], *, goal: float | None = None
) -> Result:
    """Measures ours against a rival's and prints the row."""
    taken = medians({"ours": ours, "theirs": theirs})
    result = Result(what, taken["ours"] / taken["theirs"], rival, goal)
    print(row(result), flush=True)
    return result


HEADER = "| what | ratio | against | goal | |\n|---|---|---|---|---|"


def row(result: Result) -> str:
    """A row of a Markdown table."""
    if result.goal is None:
        goal, verdict = "none", ""
    else:
        missed = result.ratio / result.goal - 1
        goal, verdict = f"≤ {result.goal:g}", "reached" if missed <= 0 else f"missed by {missed:.0%}"
    return f"| {result.what} | {result.ratio:.2f} | {result.rival} | {goal} | {verdict} |"
