"""The faults of a schedule: what goes wrong at which call."""

from __future__ import annotations

import enum
import random
import re
from dataclasses import dataclass

from simulator.duckdb_model import TOUCHES_FILES


class Fault(enum.Enum):
    """A fault at a call."""

    LOST_BEFORE = "the connection breaks before the call"
    LOST_AFTER = "the connection breaks after the call took effect"
    IN_FLIGHT = "the connection breaks, and the server applies the commit later"
    OUTAGE = "the connection breaks after the call took effect, and the server cannot be reached for a while"
    STORAGE_BEFORE = "the storage fails before the call"
    STORAGE_AFTER = "the storage fails after the call took effect"
    LOCKED = "the catalog is locked"
    INTERRUPT_BEFORE = "a signal arrives before the call"
    INTERRUPT_AFTER = "a signal arrives after the call took effect"
    KILL_BEFORE = "the process is killed before the call"
    KILL_AFTER = "the process is killed after the call took effect"
    KILL_IN_FLIGHT = "the process is killed, and the server applies the commit later"
    LOSE_LOCK = "the connection or file of a lock is lost"


# Statements that DuckDB answers without the server.
LOCAL = re.compile(
    r"SET |LOAD |CREATE OR REPLACE |USE \"dev|DETACH |SELECT system|SELECT loaded|SELECT name, secret|SELECT options|"
    r"COPY |SELECT [a-z0-9, ]+ FROM (?:read_|glob)|SELECT 1 FROM duckdb_|FROM ducklake_last_committed|"
    r"ATTACH 'ducklake::memory|.*__lakeconf_removal|.*sqlite_master"
)


@dataclass
class Faults:
    """The faults of one schedule."""

    random: random.Random  # the source of all decisions
    rate: float  # the probability of a fault at a call
    at_commit: float  # the probability of a fault at COMMIT
    on_server: bool  # True if the catalog is on a server; False if it is a file
    may_lose_locks: bool  # True if locks can be lost and commits can outlive their process
    left: int = 6  # the number of faults that may still happen

    def choose(self, sql: str) -> Fault | None:
        """The fault at this call, or None."""
        commits = sql == "COMMIT"
        rate = self.at_commit if commits else self.rate
        if not self.left or not rate or self.random.random() >= rate:
            return None
        self.left -= 1
        return self.random.choice(self._possible(sql, commits=commits))

    def _possible(self, sql: str, *, commits: bool) -> list[Fault]:
        found = [Fault.INTERRUPT_BEFORE, Fault.INTERRUPT_AFTER, Fault.KILL_BEFORE, Fault.KILL_AFTER]
        if not LOCAL.match(sql):
            found += [Fault.LOST_BEFORE, Fault.LOST_AFTER] * 3 if self.on_server else [Fault.LOCKED] * 2
        if TOUCHES_FILES.match(sql):
            found += [Fault.STORAGE_BEFORE, Fault.STORAGE_AFTER] * 2
        if commits and self.on_server:
            found += [Fault.LOST_AFTER, Fault.OUTAGE, Fault.IN_FLIGHT] * 3
        if self.may_lose_locks:
            found += [Fault.LOSE_LOCK] * 2
            if commits and self.on_server:
                found += [Fault.KILL_IN_FLIGHT] * 2
        return found
