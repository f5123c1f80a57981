"""The rows that a commit deletes, as an engine has found them: positions in data files, and rows in the catalog."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.pruning.predicates import Predicate, columns_of
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_in
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo
from lakeconf.commit.actions import Action, run_counted
from lakeconf.commit.positions import PositionFile, Positions, write_positions
from lakeconf.commit.staged_tables import StagedTables
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_POSITION
from lakeconf.engines.engine import FILE_ROW_NUMBER, Engine, Staged
from lakeconf.errors import CommitConflictError
from lakeconf.sql import files_sql, literal, qualified


class PositionSearch(Protocol):
    """Finds the rows to delete in data files."""

    def find(self, plan: ScanPlan) -> Positions:
        """The positions of these rows in the files of a plan."""
        ...


class RowsMovedError(CommitConflictError):
    """Rows to delete are in other files than when they were found: the commit searches again."""


@dataclass(frozen=True)
class PositionDeletes:
    """The rows of data files to delete, as an engine has found them at a snapshot.

    Data files do not change, so what was found in a file is right for as long as the file exists and no other row of it
    is deleted.
    """

    snapshot_id: int
    files: frozenset[DataFile]  # the data files that were searched, as they were then
    positions: Positions  # files of which all rows are deleted may have a count only

    @property
    def row_count(self) -> int:
        """The number of the rows."""
        return sum(self.positions.counts.values())


class _CurrentRows(NamedTuple):
    """The rows to delete at the snapshot on which a commit builds."""

    plan: ScanPlan  # the files that may contain them
    inlined: tuple[tuple[str, int], ...]  # rows in the catalog: the name of the catalog's table, and the id of the row


@dataclass(frozen=True, kw_only=True)
class RowDelta(Action):
    """Rows to delete that an engine has found: all that satisfy a condition, or a known number of rows."""

    info: TableInfo
    folder: str  # the announced folder for the positions, as they are found and as the commit writes them
    in_files: PositionDeletes
    search: PositionSearch  # finds the rows in other files, if these are new or have lost rows
    in_catalog: str  # SQL that selects the rows in the catalog
    predicate: Predicate | None = None  # the condition; None for all rows, or if there is an `expected_count`
    # The number of rows, in files and in the catalog; None for all that satisfy the condition.
    expected_count: int | None = None
    is_few: bool = False  # True if few rows are deleted in files that keep other rows
    deletes: bool = True
    is_planned: bool = True

    @property
    def row_count(self) -> int:
        return self.expected_count or 0

    @property
    def writes_files(self) -> bool:
        return True

    @property
    def needs_staged_commit(self) -> bool:
        """False if statements must delete the rows, so that DuckLake's change feed is right.

        DuckLake keeps few deletes in the catalog, and the feed is wrong for those in a file of positions if the data
        file was merged or flushed. If all rows of a file with deletes in the catalog go, it returns these again.
        """
        if self.is_few:
            return False
        counts = self.in_files.positions.counts
        return self.expected_count is not None or not any(
            file.inlined_deletes and counts.get(file.data_file_id) == file.rows for file in self.in_files.files
        )

    @property
    def delete_folder(self) -> str:
        """The folder for files of deleted positions; a new attempt to commit writes them again."""
        return f"{self.folder}deletes/"

    def searched_again(self, reader: CatalogReader) -> RowDelta:
        """The same rows in the latest files; only files that have changed are searched."""
        is_all = self.expected_count is None
        latest = find_positions(reader, self.info, self.predicate, self.search, self.in_files, is_all=is_all)
        return replace(self, in_files=latest)

    def clean_up(self, engine: Engine) -> None:
        engine.release(Staged("", folder=self.delete_folder, announced=False, keeps_files=False))

    def stage(self, tables: StagedTables) -> None:
        """Writes the files of positions, and adds them to the rows of a staged commit."""
        reader = tables.reader
        plan, inlined = self._current(reader, tables.writer, tables.begun)
        dropped: list[DataFile] = []
        files: list[PositionFile] = []
        paths, counts = self.in_files.positions
        for file in plan.files:
            number = file.data_file_id
            if not counts.get(number):
                continue
            if self.expected_count is None and counts[number] == file.rows and is_droppable(file, reader.data_path):
                dropped.append(file)
                continue
            source = f"FROM {files_sql('read_parquet', paths[number])}"
            rows = f"SELECT {FILE_ROW_NUMBER} AS {DELETED_POSITION.name} {source}"
            files.append(write_positions(tables.writer, file, rows, counts[number], self.delete_folder, tables.begun))
        tables.delete_rows(self.info, dropped, files, inlined)

    def run(self, writer: Connection, reader: CatalogReader, begun: int) -> int:
        """Deletes the rows by statements."""
        statements = dict(self._statements(reader, writer, begun))
        run_counted(writer, self.table, statements, tuple(statements.values()))
        return 0

    def _statements(self, reader: CatalogReader, writer: Connection, begun: int) -> Iterator[tuple[str, int]]:
        """The statements that delete the rows, each with the number of rows."""
        plan, inlined = self._current(reader, writer, begun)
        delete, counts = f"DELETE FROM {self._name(reader)} WHERE", self.in_files.positions.counts
        sources = {file.path: self.in_files.positions.paths.get(file.data_file_id) for file in plan.files}
        whole = {
            file.path: counts[file.data_file_id]
            for file in plan.files
            if file.data_file_id in counts and sources[file.path] is None
        }
        places = " UNION ALL ".join(
            f"SELECT {literal(path)}, {FILE_ROW_NUMBER} FROM " + files_sql("read_parquet", source)
            for path, source in sources.items()
            if source is not None
        )
        if whole:
            yield f"{delete} {is_in_files(whole)}", sum(whole.values())
        if places:
            names = is_in_files(path for path, source in sources.items() if source is not None)
            by_position = f"{delete} {names} AND (filename, file_row_number) IN ({places})"
            yield by_position, self.in_files.row_count - sum(whole.values())
        if inlined:
            yield f"{delete} {is_in_files(plan.inlined_tables)} AND ({self.in_catalog})", len(inlined)

    def _current(self, reader: CatalogReader, writer: Connection, begun: int) -> _CurrentRows:
        plan = plan_delete(reader, self.info, self.predicate, begun)
        counts, files = self.in_files.positions.counts, set(plan.files)
        moved = any(file.data_file_id in counts and file not in files for file in self.in_files.files)
        if self.expected_count is None:
            moved = moved or not files <= self.in_files.files
        inlined = self._inlined(reader, writer, plan)
        count = self.in_files.row_count + len(inlined)
        if moved or self.expected_count not in (None, count):
            kind = CommitConflictError if self.in_files.snapshot_id == begun else RowsMovedError
            raise kind(
                f"expected to change {self.expected_count or count} rows of {self.info.full_name}, but found "
                f"{'them in other files' if moved else count}: nothing was written",
                hint="call lake.refresh() and try again",
            )
        return _CurrentRows(plan, inlined)

    def _inlined(self, reader: CatalogReader, writer: Connection, plan: ScanPlan) -> tuple[tuple[str, int], ...]:
        if not plan.inlined_tables:
            return ()
        rows = f"FROM {self._name(reader)} AT (VERSION => {plan.snapshot_id}) WHERE {is_in_files(plan.inlined_tables)}"
        time_zone = writer.time_zone
        with writer.cursor() as cursor:
            cursor.execute(f"SET TimeZone = {literal(time_zone)}")
            return tuple(cursor.rows(f"SELECT filename, rowid {rows} AND ({self.in_catalog}) ORDER BY ALL"))

    def _name(self, reader: CatalogReader) -> str:
        return qualified(reader.alias, self.info.schema_name, self.info.name)


def plan_delete(
    reader: CatalogReader, table: TableInfo, predicate: Predicate | None, snapshot_id: int | None = None
) -> ScanPlan:
    """The files that may contain rows to delete, by default of the latest snapshot: the commit then finds few changes.

    In an older plan, delete files could contain deletes of later snapshots.
    """
    names = [] if predicate is None else [column.name for column in columns_of(predicate)]
    name, time_zone = qualified(table.schema_name, table.name), reader.time_zone
    with reader.transaction() as transaction:
        if snapshot_id is None:
            snapshot_id = transaction.newest()
        return plan_in(transaction, time_zone, name, snapshot_id, names, predicate)


def find_positions(
    reader: CatalogReader,
    table: TableInfo,
    predicate: Predicate | None,
    search: PositionSearch,
    earlier: PositionDeletes | None = None,
    *,
    is_all: bool,
) -> PositionDeletes:
    """Finds the rows to delete in the latest files; files that have not changed since `earlier` are not searched again.

    Without a predicate, and if `is_all`, files can be dropped without a search.
    """
    plan = plan_delete(reader, table, predicate)
    old = frozenset[DataFile]() if earlier is None else earlier.files
    new = [file for file in plan.files if file not in old]
    whole = {file for file in new if is_all and predicate is None and is_droppable(file, reader.data_path)}
    searched = tuple(file for file in new if file not in whole)
    paths: dict[int, str] = {}
    counts = {file.data_file_id: file.rows for file in whole if file.rows}
    if searched:
        positions = search.find(replace(plan, files=searched, inlined_tables=(), inlined_row_count=0))
        paths, counts = paths | dict(positions.paths), counts | dict(positions.counts)
    if earlier is not None:
        kept = {file.data_file_id for file in plan.files if file in old}
        paths |= {number: path for number, path in earlier.positions.paths.items() if number in kept}
        counts |= {number: count for number, count in earlier.positions.counts.items() if number in kept}
    return PositionDeletes(plan.snapshot_id, frozenset(plan.files), Positions(paths, counts))


def is_droppable(file: DataFile, data_path: str) -> bool:
    """True if a staged commit can drop a file of which every visible row is deleted.

    If a dropped file has deletes in the catalog, DuckLake's change feed returns these rows again, and not the others.
    """
    return not file.inlined_deletes and file.snapshot_filter is None and file.path.startswith(data_path)


def is_in_files(paths: Iterable[str]) -> str:
    """The SQL condition that a row is in one of these files, or of the catalog's tables."""
    return f"filename IN ({', '.join(map(literal, paths))})"
