"""Limits of maintenance: memory and time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta

from lakeconf.commit.session import Session
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.sql import literal


@contextlib.contextmanager
def limited_memory(session: Session) -> Iterator[None]:
    """Limits DuckDB's memory inside a `with` block, if the store has a limit."""
    if session.memory_limit is None:
        yield
        return
    writer, lock = session.writer, session.writer_lock
    try:
        with lock:
            writer.execute(f"SET memory_limit = {literal(session.memory_limit)}")
        yield
    finally:
        with lock:  # the value before is rounded, so it cannot be restored; a limit that is refused may be in force
            _reset(writer)


def _reset(writer: Connection) -> None:
    """Lifts the limit. The first attempt can itself lack memory, which its failure frees."""
    try:
        writer.execute("RESET memory_limit")
    except LakeconfError:
        writer.execute("RESET memory_limit")


@dataclass(frozen=True)
class TimeLimit:
    """A moment of the monotonic clock."""

    ends: float | None = None  # the moment, in seconds; None for no limit
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def after(cls, deadline: timedelta | None) -> TimeLimit:
        """The limit that ends after a time; None for no limit."""
        return cls(None if deadline is None else time.monotonic() + deadline.total_seconds())

    @property
    def is_over(self) -> bool:
        """True if no further step may begin."""
        return self.ends is not None and self.clock() >= self.ends
