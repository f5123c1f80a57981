"""The changes of a transaction: statements that DuckDB runs, or files and deletes of a staged commit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from lakeconf.catalog.data_file import FileGroup
from lakeconf.catalog.file_footers import Footer
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.commit.deletions import Outcome
from lakeconf.commit.journal import TABLE, CommitKey
from lakeconf.engines.engine import Staged
from lakeconf.sql import exact_paths, identifier, literal, qualified


@dataclass(frozen=True)
class Statements:
    """SQL that DuckDB runs inside the commit's transaction."""

    sql: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()  # the number of rows that each must change; empty if it is not known in advance
    deletes: bool = False  # True if they delete or update rows
    inserts: bool = False  # True if they insert rows whose number is not known in advance
    checked: str | None = None  # the user's own SQL, whose views and macros are checked at the commit
    # The columns that the statements do not set in the rows that they update, and that files store inexactly, with
    # their types.
    kept: Mapping[str, str] = field(default_factory=dict)
    # The columns that they may set, and of which DuckLake does not check that they are NOT NULL.
    required: tuple[str, ...] = ()


@dataclass(frozen=True)
class SchemaChange:
    """SQL that creates a table or a view, or changes its definition."""

    sql: tuple[str, ...]


@dataclass(frozen=True)
class Files:
    """New rows of a table: files that become files of the table, and rows that DuckDB inserts besides."""

    table: TableInfo
    staged: Staged
    own_row_ids: bool = False  # True if the files contain the ids of their rows, which an `Outcome` deletes elsewhere

    def statements(self, alias: str) -> tuple[str, ...]:
        """The SQL that registers the files and inserts the other rows."""
        table, staged = self.table, self.staged
        rest = staged.rest if staged.files else staged.source
        name = qualified(alias, table.schema_name, table.name)
        # Name the columns: otherwise DuckDB matches by position, and another writer may have changed the columns.
        names = ", ".join(identifier(column.name) for column in table.columns)
        inserts = () if rest is None else (f"INSERT INTO {name} ({names}) SELECT {names} FROM ({rest})",)
        if not staged.files:
            return inserts
        arguments = ", ".join(map(literal, (alias, table.name)))
        # A folder such as `env=prod` in the data path is not a partition of the table.
        in_path = str(bool(table.partition_fields)).lower()
        options = f"schema => {literal(table.schema_name)}, hive_partitioning => {in_path}"
        return (f"CALL ducklake_add_data_files({arguments}, {exact_paths(staged.files)}, {options})", *inserts)


@dataclass(frozen=True)
class Replacement:
    """A new file with the rows of a group of files; all changes of the commit are replacements in this table."""

    table: TableInfo
    group: FileGroup
    footer: Footer  # what the footer of the new file says


Body: TypeAlias = Statements | SchemaChange | Files | Outcome | Replacement


@dataclass(frozen=True)
class Change:
    """One change in a commit."""

    table: str  # the table's full name
    body: Body  # what is done
    # The table state that other writers must not have changed since the read snapshot; None for a plain append.
    depends_on: ReadDependency | None = None
    key: CommitKey | None = None  # idempotency key; the change is skipped if it was already committed
    # The table for which the rows were written; None if this transaction creates or changes the table.
    written_for: TableInfo | None = None
    decision: str | None = None  # the engine that carries out the write, and the reason; None for a part of a write

    @property
    def deletes(self) -> bool:
        """True if the change deletes or replaces rows."""
        return isinstance(self.body, Outcome | Replacement) or (isinstance(self.body, Statements) and self.body.deletes)

    @property
    def adds_rows(self) -> bool:
        """True if the change may add rows; an update adds the rows that it changes."""
        if isinstance(self.body, Statements):
            return self.body.inserts or self.body.deletes
        return not isinstance(self.body, SchemaChange)

    @property
    def creates(self) -> bool:
        """True if the change creates the table."""
        return isinstance(self.body, SchemaChange) and any(sql.startswith("CREATE TABLE") for sql in self.body.sql)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that become files of the table."""
        if isinstance(self.body, Files):
            return self.body.staged.files
        return (self.body.footer.path,) if isinstance(self.body, Replacement) else ()

    @property
    def row_count(self) -> int:
        """The number of rows that were staged for the change; updated rows are those of an `Outcome` or of counts."""
        if isinstance(self.body, Files):
            return 0 if self.body.own_row_ids else self.body.staged.row_count or 0
        if isinstance(self.body, Outcome):
            return self.body.row_count or 0
        return sum(self.body.counts) if isinstance(self.body, Statements) else 0


def is_staged_commit(changes: Iterable[Change]) -> bool:
    """True if a staged commit carries out changes, instead of statements."""
    bodies = [change.body for change in changes]
    return any(
        isinstance(body, Replacement) or (isinstance(body, Outcome) and not body.by_statements) for body in bodies
    )


def written_by_ducklake(changes: Iterable[Change]) -> set[str]:
    """The tables for which statements may write files: not those whose files are registered as they are."""
    found = set[str]()
    for change in changes:
        body = change.body
        if isinstance(body, Files):
            is_written = not body.staged.files or body.staged.rest is not None
        else:
            is_written = isinstance(body, Outcome) or (isinstance(body, Statements) and bool(body.sql))
        found |= {change.table} if is_written else set[str]()
    return found


def tables_to_lock(changes: Iterable[Change], *, registers_alone: bool) -> set[str]:
    """The tables whose locks a commit holds, from before it begins until the reply.

    DuckLake keeps the name mappings of registered files in memory. On a catalog that it reads on separate connections,
    a transaction also loads a mapping that another one commits after its snapshot. DuckLake later loads this mapping
    again and uses freed memory: the process crashes or hangs (duckdb/ducklake#1431). So only one commit at a time
    registers files on such a catalog. The lock of the table of commits excludes the others, in all processes.
    """
    found, registers = set[str](), registers_alone and not is_staged_commit(changes := list(changes))
    for change in changes:
        if change.depends_on is not None:
            found.add(change.table)
        if change.key or (registers and change.files):
            found.add(TABLE)
    return found
