"""The server of the catalog: advisory locks, its clock, commits in flight; and writes to the bucket."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from simulator.bucket import File

if TYPE_CHECKING:
    from simulator.catalog import Catalog, LakeTransaction
    from simulator.duckdb_model import Session
    from simulator.scheduler import Scheduler

_LOCK = re.compile(r"pg_advisory_xact_lock(?P<shared>_shared)?\((?P<key>\d+)\)")
# As `lakeconf.guard.locks` asks for.
_LOCK_SECONDS = 2.0


@dataclass(frozen=True)
class InFlight:
    """A commit whose statements the server has received, but not yet applied."""

    changes: LakeTransaction  # the transaction
    snapshot: int  # the number of its snapshot


class Server:
    """The server; `values` are names for it, and `removes` is told the files that a cleanup is about to remove."""

    def __init__(
        self,
        catalog: Catalog,
        scheduler: Scheduler,
        values: random.Random,
        current_write: Callable[[], int | None],
        removes: Callable[[Sequence[str]], None],
    ) -> None:
        self.catalog, self._scheduler, self._values = catalog, scheduler, values
        self._current_write, self._removes = current_write, removes
        self.locks: list[tuple[int, Session, bool]] = []
        self.in_flight: list[InFlight] = []

    def now(self) -> float:
        """The time in seconds since 1970."""
        return self._scheduler.now

    def query(self, session: Session, sql: str) -> list[tuple[Any, ...]]:
        """Runs a query in PostgreSQL's dialect."""
        lock = _LOCK.search(sql)
        if lock is not None:
            self._take(session, int(lock["key"]), shared=lock["shared"] is not None)
        elif "LOCK TABLE" in sql:
            self.finish_commits()
        elif "pg_locks" in sql or "has_table_privilege" in sql or "relrowsecurity" in sql:
            return []
        elif "clock_timestamp" in sql:
            return [(self.now(),)]
        return [("1",)]

    def release(self, session: Session) -> None:
        """Releases the locks of a connection, as the server does when its transaction ends."""
        self.locks = [lock for lock in self.locks if lock[1] is not session]

    def finish_commits(self) -> None:
        """Applies the commits in flight, or fails them."""
        waiting, self.in_flight = self.in_flight, []
        for one in waiting:
            if self._scheduler.random.random() < 0.7:
                try:
                    self.catalog.commit(one.changes, self.now(), retries=0, at=one.snapshot)
                except duckdb.TransactionException:
                    continue

    def new_file(self, folder: str, content: Any, suffix: str = "") -> str:
        """Writes a file with a name of DuckLake's, and returns its path."""
        milliseconds = f"{int(self.now() * 1000):012x}"
        bits = f"{self._values.getrandbits(72):018x}"
        name = f"{milliseconds[:8]}-{milliseconds[8:]}-7{bits[:3]}-a{bits[3:6]}-{bits[6:]}"
        path = f"{folder}ducklake-{name}{suffix}.parquet"
        self.put(path, content)
        return path

    def put(self, path: str, content: Any) -> None:
        """Writes a file."""
        self.catalog.bucket.files[path] = File(content, self.now(), self._current_write())

    def remove(self, paths: Sequence[str]) -> None:
        """Removes the files of a cleanup."""
        self._removes(paths)
        self.catalog.bucket.remove(paths)

    def _take(self, session: Session, key: int, *, shared: bool) -> None:
        deadline = self.now() + _LOCK_SECONDS
        while any(held == key and not (shared and both) for held, other, both in self.locks if other is not session):
            if self.now() >= deadline:
                raise duckdb.IOException("canceling statement due to lock timeout")
            self._scheduler.sleep(0.5)
        self.locks.append((key, session, shared))
