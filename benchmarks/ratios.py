"""Measures alternatives in one run and prints ratios; absolute times depend on the machine."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Result:
    """One measured comparison.

    Attributes:
        what: The measured operation.
        ratio: Our median time divided by the median time of the rival.
        rival: The rival.
        goal: The maximum for the ratio; None if there is no goal.
    """

    what: str
    ratio: float
    rival: str
    goal: float | None = None


def medians(alternatives: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Median time of each alternative in seconds, after a warm-up, run in turns so that load affects them all."""
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
    what: str,
    ours: Callable[[], object],
    rival: str,
    theirs: Callable[[], object],
    *,
    goal: float | None = None,
    repeats: int = 5,
) -> Result:
    """Compares our time with a rival's, and prints the row."""
    taken = medians({"ours": ours, "theirs": theirs}, repeats)
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
