"""An open lake: its connections, its engine, its locks, and the snapshot that reads see."""

from __future__ import annotations

import contextlib
import getpass
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lakeconf.commit.conflicts import Base
from lakeconf.commit.driver import Attempt
from lakeconf.commit.sql_commit import SqlCommit
from lakeconf.commit.staged_commit import StagedCommit
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.commit.sql_commit import Committing
    from lakeconf.connection.connection import Connection
    from lakeconf.engines.engine import Engine
    from lakeconf.engines.file_names import OwnFiles
    from lakeconf.guard.guard import Clock, LakeGuard


def default_author() -> str:
    """The user and the host of this process, such as `ana@laptop`; a container may have no user."""
    host = socket.gethostname()
    with contextlib.suppress(OSError, KeyError):
        return f"{getpass.getuser()}@{host}"
    return host


@dataclass(eq=False)
class Session:
    """An open lake. A lake, its tables, its transactions and the lakes of `Lake.at` share one session."""

    store: str
    alias: str
    reader: CatalogReader
    writer: Connection  # the connection that commits; nothing else runs on it
    engine: Engine
    guard: LakeGuard  # the locks of the lake and its tables, and the marker below its data path
    clock: Clock  # the time by which the ages of its snapshots and files are measured
    reconnect: Callable[[], Connection]  # opens another connection, to look up a commit whose reply was lost
    barrier: str | Committing  # the statement that waits for commits in progress; see `SqlCommit`
    own_files: OwnFiles  # the files that maintenance may rewrite and remove
    base: Base  # the snapshot from which conflict checks start
    read_only: bool = False
    pinned: bool = False  # True if the store is attached at a fixed snapshot
    # The time after which maintenance without its own begins no further transaction; None for no limit.
    deadline: timedelta | None = None
    memory_limit: str | None = None  # the memory of maintenance without its own limit; None for DuckDB's default
    committer: str = "auto"  # who commits what Spark writes, one of `store_options.COMMITTERS`; see `write.strategy`
    # Reads the paths of the files that the store's backups need, which cleanup keeps; None if it declares no backups.
    backed_up: Callable[[], frozenset[str]] | None = None
    # The lake that this one is a branch of, at the snapshot at which the branch reads it; None if it is no branch.
    parent: Session | None = None
    config: str | None = None  # the configuration file that declares the store; None if Python code made it
    # Held by the thread that uses the writer, or changes a setting of the DuckDB instance.
    writer_lock: threading.RLock = field(default_factory=threading.RLock)
    snapshot_id: int = field(init=False)  # the snapshot that reads see; only `advance` moves it
    _snapshot_lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self.snapshot_id = self.base.snapshot_id

    def advance(self, snapshot_id: int, *, own: int | None = None, token: str = "", refresh: bool = False) -> int:
        """Moves reads to a snapshot, but never back: another thread may have moved them further already."""
        with self._snapshot_lock:
            self.snapshot_id = max(self.snapshot_id, snapshot_id)
            if own is not None:
                self.base.add_own(own)
                self.reader.definitions.committed(own, token)
            if refresh:
                self.base.refresh(self.snapshot_id)
            return self.snapshot_id

    def read_point(self) -> tuple[int, Base]:
        """The snapshot that reads see and a copy of the base of conflict checks, both of the same moment."""
        with self._snapshot_lock:
            return self.snapshot_id, self.base.copy()

    def check_writable(self) -> None:
        """Refuses to write to a read-only store."""
        if self.read_only:
            raise LakeconfError(
                f"nothing can be written: the store {self.store!r} is read-only",
                hint="open it without read_only=True; remove read_only and snapshot_… from attach_options",
            )

    def fork(self, snapshot_id: int | None = None) -> Session:
        """Another session at this or another snapshot, for another thread: it moves by itself, on the same connections.

        The other session must not be closed, and ends with this one.
        """
        start = self.read_point()[0] if snapshot_id is None else snapshot_id
        return replace(self, base=Base(start), _snapshot_lock=threading.RLock())

    def new_attempt(self, token: str, *, staged: bool = False) -> Attempt:
        """A new attempt to commit, by statements or as a staged commit."""
        protocol = StagedCommit if staged else SqlCommit
        return Attempt(protocol(self.writer, self.reader, self.reconnect, self.barrier, token), token)

    def close(self) -> None:
        """Closes the connections."""
        self.writer.close()
        self.reader.connection.close()
