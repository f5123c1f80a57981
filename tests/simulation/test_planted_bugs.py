"""The commit protocol under faults at every call: all invariants hold, and each planted bug breaks one of them.

To replay a seed: PYTHONPATH=tests/support .venv/bin/python -m simulator SEED --trace
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import simulator
from simulator.schedule import run_schedule
from strength import PROVE

from lakeconf.commit import journal, sql_commit, transaction_commit
from lakeconf.commit.driver import Attempt
from lakeconf.commit.session import Session
from lakeconf.commit.sql_commit import SqlCommit
from lakeconf.errors import LakeconfError
from lakeconf.guard.guard import LakeGuard
from lakeconf.guard.locks import ServerLocks

if TYPE_CHECKING:
    from collections.abc import Iterator


SEEDS = range(200)
# Only faults at COMMIT, because they find these bugs with fewer seeds.
COMMIT_FAULTS = (0.0, 0.4)


@contextlib.contextmanager
def no_lock(*_: object, **__: object) -> Iterator[None]:
    yield


def moves_back(session: Session, snapshot_id: int, **_: Any) -> int:
    session.snapshot_id = snapshot_id
    return snapshot_id


def finds_nothing(*_: object, **__: object) -> None:
    return None


BUGS = {
    "removes staged files of an unknown outcome": (Attempt, "is_unknown", property(lambda _: False)),
    "recovery does not look for the token": (SqlCommit, "find", finds_nothing),
    "recovery does not wait for commits in progress": (sql_commit, "await_commits", finds_nothing),
    "removed files are not restored": (SqlCommit, "restore_written", finds_nothing),
    "the commit does not look for its keys": (journal, "find", lambda *_: {}),
    "conflicts are not checked": (transaction_commit, "check_conflicts", finds_nothing),
    "a cleanup does not wait for writers": (LakeGuard, "removing", no_lock),
    "locks of a server exclude nobody": (ServerLocks, "_try", lambda *_, **__: True),
    "the session moves back": (Session, "advance", moves_back),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, broken = BUGS[bug]
    monkeypatch.setattr(owner, name, broken)
    for seed in SEEDS:
        try:
            if run_schedule(seed, COMMIT_FAULTS).problems:
                return
        except LakeconfError:  # not even the cleanup at the end works
            return
    pytest.fail(f"{len(SEEDS)} schedules did not find: {bug}")


PARTS, SCHEDULES = (8, 2500) if PROVE else (2, 40)
FIRST = random.SystemRandom().randrange(10**9) if PROVE else 10_000


def check(seeds: list[int]) -> None:
    failed = [outcomes for outcomes in map(run_schedule, seeds) if outcomes.problems]
    shown = "\n".join(map(str, failed[:3]))
    assert not failed, f"{len(failed)} of {len(seeds)} schedules failed, {[one.seed for one in failed]}:\n{shown}"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_schedule_keeps_the_invariants(part: int) -> None:
    first = FIRST + part * SCHEDULES
    check(list(range(first, first + SCHEDULES)))


@pytest.mark.slow
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
    text = re.sub(r"lakeconf-simulator-\w+|process \d+|\d+ AS pid|(?:seconds|cleaned)\": [\d.]+", "…", text)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "…", text)
