"""Deleted rows: the positions that an engine has found, and DuckLake's files of deleted positions."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.catalog.file_footers import files_with
from lakeconf.catalog.pruning.predicates import Predicate, columns_of
from lakeconf.catalog.pruning.scan_plan import ScanPlan, plan_in
from lakeconf.catalog.reader import CatalogReader, own_rows
from lakeconf.catalog.tables import TableInfo, split_name
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_FILE, DELETED_POSITION, INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.engine import FILE_ROW_NUMBER, ROW_ID
from lakeconf.errors import CatalogError, CommitConflictError
from lakeconf.sql import files_sql, identifier, literal, qualified

_POSITION, _SNAPSHOT = DELETED_POSITION.name, INTERNAL_SNAPSHOT_ID.name
# DuckDB needs about 50 bytes of memory for each position that it sorts.
SORTED_IN_MEMORY = 500_000


class Positions(NamedTuple):
    """The positions of rows in data files."""

    # The file with the positions in each data file, by the id of the data file. Its only column is `FILE_ROW_NUMBER`,
    # in ascending order.
    paths: Mapping[int, str]
    counts: Mapping[int, int]  # the numbers of these positions


# Finds the rows to delete in the files of a plan.
Search: TypeAlias = Callable[[ScanPlan], Positions]


class RowsMoved(Exception):  # noqa: N818 - no error: the commit searches again
    """Rows to delete are in other files than when they were found."""

    def __init__(self, conflict: CommitConflictError) -> None:
        super().__init__(conflict.message)
        self.conflict = conflict


@dataclass(frozen=True)
class Found:
    """The rows of data files to delete, as an engine has found them at a snapshot.

    Data files do not change, so what was found in a file is right for as long as the file exists and no other row of it
    is deleted.
    """

    snapshot_id: int  # the snapshot
    files: frozenset[DataFile]  # the data files that were searched, as they were then
    positions: Positions  # the positions; files of which all rows are deleted may have a count only

    @property
    def row_count(self) -> int:
        """The number of the rows."""
        return sum(self.positions.counts.values())


class Deleted(NamedTuple):
    """What a staged commit deletes."""

    dropped: tuple[DataFile, ...]  # files of which every row is deleted
    files: tuple[PositionFile, ...]  # the new files of positions in other files
    inlined: tuple[tuple[str, int], ...]  # rows in the catalog: the name of the catalog's table, and the id of the row


@dataclass(frozen=True)
class Outcome:
    """Rows to delete that an engine has found: all that satisfy a condition, or a known number of rows."""

    table: TableInfo
    folder: str  # the announced folder for the positions, as they are found and as the commit writes them
    found: Found  # the rows in data files
    search: Search  # finds them in other files, if these are new or have lost rows
    in_catalog: str  # SQL that selects the rows in the catalog
    predicate: Predicate | None = None  # the condition; None for all rows, or if there is a `row_count`
    # The number of rows, in files and in the catalog; None for all that satisfy the condition.
    row_count: int | None = None
    is_few: bool = False  # True if few rows are deleted in files that keep other rows

    @property
    def delete_folder(self) -> str:
        """The folder for files of deleted positions; a new attempt to commit writes them again."""
        return f"{self.folder}deletes/"

    @property
    def by_statements(self) -> bool:
        """True if statements must delete the rows, so that DuckLake's change feed is right.

        DuckLake keeps few deletes in the catalog, and the feed is wrong for those in a file of positions if the data
        file was merged or flushed. If all rows of a file with deletes in the catalog go, it returns these again.
        """
        counts = self.found.positions.counts
        return self.is_few or (
            self.row_count is None
            and any(file.inlined_deletes and counts.get(file.data_file_id) == file.rows for file in self.found.files)
        )

    def searched(self, reader: CatalogReader) -> Outcome:
        """The same rows in the latest files; only files that have changed are searched."""
        is_all = self.row_count is None
        return replace(self, found=find(reader, self.table, self.predicate, self.search, self.found, is_all=is_all))

    def deleted(self, reader: CatalogReader, writer: Connection, begun: int) -> Deleted:
        """Writes the files of positions for a commit that builds on a snapshot."""
        plan, inlined = self._current(reader, writer, begun)
        dropped, files = [], []
        paths, counts = self.found.positions
        for file in plan.files:
            number = file.data_file_id
            if not counts.get(number):
                continue
            if self.row_count is None and counts[number] == file.rows and is_droppable(file, reader.data_path):
                dropped.append(file)
                continue
            source = f"FROM {files_sql('read_parquet', paths[number])}"
            rows = f"SELECT {FILE_ROW_NUMBER} AS {_POSITION} {source}"
            files.append(write_positions(writer, file, rows, counts[number], self.delete_folder, begun))
        return Deleted(tuple(dropped), tuple(files), inlined)

    def statements(
        self, reader: CatalogReader, writer: Connection, begun: int
    ) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """The statements that delete the rows in a commit that builds on a snapshot, and the numbers of rows."""
        plan, inlined = self._current(reader, writer, begun)
        delete, counts = f"DELETE FROM {self._name(reader)} WHERE", self.found.positions.counts
        sources = {file.path: self.found.positions.paths.get(file.data_file_id) for file in plan.files}
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
        found = {f"{delete} {in_files(whole)}": sum(whole.values())} if whole else {}
        if places:
            names = in_files(path for path, source in sources.items() if source is not None)
            by_position = f"{delete} {names} AND (filename, file_row_number) IN ({places})"
            found[by_position] = self.found.row_count - sum(whole.values())
        if inlined:
            found[f"{delete} {in_files(plan.inlined_tables)} AND ({self.in_catalog})"] = len(inlined)
        return tuple(found), tuple(found.values())

    def _current(
        self, reader: CatalogReader, writer: Connection, begun: int
    ) -> tuple[ScanPlan, tuple[tuple[str, int], ...]]:
        """The files at a snapshot, and the rows to delete that are in the catalog."""
        plan = plan_delete(reader, self.table, self.predicate, begun)
        counts, files = self.found.positions.counts, set(plan.files)
        moved = any(file.data_file_id in counts and file not in files for file in self.found.files)
        if self.row_count is None:
            moved = moved or not files <= self.found.files
        inlined = self._inlined(reader, writer, plan)
        count = self.found.row_count + len(inlined)
        if moved or self.row_count not in (None, count):
            conflict = CommitConflictError(
                f"expected to change {self.row_count or count} rows of {self.table.full_name}, but found "
                f"{'them in other files' if moved else count}: nothing was written",
                hint="call lake.refresh() and try again",
            )
            raise conflict if self.found.snapshot_id == begun else RowsMoved(conflict)
        return plan, inlined

    def _inlined(self, reader: CatalogReader, writer: Connection, plan: ScanPlan) -> tuple[tuple[str, int], ...]:
        if not plan.inlined_tables:
            return ()
        rows = f"FROM {self._name(reader)} AT (VERSION => {plan.snapshot_id}) WHERE {in_files(plan.inlined_tables)}"
        ((time_zone,),) = writer.rows("SELECT system.main.current_setting('TimeZone')")
        with writer.cursor() as cursor:
            cursor.execute(f"SET TimeZone = {literal(time_zone)}")
            return tuple(cursor.rows(f"SELECT filename, rowid {rows} AND ({self.in_catalog}) ORDER BY ALL"))

    def _name(self, reader: CatalogReader) -> str:
        return qualified(reader.alias, self.table.schema_name, self.table.name)


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


def find(
    reader: CatalogReader,
    table: TableInfo,
    predicate: Predicate | None,
    search: Search,
    known: Found | None = None,
    *,
    is_all: bool,
) -> Found:
    """Finds the rows to delete in the latest files; files of `known` that have not changed are not searched again.

    Without a predicate, and if `is_all`, files can be dropped without a search.
    """
    plan = plan_delete(reader, table, predicate)
    old = frozenset[DataFile]() if known is None else known.files
    new = [file for file in plan.files if file not in old]
    whole = {file for file in new if is_all and predicate is None and is_droppable(file, reader.data_path)}
    searched = tuple(file for file in new if file not in whole)
    paths: dict[int, str] = {}
    counts = {file.data_file_id: file.rows for file in whole if file.rows}
    if searched:
        found = search(replace(plan, files=searched, inlined_tables=(), inlined_row_count=0))
        paths, counts = paths | dict(found.paths), counts | dict(found.counts)
    if known is not None:
        kept = {file.data_file_id for file in plan.files if file in old}
        paths |= {number: path for number, path in known.positions.paths.items() if number in kept}
        counts |= {number: count for number, count in known.positions.counts.items() if number in kept}
    return Found(plan.snapshot_id, frozenset(plan.files), Positions(paths, counts))


def is_droppable(file: DataFile, data_path: str) -> bool:
    """True if a staged commit can drop a file of which every visible row is deleted.

    If a dropped file has deletes in the catalog, DuckLake's change feed returns these rows again, and not the others.
    """
    return not file.inlined_deletes and file.snapshot_filter is None and file.path.startswith(data_path)


def in_files(paths: Iterable[str]) -> str:
    """The SQL condition that a row is in one of these files, or of the catalog's tables."""
    return f"filename IN ({', '.join(map(literal, paths))})"


