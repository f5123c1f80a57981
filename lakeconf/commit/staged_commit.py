"""The protocol of a commit whose files executors have written: DuckLake's function `ducklake_commit` adds them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakeconf.catalog.snapshot import latest
from lakeconf.commit import journal
from lakeconf.commit.actions import AddFiles
from lakeconf.commit.journal import CommitKey
from lakeconf.commit.sql_commit import SqlCommit
from lakeconf.commit.staged_tables import StagedTables, commit_tables
from lakeconf.connection.duckdb_errors import failed_before_commit
from lakeconf.engines.engine import Staged
from lakeconf.errors import CommitConflictError, CommitError, LakeconfError
from lakeconf.sql import identifier, literal

if TYPE_CHECKING:
    from lakeconf.catalog.tables import TableInfo
    from lakeconf.commit.actions import Action
    from lakeconf.commit.staging import StagingArea
    from lakeconf.connection.connection import Connection


class StagedCommit(SqlCommit):
    """Commits with `ducklake_commit`; the transaction of `SqlCommit` only reads."""

    name = "staged"
    keeps_positions = True

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._tables: StagedTables | None = None
        self._schema_version = 0
        self._cursors: list[Connection] = []
        self._snapshot_id: int | None = None
        self._key_files: list[str] = []

    @property
    def key_files(self) -> Sequence[str]:
        return self._key_files

    def carry_out(self, actions: Iterable[Action], begun: int) -> int:
        tables = self._tables = StagedTables(self.reader, self.writer, begun, f"/lakeconf-{self.token}/")
        for action in actions:
            action.stage(tables)
        return 0

    def record(self, keys: Collection[CommitKey], events: Sequence[journal.Event], staging: StagingArea) -> None:
        tables = self._staged_tables
        if events:
            raise AssertionError("a staged commit records no events")
        for key in keys:
            info = journal.table_of_keys(self.reader, tables.begun)
            if info is None or info.partition_fields:
                raise CommitConflictError(f"another writer has changed {journal.TABLE}", hint="try again")
            folder = staging.announced_folder(info)
            path = f"{folder}key.parquet"
            self._key_files.append(path)
            staged = staging.own(Staged("", files=(path,), folder=folder, row_count=0))
            _write_key(self.writer, info, journal.key_row(self.token, key), path)
            AddFiles(table=info.full_name, info=info, staged=staged).stage(tables)

    def describe(self, author: str | None, message: str | None, info: str) -> bool:
        is_empty = self._staged_tables.is_empty
        self._schema_version = self._staged_tables.describe(author, message, info)
        return not is_empty

    def written_tables(self, actions: Iterable[Action], *, records: bool) -> set[str]:
        del actions, records
        return set()  # executors have written all files

    def commit(self) -> None:
        tables = self._staged_tables
        super().roll_back()
        cursor = self.writer.cursor()
        self._cursors.append(cursor)
        tables.fill(cursor)
        try:
            self._snapshot_id = commit_tables(cursor, self.reader.metadata_database, self._schema_version)
        except CommitError as error:
            # Without the table, for example, DuckLake makes invalid SQL before it finds the newer snapshot.
            error.overtaken |= failed_before_commit(error) and latest(self.reader).snapshot_id != tables.begun
            raise

    def roll_back(self) -> None:
        super().roll_back()
        # After Ctrl-C, the function may still be running: a statement on its connection waits for it.
        for cursor in self._cursors:
            try:
                cursor.rows("SELECT 1")
            except LakeconfError:
                continue

    def last_committed(self, begun: int) -> int:
        return begun if self._snapshot_id is None else max(begun, self._snapshot_id)

    def release_written(self) -> None:
        super().release_written()
        while self._cursors:
            self._cursors.pop().close()

    @property
    def _staged_tables(self) -> StagedTables:
        if self._tables is None:
            raise AssertionError("nothing was carried out")
        return self._tables


def _write_key(writer: Connection, keys: TableInfo, row: str, path: str) -> None:
    """Writes a file of the table of idempotency keys."""
    if "://" not in path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    ids = ", ".join(f"{identifier(column.name)}: {column.field_id}" for column in keys.columns)
    writer.execute(f"COPY ({row}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
