"""Processes that maintain a lake and die at a given step; run as a script, which forks a process for each task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from writing_process import ForkingProcess, die_at_byte, forks, kill

from lakeconf.connection.connection import Connection
from lakeconf.lake import rewriting, staged_rewriting

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


class Maintainers(ForkingProcess):
    """Processes that maintain lakes and die."""

    def __init__(self) -> None:
        super().__init__(__file__)

    def run(self, config: dict[str, Any], death: Death) -> int:
        """Maintains the lake in a process that dies then; returns its exit code, negative for a signal."""
        code: int = self.answers(config=config, death=death)[-1][1]
        return code


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


def _maintain(store: Store, task: dict[str, Any]) -> None:
    rewriting.FILES_READ = staged_rewriting.FILES_READ = 5  # type: ignore[attr-defined]
    with store.open() as lake:
        _die(Death(*task["death"]))
        lake.maintenance.compact()


if __name__ == "__main__":
    forks(_maintain)
