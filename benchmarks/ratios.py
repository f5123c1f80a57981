"""Measures alternatives in one run and prints ratios; absolute times depend on the machine."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

# How much larger than recorded a ratio may be.
ALLOWED = 1.5
Clock = Callable[[], float]  # the time in seconds


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


def cpu_seconds() -> float:
    """The CPU time of this process and of those that it has run: other programs change it little."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


@dataclass(frozen=True)
class Line:
    """A ratio that every change must keep.

    Attributes:
        what: The measured operation.
        recorded: The ratio of the least times, when it was recorded.
        ours: Runs the operation with lakeconf.
        rival: The rival.
        theirs: Runs it with the rival.
        repeats: How often both run.
        clock: What is measured.
    """

    what: str
    recorded: float
    ours: Callable[[], object]
    rival: str
    theirs: Callable[[], object]
    repeats: int
    clock: Clock = cpu_seconds

    def is_kept(self) -> bool:
        """Prints the ratio; False if it is too large, and again when it is measured a second time."""
        print(f"| {self.what} | {self.rival} | {self.recorded:.2f} |", end="", flush=True)
        for remark in (" measured again:", " TOO SLOW"):
            taken = times({"ours": self.ours, "theirs": self.theirs}, self.repeats, self.clock)
            ratio = min(taken["ours"]) / min(taken["theirs"])
            kept = ratio <= ALLOWED * self.recorded
            print(f" {ratio:.2f}{'' if kept else remark}", end="", flush=True)
            if kept:
                break
        print(f" | {min(taken['ours']) * 1000:.0f} ms |", flush=True)
        return kept


def times(
    alternatives: Mapping[str, Callable[[], object]], repeats: int, clock: Clock = time.perf_counter
) -> dict[str, list[float]]:
    """The times of each alternative in seconds, after a warm-up, run in turns so that load affects them all."""
    for run in alternatives.values():
        run()
    taken: dict[str, list[float]] = {name: [] for name in alternatives}
    for _ in range(repeats):
        for name, run in alternatives.items():
            started = clock()
            run()
            taken[name].append(clock() - started)
    return taken


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
    taken = {name: statistics.median(each) for name, each in times({"ours": ours, "theirs": theirs}, repeats).items()}
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
