"""An open lake: its connections, its engine, its locks, and the snapshot that reads see."""

from __future__ import annotations

import contextlib
import getpass
import json
import socket
import threading
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lakeconf import __version__
from lakeconf.catalog.table_options import comments
from lakeconf.catalog.tables import TableInfo, joined_name, tables
from lakeconf.commit.committer import Commit
from lakeconf.commit.conflicts import Base
from lakeconf.commit.moved_values import check_flushed
from lakeconf.commit.recovery import AttachedCatalog, changed, without_retries
from lakeconf.commit.staged_commit import StagedCatalog
from lakeconf.ducklake import inlined_deletes_table
from lakeconf.errors import CommitError, LakeconfError
from lakeconf.guard.locks import Held, pauses
from lakeconf.logs import EventLogger
from lakeconf.sql import literal, qualified

if TYPE_CHECKING:
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.commit.recovery import Committing
    from lakeconf.connection.connection import Connection
    from lakeconf.engines.engine import Engine
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
    barrier: str | Committing  # the statement that waits for commits in progress; see `recovery.AttachedCatalog`
    base: Base  # the snapshot from which conflict checks start
    read_only: bool = False
    pinned: bool = False  # True if the store is attached at a fixed snapshot
    # The time after which maintenance without its own begins no further transaction; None for no limit.
    deadline: timedelta | None = None
    memory_limit: str | None = None  # the memory of maintenance without its own limit; None for DuckDB's default
    committer: str = "auto"  # who commits outcomes of Spark, one of `store_options.COMMITTERS`; see `write.decision`
    config: str | None = None  # the configuration file that declares the store; None if Python code made it
    # Held by the thread that uses the writer, or changes a setting of the DuckDB instance.
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
        """Moves reads to a snapshot, but never back: another thread may have moved them further already."""
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
        """Refuses to write to a read-only store."""
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
        """A new attempt to commit."""
        kind = StagedCatalog if staged else AttachedCatalog
        return Commit(kind(self.alias, self.writer, self.reader, self.reconnect, self.barrier, token), token)

    def close(self) -> None:
        """Closes the connections."""
        self.writer.close()
        self.reader.connection.close()


_log = EventLogger("maintenance")
# The number of attempts while writers are active; after them, the step holds the lake's lock exclusively.
_ATTEMPTS_BESIDE_WRITERS = 5


class RowsChangedError(CommitError):
    """A step of a compaction would have changed the rows of a table; it was not committed."""


def of_table(schema: str, name: str) -> str:
    """The arguments of DuckLake's maintenance functions that limit them to a table; they follow other arguments."""
    return f", {literal(name)}, schema => {literal(schema)}"


def run_step(
    session: Session,
    call: str,
    settings: Mapping[str, str] | None = None,
    *,
    unchanged: Callable[[int], Iterable[TableInfo]] = lambda _: (),
    moved: Callable[[int], Iterable[TableInfo]] = lambda _: (),
) -> list[tuple[Any, ...]]:
    """Runs one step of a compaction in its own transaction, and repeats it if another commit is faster.

    DuckLake lets a compaction commit together with a concurrent delete that is stored in the catalog, and the deleted
    rows reappear. Without DuckLake's retries, a step that another commit overtook fails on its snapshot number.

    Args:
        call: The SQL that calls DuckLake's function.
        settings: Settings of DuckDB during the step.
        unchanged: Returns the tables whose row ids are compared before and after the call, given the latest snapshot.
        moved: Returns the tables of which the call writes rows of the catalog to files, given the latest snapshot.
    """
    for attempt, _ in enumerate(pauses()):
        step = _Step(session, call, unchanged, moved)
        # If other writers are always faster, they wait for this step.
        lock = (
            session.guard.writing()
            if attempt < _ATTEMPTS_BESIDE_WRITERS
            else _alone(session.guard.removing(force=True))
        )
        try:
            with lock as held, session.writer_lock, without_retries(session.writer):
                with changed(session.writer, settings or {}):
                    rows = step.run(held)
                if step.commit.made is not None:
                    # A flush can be a conflict for commits of others, but not for those of this thread.
                    session.advance(step.commit.made, own=step.commit.made, token=step.commit.token)
                return rows
        except LakeconfError as error:
            if not step.commit.lost_race(error, conflicts=True):
                raise
            _log.info("another writer overtook a compaction step; repeating the step")
    raise CommitError("the compaction lost every race with other writers", hint="try again later")


