"""Alternatives that take turns, so that a busy moment of the machine meets them all."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

REPEATS = 5
# What takes longer in all is not run again.
_ENOUGH = 12.0


@dataclass(frozen=True)
class Taken:
    """How long it took.

    Attributes:
        median: In seconds.
        runs: Of how many runs; the first, which warms up, counts only where there is no other.
    """

    median: float
    runs: int


def in_turns(alternatives: Mapping[str, Callable[[], object]]) -> dict[str, Taken]:
    """The median of five runs of each alternative, or of fewer where that would take long; the first two always run.

    Args:
        alternatives: What is run, by its name; what the others are compared with stands first, then lakeconf.
    """
    times: dict[str, list[float]] = {name: [] for name in alternatives}
    always = list(alternatives)[:2]
    for _ in range(1 + REPEATS):
        for name, run in alternatives.items():
            if name not in always and sum(times[name]) > _ENOUGH:
                continue
            started = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - started)
    return {
        name: Taken(statistics.median(taken[1:] or taken), len(taken[1:] or taken)) for name, taken in times.items()
    }
