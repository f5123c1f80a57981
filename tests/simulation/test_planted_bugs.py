"""The simulator can fail: each planted bug of the commit protocol breaks an invariant within 200 seeds."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from simulator.schedule import run_schedule

from lakeconf.commit import journal, recovery, transaction
from lakeconf.commit.committer import Commit
from lakeconf.commit.recovery import AttachedCatalog
from lakeconf.commit.session import Session
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
    session._snapshot_id = snapshot_id
    return snapshot_id


def finds_nothing(*_: object, **__: object) -> None:
    return None


BUGS = {
    "removes staged files of an unknown outcome": (Commit, "is_unknown", property(lambda _: False)),
    "recovery does not look for the token": (AttachedCatalog, "find", finds_nothing),
    "recovery does not wait for commits in progress": (recovery, "await_commits", finds_nothing),
    "removed files are not restored": (AttachedCatalog, "restore_written", finds_nothing),
    "the commit does not look for its keys": (journal, "find", lambda *_: {}),
    "conflicts are not checked": (transaction, "check_conflicts", finds_nothing),
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
