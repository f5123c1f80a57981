"""The faults that strike a process of a history, and how to disable the protection of lakeconf."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from writing_process import FIRST_BYTES, kill

from lakeconf.catalog import definitions
from lakeconf.commit import transaction_commit as transactions
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.guard.guard import LakeGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from history_plan import Task

# The commits of a process at which it suffers a fault in any case, if the fault is among those of its task.
_CERTAIN = {1: "clock", 3: "pause", 6: "kill"}
_DAY = 86_400
_TIMES = (-400 * _DAY, -3 * _DAY, -3600, 3600, 3 * _DAY, 400 * _DAY)


class WrongClock:
    """The clock of this process, which someone sets.

    Python's `time.time` shows the wrong time. DuckDB takes the time from the system, whose clock the tests leave alone:
    instead, the time of each snapshot is set in the catalog immediately after its commit, as if the clock that DuckLake
    asked (this machine's, or that of the catalog's server) had been wrong. The times of files are right.
    """

    def __init__(self) -> None:
        self.seconds = 0
        self._real = time.time

    def install(self) -> None:
        """Replaces `time.time`, and lets an open lake see the time of a snapshot change, which only this clock does."""
        time.time = lambda: self._real() + self.seconds
        definitions.__dict__["_time"] = lambda _: None

    def stamp(self, connection: Connection, execute: Callable[..., Any]) -> None:
        """Changes the time of the snapshot that a connection has just committed."""
        if not self.seconds:
            return
        # The catalog may be locked; then the time of this snapshot is right.
        with contextlib.suppress(LakeconfError):
            ((version,),) = connection.rows("FROM ducklake_last_committed_snapshot('dev')")
            moment = f"now() + INTERVAL '{self.seconds} seconds'"
            snapshots = "__ducklake_metadata_dev.ducklake_snapshot"
            execute(connection, f"UPDATE {snapshots} SET snapshot_time = {moment} WHERE snapshot_id = {version}")


CLOCK = WrongClock()


def arm(task: Task) -> None:
    """Lets faults strike at commits, and disables the protection of lakeconf if the task says so."""
    begun = sum(task.begun(thread) for thread in range(task.threads))
    execute, chance, commits = Connection.execute, random.Random(f"{task.seed} {task.process} {begun}"), [0]  # noqa: S311
    # A file that grows beyond the limit kills the process; see `writing_process.die_at_byte`.
    sys.dont_write_bytecode = True
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if "clock" in task.faults:
        CLOCK.install()

    def drawn() -> str:
        commits[0] += 1
        certain = "" if begun else _CERTAIN.get(commits[0], "")
        if certain in task.faults:
            return certain
        return chance.choice(task.faults) if task.faults and chance.random() < 0.05 else ""

    def executing(self: Connection, sql: str, parameters: Any = None) -> Any:
        if sql != "COMMIT":
            return execute(self, sql, parameters)
        dies = _strike(drawn(), chance)
        done = execute(self, sql, parameters)
        if dies:
            kill()
        CLOCK.stamp(self, execute)
        return done

    Connection.execute = executing  # type: ignore[method-assign]
    if task.unprotected:
        unprotect(setattr)


def _strike(fault: str, chance: random.Random) -> bool:
    """A fault before COMMIT; returns True if the process dies during COMMIT or after it."""
    if fault == "clock":
        CLOCK.seconds = chance.choice(_TIMES)
    if fault == "pause":
        os.kill(os.getpid(), signal.SIGSTOP)
    if fault != "kill":
        return False
    where = chance.choice(("before", "in", "after"))
    if where == "before":
        kill()
    if where == "in":
        limit = chance.choice(list(FIRST_BYTES.values()))
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    return True


def unprotect(replace: Callable[[Any, str, Any], None]) -> None:
    """Disables the locks of tables and the conflict checks of lakeconf; `replace` sets an attribute."""
    replace(transactions, "check_conflicts", lambda *_: None)
    replace(transactions, "check_delete_files", lambda *_: None)
    replace(transactions, "without_retries", lambda _: contextlib.nullcontext())
    replace(LakeGuard, "__call__", lambda *_: contextlib.nullcontext())
