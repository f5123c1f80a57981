"""Conflict checks: what other writers committed between the snapshot that a change read and its commit."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from lakeconf.catalog.changes import changed_tables, changes_between, merged_tables
from lakeconf.catalog.inherited import stored_view
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import TableInfo, full_name, load_table, split_name
from lakeconf.commit.journal import names_of, recorded_name
from lakeconf.errors import CatalogLockedError, CommitConflictError, TableNotFoundError, UnsupportedError
from lakeconf.sql import folded

if TYPE_CHECKING:
    from lakeconf.catalog.reader import CatalogReader

_OF_COLUMNS = ("altered_table", "dropped_table")


@dataclass(frozen=True)
class ReadDependency:
    """A table whose state at the read snapshot a change depends on."""

    table_id: int
    table: str
    since: int  # the oldest snapshot at which the table was read: by the change, or before it
    on_rows: bool = True  # True if the change depends on rows; False if it depends on columns only
    # Own snapshots of the lake that are conflicts, because another thread committed them after that read.
    unseen: frozenset[int] = frozenset()
    by_name: bool = False  # True if rows were read under a name of the table, which may have named another one


@dataclass(frozen=True)
class ReadView:
    """A view that a change drops, as it was at the read snapshot."""

    view: str  # the full name
    view_id: int


@dataclass
class Base:
    """What a lake has read and committed since its last refresh, from which conflict checks start.

    A read depends on the snapshot that it saw, although the lake's own commits move later reads past commits of other
    writers.
    """

    snapshot_id: int  # the snapshot of the last refresh, or at which the lake was opened
    # The lake's own snapshots after it, each with the thread that committed it.
    own: dict[int, int] = field(default_factory=dict)
    # The tables that were read since then, as `known_as` names them, each with the snapshot that the first read saw;
    # None means any table.
    read: dict[str | None, int] = field(default_factory=dict)
    # The changes of later snapshots that this lake has expired, by snapshot id.
    expired: dict[int, str | None] = field(default_factory=dict)
    # The same for the tables that each thread has read: a refresh by another thread does not forget them.
    _threads: threading.local = field(default_factory=threading.local, repr=False)

    def refresh(self, snapshot_id: int) -> None:
        """Moves the base to a newer snapshot; other threads keep their reads until they refresh themselves."""
        self.own = {version: thread for version, thread in self.own.items() if version > self.snapshot_id}
        self.snapshot_id, self.read, self.expired = snapshot_id, {}, {}
        self._threads.read = {}

    def remember(self, reader: CatalogReader, versions: Collection[int]) -> None:
        """Records the changes of snapshots that are about to expire, because later checks need them."""
        if versions:
            newest = max(versions)
            self.expired |= {
                version: changes
                for version, changes in changes_between(reader, self.snapshot_id, newest)
                if version in versions
            }

    def copy(self) -> Base:
        """A copy of the base; later reads are recorded for both."""
        return replace(self, own=dict(self.own), expired=dict(self.expired))

    def add_read(self, table: str | None, seen: int) -> None:
        """Records that a table was read."""
        name = None if table is None else read_name(table)
        self.read.setdefault(name, seen)
        self._own_reads().setdefault(name, seen)

    def add_own(self, version: int) -> None:
        """Records a snapshot that this lake committed in the calling thread."""
        self.own[version] = threading.get_ident()

    def known_as(self, reader: CatalogReader, info: TableInfo) -> frozenset[str | None]:
        """The names under which a table may have been read: it may have been renamed since."""
        names = {read_name(info.full_name), None}
        if not names >= self.read.keys() | self._own_reads().keys():
            names.update(folded(former.table) for former in names_of(reader, info.table_id)[1])
        return frozenset(names)

    def unseen(self, names: Collection[str | None]) -> frozenset[int]:
        """The own snapshots that other threads committed after this thread had read a table, by its names."""
        reads, thread = self._own_reads(), threading.get_ident()
        seen = [reads[name] for name in names if name in reads]
        if not seen:
            return frozenset()
        return frozenset(version for version, by in self.own.items() if by != thread and version > min(seen))

    def has_read(self, names: Collection[str | None]) -> bool:
        """True if rows of a table, by its names, were read since the base, or by this thread since its refresh."""
        return bool(self._seen(names))

    def since(self, names: Collection[str | None], snapshot_id: int) -> int:
        """The oldest snapshot at which a table, by its names, was read, if a write reads it at `snapshot_id`."""
        return min([snapshot_id, *self._seen(names)])

    def _seen(self, names: Collection[str | None]) -> list[int]:
        """The snapshots that the first reads of a table saw."""
        return [reads[name] for reads in (self.read, self._own_reads()) for name in names if name in reads]

    def _own_reads(self) -> dict[str | None, int]:
        if not hasattr(self._threads, "read"):
            self._threads.read = {}
        reads: dict[str | None, int] = self._threads.read
        return reads


def read_name(table: str) -> str:
    """The name under which the read of a table is recorded: a full name like those of `names_of`, in lower case."""
    return folded(recorded_name(*split_name(table)))


def check_conflicts(reader: CatalogReader, dependencies: Sequence[ReadDependency], base: Base, begun: int) -> None:
    """Rejects changes that depend on a table that another writer changed after the base, up to the snapshot `begun`."""
    read = min((dependency.since for dependency in dependencies), default=begun)
    if begun == read:
        return
    newer = base.expired | dict(changes_between(reader, read, begun))
    if any(version not in newer for version in range(read + 1, begun + 1)):
        raise CommitConflictError(
            f"{dependencies[0].table} was read at snapshot {read}, and some snapshots between {read} and {begun} have "
            "expired, so the table may have changed",
            hint="call lake.refresh(), read the table again and repeat the write",
        )
    merged = merged_tables(reader, newer)
    made = {version: [*changed_tables(changes), *merged.get(version, [])] for version, changes in newer.items()}
    named = _named(reader, dependencies, read)
    for dependency in dependencies:
        own = base.own.keys() - dependency.unseen
        for version in sorted(newer.keys() - own):
            # A snapshot without a record of its changes may have changed anything.
            conflicts = newer[version] is None or any(
                table == dependency.table_id and (dependency.on_rows or kind in _OF_COLUMNS)
                for kind, table in made[version]
            )
            conflicts = conflicts or (dependency.by_name and (dependency.table_id, version) in named)
            if conflicts and version > dependency.since:
                raise CommitConflictError(
                    f"{dependency.table} was read at snapshot {dependency.since}, and snapshot {version} of another "
                    "writer has changed it since",
                    hint="call lake.refresh() and try again",
                )


def _named(reader: CatalogReader, dependencies: Iterable[ReadDependency], since: int) -> set[tuple[int, int]]:
    """The tables that later snapshots created or renamed, which DuckLake does not record for each table."""
    ids = ", ".join(str(dependency.table_id) for dependency in dependencies if dependency.by_name)
    if not ids:
        return set()
    query = f"SELECT table_id, begin_snapshot FROM ducklake_table WHERE table_id IN ({ids}) AND begin_snapshot > ?"
    with reader.transaction() as transaction:
        return {(table_id, begin) for table_id, begin in transaction.rows(query, [since])}


def read_view(reader: CatalogReader, name: str, snapshot_id: int) -> ReadView | None:
    """A view at a snapshot; None if there is none, as if the transaction itself creates it."""
    view = stored_view(reader, name, snapshot_id)
    return None if view is None else ReadView(full_name(name), view[1])


def check_views(reader: CatalogReader, views: Iterable[ReadView], begun: int) -> None:
    """Rejects dropping views that are others at the snapshot `begun`: DuckLake finds a view by its name only."""
    for view in views:
        if read_view(reader, view.view, begun) != view:
            raise CommitConflictError(
                f"{view.view} was dropped or replaced by another writer since it was read, so nothing was written",
                hint="call lake.refresh() and try again",
            )


def check_not_overtaken(reader: CatalogReader, begun: int) -> None:
    """Rejects a commit if another one was faster, because it may have flushed rows while a statement looked for them.

    Such a commit fails anyway, unless its statements found no row, so that it commits nothing.
    """
    if latest(reader).snapshot_id != begun:
        raise CatalogLockedError("another process committed meanwhile", hint="try again")


def check_columns(reader: CatalogReader, written_for: Iterable[TableInfo], begun: int) -> None:
    """Rejects rows if the columns or partition keys of their table changed before the snapshot `begun`.

    Rows are matched to columns by name, so a name that now belongs to another column would produce wrong rows. DuckLake
    itself detects changes after `begun`, on which the commit builds.
    """
    for info in dict.fromkeys(written_for):
        name = info.full_name
        try:
            current = load_table(reader, name, begun)
        except (TableNotFoundError, UnsupportedError) as error:
            raise _changed(name, "was dropped or renamed") from error
        if current.table_id != info.table_id:
            raise _changed(name, "was replaced by another table with this name")
        if current != info and _shape(current) != _shape(info):
            raise _changed(name, "now has other columns or partition keys")


def is_same_table(reader: CatalogReader, name: str, before: int, now: int) -> bool:
    """True if a table exists at two snapshots, and rows that fit it at the first also fit it at the second."""
    try:
        earlier, current = load_table(reader, name, before), load_table(reader, name, now)
    except (TableNotFoundError, UnsupportedError):
        return False
    return current.table_id == earlier.table_id and _shape(current) == _shape(earlier)


def _changed(table: str, what: str) -> CommitConflictError:
    return CommitConflictError(
        f"{table} {what}: another writer changed it since it was read, so nothing was written",
        hint="call lake.refresh(), and write rows that fit the current table",
    )


def _shape(info: TableInfo) -> tuple[object, ...]:
    """The properties that rows depend on: columns with types and field ids, and the partition keys."""
    return (tuple(column.shape for column in info.columns), info.partition_id, info.partition_fields)
