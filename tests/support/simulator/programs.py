"""What the processes of a schedule do, and what they know about the outcome of each write."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from lakeconf.errors import CommitUnknownError, LakeconfError
from simulator.scheduler import Killed, Process

if TYPE_CHECKING:
    from lakeconf import Lake
    from simulator.world import World


class Outcome(enum.Enum):
    """What a process knows about a write."""

    ACKNOWLEDGED = enum.auto()
    REFUSED = enum.auto()
    UNKNOWN = enum.auto()


@dataclass
class Done:
    """A write."""

    kind: str  # `append`, `both`, `keyed`, `delete` or `increment`
    value: int  # the row; of a delete, the deleted row; of an increment, unused
    outcome: Outcome = Outcome.UNKNOWN  # the outcome
    error: str = ""  # the error, as text
    damaged: bool = False  # True if the error said that files of the commit are missing


@dataclass
class Programs:
    """The programs of one schedule."""

    world: World  # the world
    done: list[Done] = field(default_factory=list)  # the writes, in the order in which they began
    _next: int = 1000

    def processes(self) -> list[Process]:
        """The processes of the schedule."""
        chance = self.world.random
        writers = [Process(f"writer{number}", self._writer) for number in range(chance.choice([1, 2, 2, 2, 3, 4]))]
        maintenance = [Process("maintenance", self._maintenance)] if chance.random() < 0.6 else []
        return [*writers, *maintenance]

    def _writer(self, process: Process) -> None:
        lake = self._open()
        if lake is None:
            return
        kinds = [self._append, self._both, self._keyed, self._delete, self._increment, self._increment]
        for _ in range(self.world.random.randint(1, 3)):
            self.world.random.choice(kinds)(process, lake)
        self._close(lake)

    def _maintenance(self, process: Process) -> None:
        lake = self._open()
        if lake is None:
            return
        for _ in range(self.world.random.randint(1, 3)):
            now = self.world.scheduler.now
            moment = datetime.fromtimestamp(now + 1 if self.world.forced else now - 86_400, UTC)
            maintain = lake.maintenance
            steps: list[Callable[..., Any]] = [maintain.cleanup, maintain.cleanup, maintain.expire_snapshots]
            run = self.world.random.choice(steps)
            try:
                run(older_than=moment, force=True)
            except (LakeconfError, KeyboardInterrupt):
                continue
        self._close(lake)

    def _open(self) -> Lake | None:
        for _ in range(3):
            try:
                return self.world.store.open()
            except (LakeconfError, KeyboardInterrupt):
                continue
        return None

    def _close(self, lake: Lake) -> None:
        try:
            lake.close()
        except (LakeconfError, KeyboardInterrupt):
            return

    def _append(self, process: Process, lake: Lake) -> None:
        self._run(process, lake, "append", self._value(), lambda value: lake.table("events").append([value]))

    def _both(self, process: Process, lake: Lake) -> None:
        def write(value: int) -> int:
            with lake.transaction() as transaction:
                transaction.table("events").append([value])
                transaction.table("audit").append([value])
            return lake.snapshot_id

        self._run(process, lake, "both", self._value(), write)

    def _keyed(self, process: Process, lake: Lake) -> None:
        """Writes a batch that other processes may write as well, and repeats the write until it is acknowledged."""
        value = self.world.random.randint(1, 3)
        for _ in range(3):
            done = self._run(
                process,
                lake,
                "keyed",
                value,
                lambda value: lake.table("events").append([value], idempotency_key=f"batch-{value}"),
            )
            if done.outcome is Outcome.ACKNOWLEDGED:
                return

    def _delete(self, process: Process, lake: Lake) -> None:
        value = self._value()
        done = self._run(process, lake, "append", value, lambda value: lake.table("events").append([value, -value]))
        if done.outcome is Outcome.ACKNOWLEDGED:
            self._run(process, lake, "delete", value, lambda value: lake.table("events").delete(f"id = {value}"))

    def _increment(self, process: Process, lake: Lake) -> None:
        """Reads a number and replaces it by its successor, so that a lost update is a wrong number."""

        def alone(_: int) -> int:
            lake.refresh()
            (number,) = self._scan(lake)
            return lake.table("counter").overwrite([number + 1])

        def in_transaction(_: int) -> int:
            lake.refresh()
            with lake.transaction() as transaction:
                (number,) = self._scan(transaction)
                transaction.table("counter").overwrite([number + 1])
            return lake.snapshot_id

        self._run(process, lake, "increment", 0, self.world.random.choice([alone, in_transaction]))

    def _run(self, process: Process, lake: Lake, kind: str, value: int, write: Callable[[int], int]) -> Done:
        done, before = Done(kind, value), lake.snapshot_id
        self.done.append(done)
        with self.world.write(process):
            try:
                snapshot = write(value)
                done.outcome = Outcome.ACKNOWLEDGED
                if lake.snapshot_id < snapshot:
                    self.world.problems.append(f"the session reads {lake.snapshot_id}, before its commit {snapshot}")
            except CommitUnknownError as error:
                done.error = str(error)
            except LakeconfError as error:
                done.error = f"{type(error).__name__}: {error}"
                done.damaged = "was committed, but its reply was lost" in str(error)
                done.outcome = Outcome.ACKNOWLEDGED if done.damaged else Outcome.REFUSED
            except KeyboardInterrupt:
                done.error = "interrupted"
            except Killed:
                done.error = "killed"
                raise
        if lake.snapshot_id < before:
            self.world.problems.append(f"the session moved back from {before} to {lake.snapshot_id}")
        return done

    def _scan(self, lake: Lake) -> Any:
        return lake.table("counter").scan()

    def _value(self) -> int:
        self._next += 1
        return self._next
