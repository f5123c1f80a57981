"""The actions of a commit: each knows its locks, dependencies and files, and how either protocol carries it out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lakeconf.catalog.column_types import all_types
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit.conflicts import ReadDependency, ReadView
from lakeconf.commit.evolved_columns import EvolvedColumns
from lakeconf.commit.journal import TABLE, CommitKey
from lakeconf.commit.moved_values import MovedRows, RequiredValues
from lakeconf.engines.engine import Engine, Staged
from lakeconf.errors import CommitConflictError, UnsupportedError
from lakeconf.sql import exact_paths, identifier, literal, qualified

if TYPE_CHECKING:
    from lakeconf.catalog.data_file import FileGroup
    from lakeconf.catalog.file_footers import Footer
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.commit.staged_tables import StagedTables
    from lakeconf.connection.connection import Connection


@dataclass(frozen=True)
class Target:
    """A table as a transaction will leave it."""

    info: TableInfo  # its columns are those that rows are written with
    types: Mapping[str, str]  # its columns and the DuckDB names of their types
    # The table in the catalog, for the check at the commit; None if the transaction itself defines or changes it.
    stored: TableInfo | None
    # What the transaction did last, such as `dropped main.events`, if it cannot use the table any more.
    ended_by: str | None = None
    exists: bool = True  # False if the name is free after the transaction
    evolved: EvolvedColumns = field(default_factory=EvolvedColumns)  # what the transaction did to its columns


@dataclass(frozen=True, kw_only=True)
class Action:
    """One change of a commit, which DuckDB carries out by statements, or a staged commit by rows of its tables."""

    table: str  # the full name of the table
    # The table state that other writers must not have changed since the read snapshot; None for a plain append.
    depends_on: ReadDependency | None = None
    drops_view: ReadView | None = None  # the view that it drops, unless the transaction itself has created it
    # The table for which rows were written; None if this transaction creates or changes the table.
    written_for: TableInfo | None = None
    key: CommitKey | None = None  # idempotency key; the action is skipped if it was already committed
    strategy: str | None = None  # the engine that carries out the write, and the reason; None for a part of a write
    changes_rows: bool = True  # True if it adds, deletes or updates rows, or may do so
    deletes: bool = False  # True if it deletes, updates or replaces rows
    creates: bool = False  # True if it creates the table
    adds_nested: bool = False  # True if it adds a column that has fields or elements
    is_planned: bool = False  # True if it was computed from the files of a snapshot
    user_sql: str | None = None  # the user's own SQL, whose views and macros are checked at the commit
    # The tables that it defines, as it leaves them, by full name in lower case.
    targets: Mapping[str, Target] = field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that become files of the table."""
        return ()

    @property
    def row_count(self) -> int:
        """The number of rows that were staged for the action."""
        return 0

    @property
    def adds_rows(self) -> bool:
        """True if the action may add rows; an update adds the rows that it changes."""
        return self.changes_rows

    @property
    def needs_staged_commit(self) -> bool:
        """True if no statement carries out the action."""
        return False

    @property
    def writes_files(self) -> bool:
        """True if statements of the action may write files."""
        return False

    @property
    def may_add_structs(self) -> bool:
        """False if no column of the table is, or ever was, a struct or a list of JSON."""
        table = self.written_for
        return table is None or not table.types.isdisjoint(("struct", "json"))

    def locks(self) -> set[str]:
        """The tables whose locks the commit holds, from before it begins until the reply."""
        tables = set[str]() if self.depends_on is None else {self.table}
        return tables | {TABLE} if self.key else tables

    def run(self, writer: Connection, reader: CatalogReader, begun: int) -> int:  # noqa: ARG002
        """Runs the statements in the transaction of a commit that builds on a snapshot.

        Returns the number of new rows that was not known before.
        """
        raise AssertionError(f"no statement carries out {type(self).__name__}")

    def stage(self, tables: StagedTables) -> None:  # noqa: ARG002
        """Adds the rows of a staged commit."""
        raise AssertionError(f"a staged commit cannot carry out {type(self).__name__}")

    def searched_again(self, reader: CatalogReader) -> Action:  # noqa: ARG002
        """The same action for the latest files, after a conflict with another commit that moved rows."""
        return self

    def clean_up(self, engine: Engine) -> None:
        """Removes the files of an attempt that failed: the next attempt may not need all of them."""


