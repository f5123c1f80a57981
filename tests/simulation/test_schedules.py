"""The commit protocol under faults at every call: each seed is one schedule, and all invariants hold after it.

To replay a seed: PYTHONPATH=tests/support .venv/bin/python -m simulator SEED --trace
"""

from __future__ import annotations

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import simulator
from simulator.schedule import run_schedule
from strength import PROVE

PARTS, SCHEDULES = (8, 2500) if PROVE else (2, 40)
FIRST = random.SystemRandom().randrange(10**9) if PROVE else 10_000


def check(seeds: list[int]) -> None:
    failed = [outcomes for outcomes in map(run_schedule, seeds) if outcomes.problems]
    shown = "\n".join(map(str, failed[:3]))
    assert not failed, f"{len(failed)} of {len(seeds)} schedules failed, {[one.seed for one in failed]}:\n{shown}"


@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_keeps_the_invariants(part: int) -> None:
    first = FIRST + part * SCHEDULES
    check(list(range(first, first + SCHEDULES)))


def test_a_seed_gives_the_same_schedule_in_every_process() -> None:
    seed = 172
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(Path(simulator.__file__).parents[1])}
    command = [sys.executable, "-m", "simulator", str(seed), "--trace"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    here = run_schedule(seed)
    lines = "\n".join([*here.trace, str(here), ""])
    assert len(here.trace) > 100
    assert _without_names(lines) == _without_names(done.stdout)


def _without_names(text: str) -> str:
    """A trace without the names that differ between processes: of folders, tables and the process itself."""
    text = re.sub(r"lakeconf-simulator-\w+|process \d+|\d+ AS pid|seconds\": [\d.]+", "…", text)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "…", text)
