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
    with lock:
        ((shown,),) = writer.rows("SELECT system.main.current_setting('memory_limit')")
    # DuckDB cuts off a digit: `18.8 GiB` are 18.80 to 18.89. The middle is shown alike, so that it stays the same.
    number, unit = shown.split()
    before = f"{float(number) + 0.05:.2f} {unit}"
    try:
        with lock:
            _limit(writer, session.memory_limit)
        yield
    finally:
        # DuckDB's RESET changes the setting, but not the limit. A limit that is rejected may be in force.
        with lock:
            try:
                _limit(writer, before)
            except LakeconfError:  # the statement that lifts the limit can itself lack memory, which its failure frees
                _limit(writer, before)


def _limit(writer: Connection, size: str) -> None:
    writer.execute(f"SET memory_limit = {literal(size)}")


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