@dataclass(frozen=True, kw_only=True)
class RunSql(Action):
    """SQL that changes rows, which DuckDB runs inside the commit's transaction."""

    sql: tuple[str, ...] = ()
    counts: tuple[int, ...] = ()  # the number of rows that each must change; empty if it is not known in advance
    inserts: bool = False  # True if they insert rows whose number is not known in advance
    # The columns that the statements do not set in the rows that they update, and that files store inexactly, with
    # their types.
    kept: Mapping[str, str] = field(default_factory=dict)
    # The columns that they may set, and of which DuckLake does not check that they are NOT NULL.
    required: tuple[str, ...] = ()

    @property
    def adds_rows(self) -> bool:
        return self.inserts or self.deletes

    @property
    def row_count(self) -> int:
        return sum(self.counts)

    @property
    def writes_files(self) -> bool:
        return bool(self.sql)

    def run(self, writer: Connection, reader: CatalogReader, begun: int) -> int:
        del begun
        checks: list[MovedRows | RequiredValues] = []
        if self.kept:
            checks.append(MovedRows(writer, reader.alias, self.table, self.kept))
        if self.required:
            checks.append(RequiredValues(writer, reader.alias, self.table, self.required))
        inserted = 0
        if self.inserts:
            for statement in self.sql:
                ((count,),) = writer.rows(statement)
                inserted += count
        else:
            run_counted(writer, self.table, self.sql, self.counts)
        for check in checks:
            check.check()
        return inserted


@dataclass(frozen=True, kw_only=True)
class AddFiles(Action):
    """New rows of a table: files that become files of the table, and rows that DuckDB inserts besides."""

    info: TableInfo
    staged: Staged
    own_row_ids: bool = False  # True if the files contain the ids of their rows, which a `RowDelta` deletes elsewhere

    @property
    def files(self) -> tuple[str, ...]:
        return self.staged.files

    @property
    def row_count(self) -> int:
        return 0 if self.own_row_ids else self.staged.row_count or 0

    @property
    def writes_files(self) -> bool:
        return not self.staged.files or self.staged.rest is not None

    @property
    def may_add_structs(self) -> bool:
        return any(not all_types(column).isdisjoint(("struct", "json")) for column in self.info.columns)

    def run(self, writer: Connection, reader: CatalogReader, begun: int) -> int:
        """Registers the files, and inserts the other rows."""
        del begun
        info, staged = self.info, self.staged
        if staged.files:
            arguments = ", ".join(map(literal, (reader.alias, info.name)))
            # A folder such as `env=prod` in the data path is not a partition of the table.
            in_path = str(bool(info.partition_fields)).lower()
            options = f"schema => {literal(info.schema_name)}, hive_partitioning => {in_path}"
            writer.execute(f"CALL ducklake_add_data_files({arguments}, {exact_paths(staged.files)}, {options})")
        rows = staged.rest if staged.files else staged.source
        if rows is not None:
            name = qualified(reader.alias, info.schema_name, info.name)
            # Name the columns: otherwise DuckDB matches by position, and another writer may have changed the columns.
            columns = ", ".join(map(identifier, [column.name for column in info.columns]))
            writer.execute(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM ({rows})")
        return 0

    def stage(self, tables: StagedTables) -> None:
        if self.staged.row_count != 0 and not self.staged.files:
            raise AssertionError("a staged commit inserts no rows")
        tables.add_data_files(self.info, self.staged.files, own_row_ids=self.own_row_ids)


@dataclass(frozen=True, kw_only=True)
class ReplaceFiles(Action):
    """New files with the rows of groups of files; every other action of the commit replaces files of this table too."""

    info: TableInfo
    groups: Sequence[tuple[FileGroup, Footer]]  # the files to replace, and what the footer of their new file says
    deletes: bool = True
    is_planned: bool = True

    @property
    def files(self) -> tuple[str, ...]:
        return tuple(footer.path for _, footer in self.groups)

    @property
    def adds_rows(self) -> bool:
        """True if the action may add rows; an update adds the rows that it changes."""
        return self.changes_rows

    @property
    def needs_staged_commit(self) -> bool:
        return True

    def stage(self, tables: StagedTables) -> None:
        tables.replace_files(self.info, self.groups)


@dataclass(frozen=True, kw_only=True)
class DefineTable(Action):
    """SQL that creates a table or a view, or changes or ends its definition."""

    sql: tuple[str, ...]
    changes_rows: bool = False

    def run(self, writer: Connection, reader: CatalogReader, begun: int) -> int:
        del reader, begun
        try:
            for statement in self.sql:
                writer.execute(statement)
        except UnsupportedError as error:
            raise UnsupportedError(f"{self.table} cannot be changed: {error.message}", hint=error.hint) from error
        return 0


def run_counted(writer: Connection, table: str, statements: Iterable[str], counts: Sequence[int]) -> None:
    """Runs statements, each of which must change a number of rows; without `counts`, any number."""
    if not counts:
        for statement in statements:
            writer.execute(statement)
        return
    for statement, count in zip(statements, counts, strict=True):
        ((changed,),) = writer.rows(statement)
        if changed != count:
            raise CommitConflictError(
                f"expected to change {count} rows of {table}, but found {changed}: nothing was written",
                hint="call lake.refresh() and try again; in a transaction, write to each row only once",
            )