class _Step:
    """One attempt."""

    def __init__(
        self,
        session: Session,
        call: str,
        unchanged: Callable[[int], Iterable[TableInfo]],
        moved: Callable[[int], Iterable[TableInfo]],
    ) -> None:
        self._session, self._call, self._token = session, call, uuid.uuid4().hex
        self._unchanged, self._moved = unchanged, moved
        self._held: Held | None = None
        self._rows: list[tuple[Any, ...]] = []
        self.commit = session.new_commit(self._token)

    def run(self, held: Held | None) -> list[tuple[Any, ...]]:
        self._held = held
        self.commit.run(self._work)
        return self._rows

    def _work(self, begun: int) -> int | None:
        writer, alias = self._session.writer, literal(self._session.alias)
        with self._session.reader.one_state() as reader:
            moved = {info.table_id: info for info in self._moved(begun)}
            check_flushed(writer, reader, self._session.alias, moved)
            renewed = [_renewal(reader, self._session.alias, moved[one], begun) for one in _superseded(reader, moved)]
        before = [(info, self._ids(info)) for info in self._unchanged(begun)]
        self._rows = writer.rows(self._call)
        for info, ids in before:
            if self._ids(info) != ids:
                raise RowsChangedError(f"the rows of {info.full_name} would change")
        for statement in renewed:
            writer.execute(statement)
        # The token identifies the snapshot if the reply to the commit is lost.
        extra = literal(json.dumps({"lakeconf": __version__, "token": self._token}))
        writer.execute(
            f"CALL ducklake_set_commit_message({alias}, ?, ?, extra_info => {extra})", [default_author(), None]
        )
        if self._held is not None:
            self._held.check()
        written = {joined_name(schema, table) for schema, table, *_ in self._rows}
        self.commit.catalog.keep_written(written | self._with_deletes(begun), (), begun)
        return None

    def _ids(self, info: TableInfo) -> tuple[object, ...]:
        """The number of rows, and a sum for their ids; or for a column `rowid`, whose values may be NULL."""
        # Not `count(*)`, which DuckLake answers from numbers in the catalog.
        named = qualified(self._session.alias, info.schema_name, info.name)
        (found,) = self._session.writer.rows(f"SELECT count(hash(rowid)), sum(hash(rowid)::HUGEINT) FROM {named}")
        return found

    def _with_deletes(self, begun: int) -> set[str]:
        """The tables with deletes in the catalog: a flush writes these to files, but does not return the tables."""
        found = tables(self._session.reader, begun)
        with self._session.reader.transaction() as transaction:
            return {info.full_name for info in found if transaction.has_table(inlined_deletes_table(info.table_id))}


def _superseded(reader: CatalogReader, moved: Collection[int]) -> list[int]:
    """The tables whose columns have changed since rows were written to the catalog: a flush drops its older tables."""
    query = "SELECT table_id FROM ducklake_inlined_data_tables GROUP BY table_id HAVING count(*) > 1"
    with reader.transaction() as transaction:
        return [table_id for (table_id,) in transaction.rows(query) if table_id in moved]


def _renewal(reader: CatalogReader, alias: str, info: TableInfo, begun: int) -> str:
    """The statement that gives a table its comment again, so that it has a new schema version.

    Lakes that are open elsewhere, also without lakeconf, remember the tables of the catalog until then, and would fail.
    """
    comment = comments(reader, info, begun).table
    named = qualified(alias, info.schema_name, info.name)
    return f"COMMENT ON TABLE {named} IS {'NULL' if comment is None else literal(comment)}"


@contextlib.contextmanager
def _alone(lock: AbstractContextManager[None]) -> Iterator[None]:
    with lock:
        yield None


def described(session: Session, statements: Iterable[str], quoted: str) -> list[tuple[str, str, bool]]:
    """The columns that a table would have after some statements; nothing is changed."""
    writer = session.writer
    with session.writer_lock:
        try:
            writer.execute("BEGIN")
            for statement in statements:
                writer.execute(statement)
            found = writer.rows(f"DESCRIBE {quoted}")
        finally:
            with contextlib.suppress(LakeconfError):
                writer.execute("ROLLBACK")
    return [(name, type_name, null == "YES") for name, type_name, null, *_ in found]
