"""An open lake: its connections, its engine, its locks, and the snapshot that reads see."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lakeconf.commit.conflicts import Base
from lakeconf.deferred import deferred
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.commit.committer import Commit
    from lakeconf.commit.committing import Committing
    from lakeconf.commit.recovery import AttachedCatalog
    from lakeconf.commit.staged_commit import StagedCatalog
    from lakeconf.connection.connection import Connection
    from lakeconf.engines.base import Engine
    from lakeconf.guard.clock import Clock
    from lakeconf.guard.guard import LakeGuard
else:
    Commit = deferred("lakeconf.commit.committer", "Commit")
    AttachedCatalog = deferred("lakeconf.commit.recovery", "AttachedCatalog")
    StagedCatalog = deferred("lakeconf.commit.staged_commit", "StagedCatalog")


@dataclass(eq=False)
class Session:
    """An open lake. A lake, its tables, its transactions and the lakes of `Lake.at` share one session.

    Attributes:
        store: The name of the store.
        alias: The alias of the lake.
        reader: Reads the catalog, on the connection for reading.
        writer: The connection that commits; nothing else runs on it.
        engine: Reads and writes the data files.
        guard: The locks of the lake and its tables, and the marker below its data path.
        clock: The time by which the ages of its snapshots and files are measured.
        reconnect: Opens another connection, to look up a commit whose reply was lost.
        barrier: The statement that waits for commits in progress; see `recovery.AttachedCatalog`.
        base: The snapshot from which conflict checks start.
        read_only: True if the store is read-only.
        pinned: True if the store is attached at a fixed snapshot.
        deadline: The time after which maintenance without its own begins no further transaction; None for no limit.
        memory_limit: The memory of maintenance without its own limit; None for DuckDB's default.
        committer: Who commits merges of Spark, one of `backends.committers`; see `write.staged_outcome`.
        config: The configuration file that declares the store; None if Python code made it.
        writer_lock: Held by the thread that uses the writer, or changes a setting of the DuckDB instance.
    """

    store: str
    alias: str
    reader: CatalogReader
    writer: Connection
    engine: Engine
    guard: LakeGuard
    clock: Clock
    reconnect: Callable[[], Connection]
    barrier: str | Committing
    base: Base
    read_only: bool = False
    pinned: bool = False
    deadline: timedelta | None = None
    memory_limit: str | None = None
    committer: str = "auto"
    config: str | None = None
    writer_lock: threading.RLock = field(default_factory=threading.RLock)
    _snapshot_id: int = field(init=False)
    _snapshot_lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._snapshot_id = self.base.snapshot_id

    @property
    def snapshot_id(self) -> int:
        """The snapshot that reads see; only `advance` moves it."""
        return self._snapshot_id

    def advance(self, snapshot_id: int, *, own: int | None = None, token: str = "", refresh: bool = False) -> int:
        """Moves reads to a snapshot, but never back: another thread may have moved them further already.

        Args:
            snapshot_id: The snapshot.
            own: A snapshot that this session committed; conflict checks skip it, and a replaced catalog lacks it.
            token: The id of the write that committed it.
            refresh: True if conflict checks start again at the snapshot that reads now see.

        Returns:
            The snapshot that reads now see.
        """
        with self._snapshot_lock:
            self._snapshot_id = max(self._snapshot_id, snapshot_id)
            if own is not None:
                self.base.add_own(own)
                self.reader.definitions.committed(own, token)
            if refresh:
                self.base.refresh(self._snapshot_id)
            return self._snapshot_id

    def read_point(self) -> tuple[int, Base]:
        """The snapshot that reads see and a copy of the base of conflict checks, both of the same moment."""
        with self._snapshot_lock:
            return self._snapshot_id, self.base.copy()

    def check_writable(self) -> None:
        """Refuses to write to a read-only store.

        Raises:
            LakeconfError: The store is read-only.
        """
        if self.read_only:
            raise LakeconfError(
                f"nothing can be written: the store {self.store!r} is read-only",
                hint="open it without read_only=True; remove read_only and snapshot_… from attach_options",
            )

    def fork(self) -> Session:
        """Another session at the same snapshot, for another thread: it moves by itself, on the same connections.

        The other session must not be closed, and ends with this one.
        """
        snapshot_id, _ = self.read_point()
        return replace(self, base=Base(snapshot_id), _snapshot_lock=threading.RLock())

    def new_commit(self, token: str, *, staged: bool = False) -> Commit:
        """A new attempt to commit.

        Args:
            token: The id of the write, which identifies its snapshot.
            staged: True to commit with `ducklake_commit`.
        """
        kind = StagedCatalog if staged else AttachedCatalog
        return Commit(kind(self.alias, self.writer, self.reader, self.reconnect, self.barrier, token), token)

    def close(self) -> None:
        """Closes the connections."""
        self.writer.close()
        self.reader.connection.close()
