"""Runs processes in one operating system process, one at a time, in an order that one seed decides.

Each simulated process is a thread, and exactly one thread runs. At each step, a call that leaves lakeconf, the
scheduler may continue with another process.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

# A schedule that takes more steps is stuck. The longest of 50,000 schedules took 12,000.
MOST_STEPS = 60_000


class Killed(BaseException):
    """The process was killed: it has no effect from here on, whatever its code does with this exception."""


class StuckError(AssertionError):
    """The schedule does not end."""


@dataclass(eq=False)
class Process:
    """A simulated process."""

    name: str  # its name in the trace
    program: Callable[[Process], None]  # what it does
    killed: bool = False  # True if it was killed; its calls have no effect
    ended: bool = False  # True if its program has ended
    wakes: float = 0.0  # the virtual time until which it sleeps
    unreachable_until: float = 0.0  # the virtual time until which it cannot reach the server
    error: BaseException | None = None  # an error that no program may raise, so lakeconf or the simulator has a bug
    baton: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))


class Scheduler:
    """Decides at random which process runs, and keeps the virtual time."""

    def __init__(self, random: random.Random) -> None:
        self.random = random
        self.now = 1_800_000_000.0
        self.steps = 0
        self.trace: list[str] = []
        self.pauses = 0
        self.running: Process | None = None
        self._switches = random.choice([0.02, 0.1, 0.4])
        self._pauses = random.choice([0.0, 0.0, 0.002])
        self._all: list[Process] = []
        self._done = threading.Semaphore(0)

    def run(self, processes: list[Process]) -> None:
        """Runs processes until all of them have ended."""
        self._all = processes
        threads = [threading.Thread(target=self._run, args=[process], daemon=True) for process in processes]
        for thread in threads:
            thread.start()
        self._hand_on()
        self._done.acquire()
        for thread in threads:
            thread.join()
        self.running = None
        for process in processes:
            if process.error is not None:
                raise process.error

    def step(self, what: str) -> None:
        """A point at which another process may continue; called before each call that leaves lakeconf."""
        process = self._counted()
        if process is None:
            return
        self.trace.append(f"{process.name}: {what}")
        if self._pauses and self.random.random() < self._pauses:
            self.pauses += 1
            self.sleep(self.random.uniform(0, 400))
        elif self.random.random() < self._switches:
            self._switch(process)

    def sleep(self, seconds: float) -> None:
        """Lets virtual time pass for the running process."""
        process = self._counted()
        if process is None:
            self.now += seconds
            return
        process.wakes = self.now + seconds
        self._switch(process)

    def _counted(self) -> Process | None:
        """The running process, after one more step."""
        process = self.running
        if process is None:
            return None
        if process.killed:
            raise Killed
        self.steps += 1
        if self.steps > MOST_STEPS:
            raise StuckError(f"more than {MOST_STEPS} steps")
        return process

    def _run(self, process: Process) -> None:
        process.baton.acquire()
        try:
            process.program(process)
        except Killed:
            pass
        except BaseException as error:  # noqa: BLE001 - raised by `run`
            process.error = error
        process.ended = True
        self._hand_on()

    def _switch(self, process: Process) -> None:
        if self._hand_on() is not process:
            process.baton.acquire()

    def _hand_on(self) -> Process | None:
        """Chooses the next process and wakes it, unless it is the running one."""
        before, alive = self.running, [process for process in self._all if not process.ended]
        if not alive:
            self._done.release()
            return None
        ready = [process for process in alive if process.wakes <= self.now]
        if ready:
            chosen = self.random.choice(ready)
        else:
            chosen = min(alive, key=lambda process: process.wakes)
            self.now = chosen.wakes
        self.running = chosen
        if chosen is not before:
            chosen.baton.release()
        return chosen
