"""Processes that maintain a lake and die at a given step; run as a script, which forks a process for each task."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import traceback
from typing import TYPE_CHECKING, Any, NamedTuple

from writing_process import die_at_byte, kill, say

import lakeconf
from lakeconf.connection.connection import Connection
from lakeconf.lake import rewriting

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Store

# The steps of a transaction of DuckLake's maintenance, and of the reads between them; and those of a staged commit.
_STEPS = ("BEGIN", "CALL ducklake_", "COMMIT", "COPY (", "FROM system.main.ducklake_commit(")
BEFORE, INSIDE, AFTER = "before", "inside", "after"


class Death(NamedTuple):
    """The moment of a death."""

    how: str  # before or after a step, or inside it, when the process writes to a file
    step: int
    position: int = 0  # the first byte of a file that is not written


NEVER = Death(BEFORE, 0)


class Maintainers:
    """A process that has loaded all modules, and forks a process for each maintenance."""

    def __init__(self) -> None:
        command = [sys.executable, __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Maintainers:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def run(self, config: dict[str, Any], death: Death) -> int:
        """Maintains the lake in a process that dies then; returns its exit code, negative for a signal."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"config": config, "death": death}) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _die(death: Death) -> None:
    """Makes this process kill itself at the moment."""
    count = 0

    def counted(run: Callable[..., Any]) -> Callable[..., Any]:
        def running(self: Connection, sql: str, parameters: Any = None) -> Any:
            nonlocal count
            is_step = sql.startswith(_STEPS)
            count += is_step
            is_now = is_step and count == death.step
            if is_now and death.how == BEFORE:
                kill()
            if is_now and death.how == INSIDE:
                die_at_byte(death.position)
            done = run(self, sql, parameters)
            return kill() if is_now and death.how == AFTER else done

        return running

    Connection.execute, Connection.rows = counted(Connection.execute), counted(Connection.rows)  # type: ignore[method-assign]


def _maintain(store: Store, death: Death) -> None:
    rewriting.FILES_READ = 5
    with store.open() as lake:
        _die(death)
        lake.maintenance.compact()


def main() -> None:
    """Forks a process for each line of the input, and prints its exit code."""
    for name in ("lakeconf.lake.lake", "lakeconf.engines.duckdb", "narwhals", "pandas", "pytz", "sqlite3"):
        importlib.import_module(name)
    for line in sys.stdin:
        task = json.loads(line)
        # Opens nothing: DuckDB starts threads, which do not survive a fork.
        store = lakeconf.init(task["config"]).get_store("dev")
        process = os.fork()
        if process == 0:
            code = 1
            try:
                _maintain(store, Death(*task["death"]))
                code = 0
            except BaseException:  # noqa: BLE001 - the parent must not go on in two processes
                traceback.print_exc()
            os._exit(code)
        _, status = os.waitpid(process, 0)
        say(str(os.waitstatus_to_exitcode(status)))


if __name__ == "__main__":
    main()
