"""What other writers may not have done between the snapshot that a change was made from and its commit."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from lakeconf.catalog.changes_made import changed_tables, changes_between
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import Column, TableInfo, find_table, joined_name
from lakeconf.connection.connection import Connection
from lakeconf.errors import (
    CommitConflictError,
    TableNotFoundError,
    UnsupportedError,
)

_OF_COLUMNS = ("altered_table", "dropped_table")


@dataclass(frozen=True)
class Reliance:
    """What a change relies on.

    Attributes:
        table_id: The table whose state at the read snapshot must still hold.
        table: Its full name.
        on_rows: False where only its columns matter.
    """

    table_id: int
    table: str
    on_rows: bool = True


@dataclass
class Base:
    """What conflict checks compare with.

    It is not the snapshot that reads see: the lake's own commits move that one past commits of other writers, which
    may have changed what was read before.

    Attributes:
        snapshot_id: The snapshot up to which commits of other writers are known; only `refresh` moves it.
        own: The lake's own snapshots after it.
        read: The full names of the tables that were read since, in lower case; `None` stands for any table.
        expired: What the snapshots changed that this lake itself has expired since, by their number.
    """

    snapshot_id: int
    own: set[int] = field(default_factory=set)
    read: set[str | None] = field(default_factory=set)
    expired: dict[int, str | None] = field(default_factory=dict)
    # What each thread has read, with the base at that time: a refresh by another thread does not change what it knows.
    _threads: threading.local = field(default_factory=threading.local, repr=False)

    def refresh(self, snapshot_id: int) -> None:
        """Starts again at a newer snapshot; other threads keep what they have read until they refresh themselves."""
        self.own = {version for version in self.own if version > self.snapshot_id}
        self.snapshot_id, self.read, self.expired = snapshot_id, set(), {}
        self._threads.read = {}

    def remember(self, reader: CatalogReader, versions: Collection[int]) -> None:
        """Keeps what snapshots changed that are about to expire: later checks still need it."""
        if versions:
            newest = max(versions)
            self.expired |= {
                version: changes
                for version, changes in changes_between(reader, self.snapshot_id, newest)
                if version in versions
            }

    def copy(self) -> Base:
        """The base as it is now; what is read later counts for both."""
        return replace(self, own=set(self.own), expired=dict(self.expired))

    def add_read(self, table: str | None) -> None:
        """Remembers that a table was read, by its full name; `None` stands for any table."""
        name = None if table is None else table.lower()
        self.read.add(name)
        self._own_reads().setdefault(name, self.snapshot_id)

    def has_read(self, table: str) -> bool:
        """True if rows of a table, by its full name, were read since the base, or by this thread since its refresh."""
        return not {table.lower(), None}.isdisjoint(self.read | self._own_reads().keys())

    def since(self, table: str) -> int:
        """The snapshot after which a change of a table by another writer is a conflict."""
        reads = self._own_reads()
        return min([self.snapshot_id, *(reads[name] for name in (table.lower(), None) if name in reads)])

    def _own_reads(self) -> dict[str | None, int]:
        if not hasattr(self._threads, "read"):
            self._threads.read = {}
        reads: dict[str | None, int] = self._threads.read
        return reads


def check_conflicts(reader: CatalogReader, reliances: Sequence[Reliance], base: Base, begun: int) -> None:
    """Refuses where another writer has changed what a change relies on after the base, up to the snapshot `begun`.

    Raises:
        CommitConflictError: Names both snapshots; or says that snapshots in between have expired, so that it cannot be
            known.
    """
    read = min((base.since(relied.table) for relied in reliances), default=begun)
    if begun == read:
        return
    newer = base.expired | dict(changes_between(reader, read, begun))
    if any(version not in newer for version in range(read + 1, begun + 1)):
        raise CommitConflictError(
            f"{reliances[0].table} was read at snapshot {read}, and some snapshots between {read} and {begun} have "
            "expired: they may have changed the table",
            hint="call lake.refresh(), read the table again and repeat the write",
        )
    others = [(version, changes) for version, changes in sorted(newer.items()) if version not in base.own]
    made = [(version, kind, table) for version, changes in others for kind, table in changed_tables(changes)]
    # A snapshot that does not say what it has changed may have changed anything.
    made += [
        (version, _OF_COLUMNS[0], relied.table_id) for version, text in others if text is None for relied in reliances
    ]
    for relied in reliances:
        since = base.since(relied.table)
        for version, kind, table in made:
            if version > since and table == relied.table_id and (relied.on_rows or kind in _OF_COLUMNS):
                raise CommitConflictError(
                    f"{relied.table} was read at snapshot {since}, and snapshot {version} of another writer "
                    f"has changed it since",
                    hint="call lake.refresh() and do it again",
                )


def check_columns(reader: CatalogReader, written_for: Iterable[TableInfo], begun: int) -> None:
    """Refuses rows that were written for a table whose columns or keys have changed until the snapshot `begun`.

    Rows reach a table by the names of its columns, so a name that stands for another column now would give wrong rows.

    Args:
        reader: The lake.
        written_for: The tables as the rows were written for them.
        begun: The snapshot that the commit builds on; DuckLake itself finds what changes after it.

    Raises:
        CommitConflictError: A table was changed, dropped or renamed; nothing was written.
    """
    tables = {(info.table_id, _shape(info)): info for info in written_for}
    if not tables:
        return
    with reader.transaction() as transaction:
        for info in tables.values():
            name = joined_name(info.schema_name, info.name)
            try:
                found = find_table(transaction, name, begun)
            except (TableNotFoundError, UnsupportedError) as error:
                raise _changed(name, "was dropped or renamed") from error
            if found.table_id != info.table_id:
                raise _changed(name, "was replaced by another table of this name")
            if _shape(found) != _shape(info):
                raise _changed(name, "has other columns or partition keys now")


def _changed(table: str, what: str) -> CommitConflictError:
    return CommitConflictError(
        f"{table} {what}: another writer changed it since it was read, so nothing was written",
        hint="call lake.refresh(), and write rows that fit the table as it is now",
    )


def _shape(info: TableInfo) -> tuple[object, ...]:
    """What rows depend on: columns, their types and field ids, and the keys of the partitioning."""
    return (tuple(map(_column_shape, info.columns)), info.partition_id, info.partition_fields)


def _column_shape(column: Column) -> tuple[object, ...]:
    return (column.field_id, column.name, column.type, column.nullable, tuple(map(_column_shape, column.children)))


def run_counted(writer: Connection, table: str, statements: Sequence[str], counts: Sequence[int]) -> None:
    """Runs the statements of a change inside the transaction of its commit.

    Args:
        writer: The connection.
        table: The table that is changed, for the error.
        statements: SQL.
        counts: How many rows each statement must change; empty if that cannot be known.

    Raises:
        CommitConflictError: A statement changed another number of rows.
    """
    for index, statement in enumerate(statements):
        if not counts:
            writer.execute(statement)
            continue
        ((found,),) = writer.rows(statement)
        if found != counts[index]:
            raise CommitConflictError(
                f"{counts[index]} rows of {table} were to be changed, but {found} were found: nothing was written",
                hint="call lake.refresh() and do it again; in a transaction, write to a row once",
            )
