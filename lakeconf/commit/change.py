"""The changes of a transaction, and the tables as they will be after its commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.journal import TABLE, CommitKey
from lakeconf.commit.position_delete import PositionDelete
from lakeconf.commit.staged_commit import FileChange
from lakeconf.engines.base import Staged


@dataclass(frozen=True)
class Change:
    """One change in a commit.

    Attributes:
        statements: SQL, run in order inside the commit's transaction.
        table: The table's full name.
        staged: Rows that the change commits; they are removed if the commit fails.
        depends_on: The table state that other writers must not have changed since the read snapshot; None for a plain
            append.
        key: Idempotency key; the change is skipped if it was already committed.
        defines: True if the statements create a table or change its columns.
        deletes: True if the statements delete rows.
        written_for: The table for which the rows were written; None if this transaction creates or changes the table.
        counts: The number of rows that each statement must change; empty if it is not known in advance.
        sql: The user's own SQL among the statements; the views and macros that it may use are checked at the commit.
        inserts: True if the statements insert rows whose number is not known in advance.
        found: Rows to delete, which were found before the commit; None if `statements` find them.
        decision: For a merge on Spark, the engine that computed it and the reason for the choice.
        by_files: What a staged commit does for the change, instead of statements; either all changes of a transaction
            have it, or none. A delete keeps its statements, for rows that a staged commit cannot delete.
        kept: The columns that the statements do not set in the rows that they update, and that files store inexactly,
            with their types.
    """

    statements: tuple[str, ...]
    table: str
    staged: Staged | None = None
    depends_on: ReadDependency | None = None
    key: CommitKey | None = None
    defines: bool = False
    deletes: bool = False
    written_for: TableInfo | None = None
    counts: tuple[int, ...] = ()
    sql: str | None = None
    inserts: bool = False
    decision: str | None = None
    found: PositionDelete | None = None
    by_files: FileChange | None = None
    kept: Mapping[str, str] = field(default_factory=dict)

    def resolved(self, reader: CatalogReader, begun: int) -> tuple[tuple[str, ...], tuple[int | None, ...]]:
        """The statements for a commit that builds on the snapshot `begun`, and `counts` for them."""
        return (self.statements, self.counts) if self.found is None else self.found.statements(reader, begun)

    @property
    def has_statements(self) -> bool:
        """True if a commit can carry out the change without `by_files`."""
        return bool(self.statements or self.found)

    @property
    def writes_files(self) -> bool:
        """True if DuckLake may write files for the change: not if the staged files become files of the table."""
        if not self.has_statements or self.defines or self.by_files:
            return False
        staged = self.staged
        if staged is None or self.deletes or not staged.keeps_files:
            return True
        return not staged.files or staged.rest is not None

    @property
    def registers_files(self) -> bool:
        """True if the statements register staged files as files of the table, or may have to."""
        return self.staged is not None and bool(self.staged.files) and (self.by_files is None or self.has_statements)


@dataclass(frozen=True)
class Target:
    """A table as a transaction will leave it.

    Attributes:
        info: The table; its columns are those that rows are written with.
        types: Its columns and the DuckDB names of their types.
        ended_by: What the transaction did last, such as `dropped main.events`, if it cannot use the table any more.
        exists: False if the name is free after the transaction.
    """

    info: TableInfo
    types: Mapping[str, str]
    ended_by: str | None = None
    exists: bool = True


def tables_to_lock(changes: Iterable[Change], *, registers_alone: bool) -> set[str]:
    """The tables whose locks a commit holds, from before it begins until the reply.

    DuckLake keeps the name mappings of registered files in memory. On a catalog that it reads on separate connections,
    a transaction also loads a mapping that another one commits after its snapshot. DuckLake later loads this mapping
    again and uses freed memory: the process crashes or hangs (duckdb/ducklake#1431). So only one commit at a time
    registers files on such a catalog. The lock of the table of commits excludes the others, in all processes.

    Args:
        changes: The changes of the commit.
        registers_alone: True if no two commits may register files at the same time.
    """
    found = set[str]()
    for change in changes:
        if change.depends_on is not None:
            found.add(change.table)
        if change.key or (registers_alone and change.registers_files):
            found.add(TABLE)
    return found


def row_count(changes: Iterable[Change]) -> int:
    """The number of rows that were staged for changes."""
    return sum(change.staged.row_count or 0 for change in changes if change.staged is not None)