@dataclass(frozen=True, slots=True)
class PositionFile:
    """A new file of deleted positions."""

    path: str  # its path
    data_file: DataFile  # the data file; its live delete file is replaced and contained
    row_count: int  # the number of its positions
    snapshot_id: int  # the snapshot of the new positions


def found_positions(writer: Connection, paths: Mapping[int, str]) -> Positions | None:
    """Positions that an engine has sorted; None if a position is repeated."""
    counts: dict[int, int] = {}
    for data_file_id, path in paths.items():
        source = files_sql("read_parquet", path)
        # DuckDB reads a file in its order on one thread, and keeps only the row before.
        numbered = f"SELECT {FILE_ROW_NUMBER} AS this, lag({FILE_ROW_NUMBER}) OVER () AS before FROM {source}"
        query = f"SELECT count(*), count(*) FILTER (this <= before) FROM ({numbered})"
        ((counts[data_file_id], repeated_count),) = writer.rows(query)
        if repeated_count:
            return None
    return Positions(paths, counts)


def write_positions(
    writer: Connection, data_file: DataFile, positions: str, count: int, folder: str, begun: int
) -> PositionFile:
    """Writes the file of deleted positions of a data file, with those of its live delete file.

    `positions` is SQL for the positions of visible rows in ascending order, each once.
    """
    snapshot_id, earlier = begun + 1, data_file.delete_file
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    # DuckDB could read an earlier file of this name, of an overtaken attempt of the commit, from its cache.
    path = f"{folder}{data_file.data_file_id}-{snapshot_id}.parquet"
    columns = [DELETED_FILE, DELETED_POSITION]
    if earlier is not None:
        columns.append(INTERNAL_SNAPSHOT_ID)
        positions = _with_earlier(writer, earlier, positions, snapshot_id)
        count += earlier.delete_count
    with _ordered(writer, positions, len(columns) - 1, count, is_ordered=earlier is None) as rows:
        # The name is added after the sort, which would need ten times the memory for it.
        named = f"SELECT {literal(data_file.path)} AS {DELETED_FILE.name}, * FROM ({rows})"
        ids = ", ".join(f"{column.name}: {column.field_id}" for column in columns)
        writer.execute(f"COPY ({named}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
    return PositionFile(path, data_file, count, snapshot_id)


def _with_earlier(writer: Connection, earlier: DeleteFile, positions: str, snapshot_id: int) -> str:
    """SQL for the positions and those of earlier deletes, with their snapshots."""
    if earlier.format != "parquet":
        raise CommitConflictError(f"the deletes in {earlier.path} cannot be extended")
    since = _SNAPSHOT if files_with(writer, [earlier.path], _SNAPSHOT) else f"{earlier.begin_snapshot}::BIGINT"
    return (
        f"SELECT {_POSITION}, {snapshot_id}::BIGINT AS {_SNAPSHOT} FROM ({positions}) UNION ALL "
        f"SELECT {_POSITION}::BIGINT AS {_POSITION}, {since} AS {_SNAPSHOT} "
        f"FROM {files_sql('read_parquet', earlier.path)}"
    )


@contextmanager
def _ordered(writer: Connection, rows: str, columns: int, count: int, *, is_ordered: bool) -> Iterator[str]:
    """SQL that returns rows in the order of their positions."""
    if is_ordered:
        yield _in_order(rows, columns)
        return
    if count <= SORTED_IN_MEMORY:
        yield f"FROM ({rows}) ORDER BY {_POSITION}"
        return
    # Ranges of positions are sorted one after the other; each is in a local file, to spare a bucket.
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as local:
        everything = str(Path(local) / "all.parquet")
        writer.execute(f"COPY ({_in_order(rows, columns)}) TO {literal(everything)} (FORMAT parquet)")
        found = files_sql("read_parquet", everything)
        ((low, high),) = writer.rows(f"SELECT min({_POSITION}), max({_POSITION}) FROM {found}")
        parts = []
        for start in range(low, high + 1, SORTED_IN_MEMORY):
            part = str(Path(local) / f"{start}.parquet")
            within = f"{_POSITION} BETWEEN {start} AND {start + SORTED_IN_MEMORY - 1}"
            ordered = f"FROM {found} WHERE {within} ORDER BY {_POSITION}"
            writer.execute(f"COPY ({ordered}) TO {literal(part)} (FORMAT parquet)")
            parts.append(part)
        yield _in_order(f"FROM {files_sql('read_parquet', parts)}", columns)


def _in_order(rows: str, columns: int) -> str:
    """SQL that returns rows in their order, so that COPY needs no memory for them.

    COPY would keep each row group of a source in memory until its turn: 500 MB for three million positions. It does not
    if a source cannot tell its row groups apart, such as `range`.
    """
    none = ", ".join(["range"] * columns)
    return f"FROM ({rows}) UNION ALL SELECT {none} FROM system.main.range(0)"


def have_row_ids(connection: Connection, files: Sequence[str], rows: str) -> bool:
    """True if files contain exactly the ids of rows; compared are the count, a sum of hashes, and the bounds."""
    written = f"FROM {files_sql('read_parquet', files)}"
    return _summary(connection, written, INTERNAL_ROW_ID.name) == _summary(connection, f"FROM ({rows})", ROW_ID)


def repeated_id(connection: Connection, rows: str) -> tuple[int, int] | None:
    """An id that several rows have, and their number; None if all ids differ."""
    grouped = f"SELECT {ROW_ID}, count(*) FROM ({rows}) GROUP BY {ROW_ID} HAVING count(*) > 1"
    found = connection.rows(f"{grouped} ORDER BY {ROW_ID} LIMIT 1")
    return (int(found[0][0]), int(found[0][1])) if found else None


def _summary(connection: Connection, source: str, column: str) -> tuple[int, ...]:
    name = identifier(column)
    query = f"SELECT count({name}), coalesce(sum(hash({name})::HUGEINT), 0), min({name}), max({name}) {source}"
    (found,) = connection.rows(query)
    return found


# DuckDB reads such a data file once for each delete file. A row that was not deleted is returned each time, so a
# delete file contains each row with fewer copies.
_REBUILD = """\
CREATE TABLE {rebuilt} AS WITH
copies AS (SELECT path, greatest(count(delete_file_id), 1) AS wanted FROM (
    SELECT data_file_id, path FROM {metadata}.ducklake_data_file WHERE table_id = {table_id} AND end_snapshot IS NULL
) LEFT JOIN (
    SELECT data_file_id, delete_file_id FROM {metadata}.ducklake_delete_file WHERE end_snapshot IS NULL
) USING (data_file_id) GROUP BY path),
rows AS (SELECT *, filename AS __file, count(*) OVER (PARTITION BY rowid) AS __found,
    row_number() OVER (PARTITION BY rowid) AS __number FROM {table})
SELECT rows.* EXCLUDE (__file, __found, __number) FROM rows LEFT JOIN copies ON ends_with(__file, path)
WHERE __number = 1 AND __found = coalesce(wanted, 1);"""


def check_delete_files(reader: CatalogReader, deleted_from: Iterable[ReadDependency | None]) -> None:
    """Refuses to delete from a table if one of its data files has two live delete files, or is registered twice.

    DuckLake lets two concurrent deletes on one file commit. Commits of lakeconf prevent this; other writers do not. It
    deletes only some rows of a file that is registered twice.
    """
    tables = {dependency.table_id: dependency.table for dependency in deleted_from if dependency is not None}
    if not tables:
        return
    ids = ", ".join(map(str, sorted(tables)))
    with reader.transaction() as transaction:
        doubled = own_rows(
            transaction,
            "SELECT table_id, data_file_id FROM ducklake_delete_file "
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, data_file_id HAVING count(*) > 1",
            "table_id BIGINT, data_file_id BIGINT",
        )
        repeated = own_rows(
            transaction,
            "SELECT table_id, path FROM ducklake_data_file "
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, path, path_is_relative HAVING count(*) > 1 LIMIT 1",
            "table_id BIGINT, path VARCHAR",
        )
    if doubled:
        table_id, data_file_id = doubled[0]
        table = tables[table_id]
        raise CatalogError(
            f"two writers deleted from {table} at the same time: the data file {data_file_id} has two delete "
            "files, and deleted rows are visible again, so nothing was written",
            hint="rebuild the table with DuckDB, compare both, then drop the damaged table and rename the new one:\n"
            + rebuild_sql(reader, table_id, table),
        )
    if repeated:
        table_id, path = repeated[0]
        table = tables[table_id]
        raise CatalogError(
            f"the file {path} is registered more than once in {table}, and DuckLake would delete only some of its "
            "rows, so nothing was written",
            hint=f"write its rows to another table, CREATE TABLE copied AS FROM {table}, and put that in its place",
        )


def rebuild_sql(reader: CatalogReader, table_id: int, table: str) -> str:
    """The statement that copies the rows of a damaged table that were not deleted to a new table."""
    schema, name = split_name(table)
    return _REBUILD.format(
        rebuilt=qualified(reader.alias, schema, f"{name}_rebuilt"),
        table=qualified(reader.alias, schema, name),
        metadata=reader.metadata,
        table_id=table_id,
    )
