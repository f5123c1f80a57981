"""A simulated world: one lake, its server and bucket, and processes that run lakeconf on it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import types
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any
from unittest import mock

import duckdb

import lakeconf.lake.opening
from lakeconf.catalog.reader import CatalogReader
from lakeconf.commit import lost_reply, transaction, transaction_commit
from lakeconf.guard import guard, locks
from simulator.bucket import Bucket
from simulator.catalog import Catalog
from simulator.duckdb_model import DuckDBModel, Instance, Result, Session
from simulator.engine import SimulatedEngine
from simulator.faults import LOCAL, Fault, Faults
from simulator.scheduler import Killed, Process, Scheduler
from simulator.server import InFlight, Server

if TYPE_CHECKING:
    from lakeconf import Store
    from simulator.catalog import State

CONNECTION_LOST = "IO Error: server closed the connection unexpectedly"
STORAGE_FAILED = "IO Error: HTTP 503 Service Unavailable"
LOCKED = "TransactionContext Error: Failed to commit: database is locked"


_CONNECT = duckdb.connect


@dataclass(eq=False)
class Native:
    """A connection of a process, in the place of a duckdb connection."""

    world: World
    process: Process | None
    session: Session

    def __post_init__(self) -> None:
        self.world.natives.append(self)

    def execute(self, sql: str, parameters: Sequence[Any] | None = None) -> Result:
        return Result(self.world.call(self, " ".join(sql.split()), list(parameters or ())))

    def cursor(self) -> Native:
        return Native(self.world, self.process, Session(self.session.instance))

    def close(self) -> None:
        self.world.close(self)

    def interrupt(self) -> None:
        """Does nothing: no query runs while another one is answered."""


@dataclass(eq=False)
class Write:
    """A write of a process, for the files that it has written."""

    process: Process  # the process
    running: bool = True  # True until the write has ended
    protected: bool = True  # True while the lock of its process has not been lost


@dataclass
class World:
    """Everything outside lakeconf."""

    random: Random  # the source of all decisions of the schedule
    values: Random  # the source of names, so that they do not change the decisions
    on_server: bool  # True if the catalog is on a server; False if it is a file
    forced: bool  # True if cleanups remove files of any age; then locks are not lost, because `force` demands it
    rates: tuple[float, float]  # the probabilities of a fault at a call, and at COMMIT
    scheduler: Scheduler
    catalog: Catalog
    store: Store
    natives: list[Native] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    happened: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bucket = self.catalog.bucket
        self.server = Server(self.catalog, self.scheduler, self.values, self._current_write, self._check_removal)
        self.model = DuckDBModel(self.catalog, self.server)
        self.faults = Faults(self.random, *self.rates, self.on_server, may_lose_locks=not self.forced)

    @classmethod
    def new(cls, seed: int, template: Template, rates: tuple[float, float] | None = None) -> World:
        """The world of a seed; see `schedule.run_schedule`."""
        chance = Random(seed)  # noqa: S311 - a seed reproduces it
        on_server, forced = chance.random() < 0.7, chance.random() < 0.6
        # Many faults stop a schedule early, so some schedules only have faults at COMMIT.
        chosen = rates or chance.choice(
            [(0.0, 0.0), (0.0, 0.4), (0.0, 0.4), (0.001, 0.02), (0.004, 0.08), (0.015, 0.3)]
        )
        bucket = Bucket(dict(template.files))
        catalog = Catalog(template.state, bucket, template.data_path)
        store = template.on_server if on_server else template.on_file
        values = Random(seed + 1)  # noqa: S311 - a seed reproduces it
        return cls(chance, values, on_server, forced, chosen, Scheduler(chance), catalog, store)

    def connect(self, *_: object, config: Mapping[str, Any] | None = None, **__: object) -> Any:
        """`duckdb.connect` of the running process. A closed connection only parses, and is a real one."""
        if config and "lock_configuration" in config:
            return _CONNECT(config=dict(config))
        return Native(self, self.scheduler.running, Session(Instance()))

    def call(self, native: Native, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Runs a statement, perhaps with a fault."""
        process = self.scheduler.running
        self.scheduler.step(sql)
        out = process is not None and self.scheduler.now < process.unreachable_until and not LOCAL.match(sql)
        if native.session.lost or out:
            raise duckdb.IOException(CONNECTION_LOST)
        self._apply_commits_in_flight()
        fault = None if process is None else self.faults.choose(sql)
        if fault is None:
            return self.model.run(native.session, sql, parameters)
        assert process is not None
        self.happened.append(f"step {self.scheduler.steps}, {process.name}: {fault.value}: {sql[:100]}")
        return self._fail(fault, process, native.session, sql, parameters)

    def _fail(
        self, fault: Fault, process: Process, session: Session, sql: str, parameters: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        if fault is Fault.OUTAGE:
            process.unreachable_until = self.scheduler.now + self.random.uniform(1, 120)
        if fault is Fault.LOSE_LOCK:
            self._lose_lock()
            return self.model.run(session, sql, parameters)
        changes = session.changes if sql == "COMMIT" else None
        in_flight = fault in (Fault.IN_FLIGHT, Fault.KILL_IN_FLIGHT)
        if in_flight and changes is not None and changes.changes_rows:
            snapshot = self.catalog.newest(changes.base) + 1
            self.server.in_flight.append(InFlight(changes, snapshot))
            self.model.end(session)
        elif in_flight or fault in (
            Fault.LOST_AFTER,
            Fault.OUTAGE,
            Fault.STORAGE_AFTER,
            Fault.INTERRUPT_AFTER,
            Fault.KILL_AFTER,
        ):
            with contextlib.suppress(duckdb.Error):
                self.model.run(session, sql, parameters)
        if fault in (Fault.KILL_BEFORE, Fault.KILL_AFTER, Fault.KILL_IN_FLIGHT):
            self.kill(process)
            raise Killed
        if fault in (Fault.INTERRUPT_BEFORE, Fault.INTERRUPT_AFTER):
            raise KeyboardInterrupt
        if changes is not None:
            # DuckLake removes the files that it wrote, although the commit may have been applied.
            self.model.end(session)
            self.bucket.remove(changes.own_files)
            self.bucket.dropped.update(changes.own_files)
        else:
            session.failed = session.begun
        if fault is Fault.LOCKED:
            raise duckdb.TransactionException(LOCKED)
        storage = fault in (Fault.STORAGE_BEFORE, Fault.STORAGE_AFTER)
        if not storage:
            self._lose(session)
        raise duckdb.IOException(STORAGE_FAILED if storage else CONNECTION_LOST)

    def kill(self, process: Process) -> None:
        """Ends a process at once: its connections close, its files stay."""
        process.killed = True
        for native in self.natives:
            if native.process is process:
                self.model.end(native.session)
        self._end_writes(process, protected=False)

    def close(self, native: Native) -> None:
        """Closes a connection; DuckDB rolls back its transaction."""
        session = native.session
        if native.process is None or not native.process.killed:
            if session.changes is not None:
                self.bucket.remove(session.changes.own_files)
            self.model.end(session)

    def remove_staged(self, path: str) -> None:
        """Removes a file of the running process, outside of DuckDB."""
        self.bucket.remove([path])

    @contextlib.contextmanager
    def write(self, process: Process) -> Iterator[Write]:
        """A write of a process."""
        one = Write(process)
        self.writes.append(one)
        try:
            yield one
        finally:
            one.running = False

    def _end_writes(self, process: Process, *, protected: bool) -> None:
        for write in self.writes:
            if write.process is process:
                write.protected = protected

    def _current_write(self) -> int | None:
        running = [
            n for n, write in enumerate(self.writes) if write.running and write.process is self.scheduler.running
        ]
        return running[-1] if running else None

    def _check_removal(self, paths: Sequence[str]) -> None:
        known = set(self.catalog.known_files())
        for path in paths:
            file = self.bucket.files.get(path)
            if path in known:
                self.problems.append(f"a cleanup removes {path}, which the catalog contains")
            if file is None or file.write is None:
                continue
            write = self.writes[file.write]
            if write.running and write.protected and not write.process.killed:
                self.problems.append(f"a cleanup removes {path} of a running write of {write.process.name}")

    def _lose_lock(self) -> None:
        held = list(dict.fromkeys(session for _, session, _ in self.server.locks))
        if held:
            session = self.random.choice(held)
            session.lost = True
            self._lose(session)
        if not self.on_server:
            for path in (f"{self.store.metadata_backend.file()}.lakeconf-{name}" for name in ("lock", "writers")):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
            for write in self.writes:
                write.protected = False

    def _lose(self, session: Session) -> None:
        """The server ends the transaction of a connection, and releases its locks."""
        if any(holder is session for _, holder, _ in self.server.locks):
            for native in self.natives:
                if native.session is session and native.process is not None:
                    self._end_writes(native.process, protected=False)
        self.server.release(session)

    def _apply_commits_in_flight(self) -> None:
        if self.server.in_flight and self.random.random() < 0.02:
            self.server.finish_commits()

    @contextlib.contextmanager
    def around(self) -> Iterator[None]:
        """Puts lakeconf into this world."""
        simulated = types.SimpleNamespace(
            monotonic=lambda: self.scheduler.now, time=lambda: self.scheduler.now, sleep=self.scheduler.sleep
        )
        with contextlib.ExitStack() as patches:
            for module in (locks, lost_reply, transaction, transaction_commit, guard):
                patches.enter_context(mock.patch.object(module, "time", simulated))
            for owner, name, value in (
                (locks, "random", types.SimpleNamespace(uniform=self.values.uniform)),
                (uuid, "uuid4", lambda: uuid.UUID(int=self.values.getrandbits(128), version=4)),
                (duckdb, "connect", self.connect),
                (lakeconf.lake.opening, "DuckDBEngine", self._engine),
                (locks, "fcntl", _FileLocks(self.scheduler)),
            ):
                patches.enter_context(mock.patch.object(owner, name, value))
            # Python 3.11 computes a cached property under a lock that all objects share; real processes do not.
            for cached in vars(CatalogReader).values():
                if isinstance(cached, functools.cached_property) and hasattr(cached, "lock"):
                    patches.enter_context(mock.patch.object(cached, "lock", contextlib.nullcontext()))
            yield

    def _engine(self, reader: Any, writer: Any) -> SimulatedEngine:
        return SimulatedEngine(reader, writer, self)


@dataclass
class _FileLocks:
    """`fcntl` with a step before each attempt to lock a file; the end of a process releases its locks."""

    scheduler: Scheduler
    LOCK_EX: int = fcntl.LOCK_EX
    LOCK_SH: int = fcntl.LOCK_SH
    LOCK_NB: int = fcntl.LOCK_NB
    LOCK_UN: int = fcntl.LOCK_UN

    def flock(self, descriptor: int, operation: int) -> None:
        if operation != fcntl.LOCK_UN:
            self.scheduler.step("flock")
        fcntl.flock(descriptor, operation)


@dataclass(frozen=True)
class Template:
    """A lake that DuckLake created, as the start of each schedule."""

    state: State  # the metadata tables
    files: dict[str, Any]  # the files
    data_path: str  # the folder of the files
    on_server: Store  # the store with the catalog on a server
    on_file: Store  # the store with the catalog in a file
