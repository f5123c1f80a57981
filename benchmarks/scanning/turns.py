"""Runs alternatives in turns, so that load on the machine affects all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

REPEATS = 5
# In seconds. An alternative that has taken longer in total is not run again.
_ENOUGH = 12.0


@dataclass(frozen=True)
class Taken:
    """Measured times.

    Attributes:
        median: The median in seconds.
        runs: The number of measured runs; the first one is a warm-up and only counts if it is the only one.
    """

    median: float
    runs: int


def in_turns(alternatives: Mapping[str, Callable[[], object]]) -> dict[str, Taken]:
    """The median of five runs of each alternative, or of fewer if they are slow; the first two always run.

    Args:
        alternatives: Functions by name; the reference first, then lakeconf.
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
