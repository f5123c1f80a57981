"""The staged commit: DuckLake takes new files and deleted rows as they are, so that no row passes through the driver.

Files of updated rows contain the ids of their rows, which no public function of DuckLake can register.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from lakeconf.catalog.file_footers import Footer, read_footers
from lakeconf.catalog.lost_bounds import table_bounds
from lakeconf.catalog.partition_folders import folder_values
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.deleted_rows import delete_rows
from lakeconf.commit.position_files import DeletedPositions, PositionFile
from lakeconf.commit.recovery import AttachedCatalog
from lakeconf.commit.replaced_files import Replacement, add_replacement, check_replaced
from lakeconf.commit.sorted_positions import SortedPositions
from lakeconf.commit.staged_delete import StagedDelete
from lakeconf.commit.staged_tables import Rows, commit, fill, statistics_row
from lakeconf.connection.connection import Connection
from lakeconf.connection.errors import failed_before_commit
from lakeconf.errors import CommitError, LakeconfError

# The first row id that the catalog records for a file with its own row ids; readers ignore it. DuckLake loses the ids
# when it merges files whose recorded ids are consecutive, so this is far from those of other files.
_OWN_ROW_IDS = 10**15
_SNAPSHOT = "SELECT schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot WHERE snapshot_id = ?"


@dataclass(frozen=True)
class FileChange:
    """A change to the rows of a table that needs no statement: its files exist, except those of deleted positions.

    Attributes:
        table: The table.
        files: New data files; of a partitioned table, each in the folder of its partition.
        own_row_ids: True if the files contain the ids of their rows.
        row_ids: SQL that returns the ids of rows to delete, as `ROW_ID`; empty if none is deleted.
        row_count: The number of these rows.
        folder: The folder for the files of deleted positions; it exists.
        found: Positions of these rows, which executors have found.
        deleted: Rows that satisfy a condition; the change has no other attributes then.
        replacement: Files that other files replace, with the same rows; the change has no other attributes then, and
            all changes of the commit are replacements in this table.
    """

    table: TableInfo
    files: tuple[str, ...] = ()
    own_row_ids: bool = False
    row_ids: str = ""
    row_count: int = 0
    folder: str = ""
    found: SortedPositions | None = None
    deleted: StagedDelete | None = None
    replacement: Replacement | None = None


@dataclass(frozen=True)
class StagedCatalog(AttachedCatalog):
    """Like `AttachedCatalog`, but commits with `ducklake_commit` instead of the transaction, which only reads.

    The names that the function gets for files are below a folder that does not exist. It stores them relative to that
    folder. If the commit fails, or its reply is lost, it tries to remove the files, and finds none.
    """

    _staged: list[tuple[Rows, int]] = field(default_factory=list)
    _used: list[Connection] = field(default_factory=list)
    _committed: list[int] = field(default_factory=list)

    @property
    def data_path(self) -> str:
        """The folder that does not exist, instead of the lake's data path."""
        return f"/lakeconf-{self.token}/"

    def stage(self, changes: Sequence[FileChange | None], begun: int, info: tuple[str | None, str | None, str]) -> None:
        """Prepares the commit inside the transaction, which has read the snapshot `begun`.

        Args:
            changes: The changes; it refuses one that needs statements.
            begun: The snapshot.
            info: Author, message and extra info of the commit.

        Raises:
            CommitConflictError: Rows to delete do not exist.
            CommitError: A file cannot be committed.
            StatementsNeeded: The commit cannot delete all rows that satisfy a condition, or there is none.
        """
        with self.reader.transaction() as transaction:
            ((schema_version, *next_ids),) = transaction.rows(_SNAPSHOT, [begun])
            replaced = next((change.table for change in changes if change and change.replacement), None)
            bounds = {} if replaced is None else table_bounds(transaction, replaced.table_id)
        rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        rows["commit"].append((*info, begun, self.data_path, "/", *next_ids))
        replacements: list[Replacement] = []
        for change in changes:
            if change is None:
                raise AssertionError("a staged commit runs no statements")
            for footer in read_footers(self.writer, change.files, change.table.columns):
                self._add_data_file(rows, change, footer)
            if change.row_ids:
                self._add_deletes(rows, change, begun)
            if change.deleted is not None:
                self._add_deleted(rows, change.deleted, begun)
            if change.replacement is not None:
                replacements.append(change.replacement)
                add_replacement(rows, change.table, change.replacement, self._hidden, bounds)
        if replaced is not None:
            check_replaced(self.reader, replaced, replacements, begun)
        self._staged[:] = [(rows, int(schema_version))]

    def commit(self) -> None:
        ((rows, schema_version),) = self._staged
        super().roll_back()
        cursor = self.writer.cursor()
        self._used.append(cursor)
        fill(cursor, rows)
        try:
            self._committed.append(commit(cursor, self.reader.metadata_database, schema_version))
        except CommitError as error:
            # Without the table, for example, DuckLake makes invalid SQL before it finds the newer snapshot.
            begun = rows["commit"][0][3]
            error.overtaken |= failed_before_commit(error) and latest(self.reader).snapshot_id != begun
            raise

    def roll_back(self) -> None:
        super().roll_back()
        # After Ctrl-C, the function may still be running: a statement on its connection waits for it.
        for cursor in self._used:
            try:
                cursor.rows("SELECT 1")
            except LakeconfError:
                continue

    def last_committed(self, begun: int) -> int:
        return max(begun, *self._committed)

    def release_written(self) -> None:
        super().release_written()
        while self._used:
            self._used.pop().close()

    def _hidden(self, path: str) -> str:
        """The name of a file for the function."""
        if not path.startswith(self.reader.data_path):
            raise CommitError(f"the file {path} is outside the data path {self.reader.data_path}: nothing was written")
        return self.data_path + path.removeprefix(self.reader.data_path)

    def _add_data_file(self, rows: dict[str, list[tuple[object, ...]]], change: FileChange, footer: Footer) -> None:
        number, table = len(rows["data_file"]), change.table
        first = _OWN_ROW_IDS if change.own_row_ids else None
        sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
        path = self._hidden(footer.path)
        # DuckLake records a partitioning for the files of a table only while the table has keys.
        partition_id = table.partition_id if table.partition_fields else None
        ids = (first, partition_id)
        rows["data_file"].append((number, table.table_id, number, path, False, "parquet", *sizes, *ids, *[None] * 5))
        rows["data_file_column_stats"] += [
            (number, table.table_id, column.field_id, *statistics_row(column)) for column in footer.statistics
        ]
        if table.partition_fields:
            values = zip(table.partition_fields, folder_values(table, footer.path), strict=True)
            rows["data_file_partition"] += [(number, key.index, value) for key, value in values]

    def _add_deletes(self, rows: dict[str, list[tuple[object, ...]]], change: FileChange, begun: int) -> None:
        ids = (change.row_ids, change.row_count)
        found = delete_rows(self.reader, self.writer, change.table, *ids, begun, change.folder, change.found)
        self._add_positions(rows, change.table, found)

    def _add_deleted(self, rows: dict[str, list[tuple[object, ...]]], deleted: StagedDelete, begun: int) -> None:
        dropped, found = deleted.rows(self.reader, self.writer, begun)
        rows["dropped_file"] += [(self._hidden(file.path), file.data_file_id) for file in dropped]
        rows["tables_deleted_from"] += [(deleted.table.table_id,)] if dropped else []
        self._add_positions(rows, deleted.table, found)

    def _add_positions(
        self, rows: dict[str, list[tuple[object, ...]]], table: TableInfo, found: DeletedPositions
    ) -> None:
        rows["inlined_delete"] += [(table.table_id, name, row_id) for name, row_id in found.inlined]
        rows["delete_file"] += [self._delete_file(table, file) for file in found.files]

    def _delete_file(self, table: TableInfo, file: PositionFile) -> tuple[object, ...]:
        (footer,) = read_footers(self.writer, [file.path])
        if footer.row_count != file.row_count:
            raise CommitError(f"{file.path} contains {footer.row_count} positions instead of {file.row_count}")
        sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
        names = (table.table_id, file.data_file, file.data_file_id, self._hidden(file.path), "parquet")
        if file.earlier is None:
            return (*names, *sizes, None, None, None, "REGULAR", False, None, None, None)
        earlier = file.earlier
        replaced = (True, earlier.delete_file_id, self._hidden(earlier.path))
        return (*names, *sizes, None, earlier.begin_snapshot, file.snapshot_id, "REGULAR", *replaced, None)
