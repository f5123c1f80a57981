"""Locks of a lake: one for each table, and one for the lake, which writers share and maintenance holds exclusively.

DuckLake lets two concurrent overwrites of an empty table commit, lets two concurrent deletes corrupt a file, and uses a
snapshot number twice if an expiry runs during a commit. Every writer shares the lake's lock from its first staged file
until the reply to its commit; maintenance that removes snapshots or files holds it exclusively. A commit that depends
on rows it has read also holds the locks of its tables, from before its conflict check until the reply.
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
    """A held lock."""

    def check(self) -> None:
        """Checks that the lock is still held.

        Raises:
            ConnectionFailed: The lock was lost, together with the connection to its server.
        """
        ...

    def renew(self) -> None:
        """Takes the lock again if it was lost; called before a transaction begins.

        Raises:
            ConnectionFailed: The server cannot be reached.
            CommitError: Another process held the lock for too long.
        """
        ...


class LakeLocks(Protocol):
    """The locks of one lake, as context managers. They exclude other threads and other processes."""

    def __call__(self, tables: Collection[str]) -> AbstractContextManager[Held]:
        """The locks of tables, by their full names."""
        ...

    def shared(self) -> AbstractContextManager[Held]:
        """The lake's lock, shared by all writers."""
        ...

    def exclusive(self) -> AbstractContextManager[Held]:
        """The lake's lock, held exclusively."""
        ...


def pauses(limit_seconds: float | None = None) -> Iterator[None]:
    """Waits before each next item, a little longer each time; ends when the limit is reached."""
    deadline = time.monotonic() + (WAIT_SECONDS if limit_seconds is None else limit_seconds)
    pause = _FIRST_PAUSE_SECONDS
    while time.monotonic() < deadline:
        yield
        time.sleep(pause * random.uniform(0.5, 1))  # noqa: S311 - jitter
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


def wait_for(attempt: Callable[[], bool], what: str, holders: Callable[[], str]) -> None:
    """Repeats an attempt to take a lock until it succeeds.

    Args:
        attempt: Tries once; returns True if it took the lock.
        what: The name of the lock, for messages.
        holders: Describes the holders of the lock; an empty string if they are unknown.

    Raises:
        CommitError: The lock was not released in time. The message names the holder.
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
