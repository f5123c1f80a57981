"""Locks of a lake: for its tables, for its writers together, and for the maintenance that removes what writers need.

DuckLake lets two overwrites of an empty table both commit, two deletes on one file corrupt it, and an expiry beside a
commit use the number of a snapshot twice. Every writer shares the lock of the lake from its first staged file until
the reply to its commit; maintenance that removes snapshots or files holds it alone. What relies on rows that it has
read holds the locks of its tables too, from before its check until the reply.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from typing import Protocol

from lakeconf.errors import CommitError
from lakeconf.logs import EventLogger

WAIT_SECONDS = 300.0
_FIRST_PAUSE_SECONDS = 0.01
_LONGEST_PAUSE_SECONDS = 0.5

_log = EventLogger("locks")


class Held(Protocol):
    """A lock that is held."""

    def check(self) -> None:
        """Makes sure that the lock is still held.

        Raises:
            ConnectionFailed: It was lost, with the connection to the server that gave it.
        """
        ...

    def renew(self) -> None:
        """Takes the lock again if it was lost; called before a transaction begins.

        Raises:
            ConnectionFailed: The server cannot be reached.
            CommitError: Somebody else has held the lock for too long.
        """
        ...


class LakeLocks(Protocol):
    """The locks of one lake. Each is a context manager; locks of several threads and processes exclude each other."""

    def __call__(self, tables: Collection[str]) -> AbstractContextManager[Held]:
        """The locks of tables, by their full names."""
        ...

    def shared(self) -> AbstractContextManager[Held]:
        """The lock of the lake, which all writers hold together."""
        ...

    def exclusive(self) -> AbstractContextManager[Held]:
        """The lock of the lake, for one holder alone."""
        ...

    def close(self) -> None:
        """Closes the connection that the locks are held on."""
        ...


def pauses(limit_seconds: float | None = None) -> Iterator[None]:
    """Waits a little longer each time it is asked for the next item; ends when the limit is reached."""
    deadline = time.monotonic() + (WAIT_SECONDS if limit_seconds is None else limit_seconds)
    pause = _FIRST_PAUSE_SECONDS
    while time.monotonic() < deadline:
        yield
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def wait_for(attempt: Callable[[], bool], what: str, holders: Callable[[], str]) -> None:
    """Repeats an attempt to take a lock until it succeeds.

    Args:
        attempt: Tries once; True if the lock is held then.
        what: What is locked, for messages.
        holders: Describes who holds the lock; an empty text if nobody knows.

    Raises:
        CommitError: The lock was not free in time. The message names the holder.
    """
    waited_from: float | None = None
    for _ in pauses():
        if attempt():
            if waited_from is not None:
                _log.info("waited %.1f s for %s", time.monotonic() - waited_from, what)
            return
        if waited_from is None:
            waited_from = time.monotonic()
            _log.info("waiting for %s, held by %s", what, _described(holders))
    raise CommitError(
        f"{what} was not free for {WAIT_SECONDS:.0f} s: it is held by {_described(holders)}", hint="try again later"
    )


def _described(holders: Callable[[], str]) -> str:
    with contextlib.suppress(Exception):
        return holders() or "another process"
    return "another process"
