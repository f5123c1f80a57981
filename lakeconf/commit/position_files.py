"""Positions of deleted rows: found by row id, sorted, and written as DuckLake's delete files."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import (
    DELETED_FILE,
    DELETED_POSITION,
    INLINED_TABLES,
    INTERNAL_ROW_ID,
    INTERNAL_SNAPSHOT_ID,
    visible_at,
)
from lakeconf.engines.base import FILE_ROW_NUMBER, ROW_ID
from lakeconf.errors import CommitConflictError
from lakeconf.sql import files_sql, identifier, literal

# The places of deleted rows: the number of the file, the position and the id. Qualified, because the lake may have a
# table with this name.
DELETED_ROWS = "temp.main.__lakeconf_deleted"


_PLACES = "temp.main.__lakeconf_places"


_DATA_FILES = f"""
    SELECT data_file_id, path, path_is_relative, record_count
    FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()}
"""


_DELETE_FILES = f"""
    SELECT data_file_id, delete_file_id, path, path_is_relative, begin_snapshot, format
    FROM ducklake_delete_file WHERE table_id = $2 AND {visible_at()}
"""


@dataclass(frozen=True, slots=True)
class EarlierDeletes:
    """The live delete file of a data file.

    Attributes:
        delete_file_id: Its id.
        path: Its path.
        begin_snapshot: The snapshot of its first delete.
    """

    delete_file_id: int
    path: str
    begin_snapshot: int


@dataclass(frozen=True, slots=True)
class PositionFile:
    """A new file of deleted positions.

    Attributes:
        path: Its path.
        data_file: The data file.
        data_file_id: The id of the data file.
        row_count: The number of its positions.
        snapshot_id: The snapshot of the new positions.
        earlier: The delete file that it replaces and contains.
    """

    path: str
    data_file: str
    data_file_id: int
    row_count: int
    snapshot_id: int
    earlier: EarlierDeletes | None = None


@dataclass(frozen=True, slots=True)
class DeletedPositions:
    """Deleted rows by their places.

    Attributes:
        files: The new files of positions.
        inlined: Rows in the catalog: the name of the catalog's table, and the id of the row.
    """

    files: tuple[PositionFile, ...]
    inlined: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class LiveFiles:
    """The files of a table from which a commit can delete rows.

    Attributes:
        table: The table.
        begun: The snapshot that the commit builds on.
        data_files: The ids of the data files by path.
        row_counts: Their numbers of rows by path, deleted ones included; 0 for each of the catalog's tables of rows.
        earlier: The live delete files by the id of the data file.
    """

    table: TableInfo
    begun: int
    data_files: Mapping[str, int]
    row_counts: Mapping[str, int]
    earlier: Mapping[int, EarlierDeletes]


@dataclass(frozen=True)
class LocatedRows:
    """The places of rows to delete, which are in the temporary table `DELETED_ROWS`.

    Attributes:
        live: The files of the table.
        counts: The number of places in each file, and in each of the catalog's tables of rows.
        numbers: The number that stands for each of these names in `DELETED_ROWS`.
    """

    live: LiveFiles
    counts: Mapping[str, int]
    numbers: Mapping[str, int]


def live_files(reader: CatalogReader, table: TableInfo, begun: int) -> LiveFiles:
    """The files of a table at a snapshot.

    Args:
        begun: The snapshot that the commit builds on.
    """
    with reader.transaction() as transaction:
        parameters = [begun, table.table_id]
        listed = [
            (compose_path(table.path, path, is_relative=is_relative), file_id, count)
            for file_id, path, is_relative, count in transaction.rows(_DATA_FILES, parameters)
        ]
        earlier: dict[int, EarlierDeletes] = {}
        for data_file_id, file_id, path, is_relative, begin, form in transaction.rows(_DELETE_FILES, parameters):
            if form != "parquet" or data_file_id in earlier:
                raise CommitConflictError(f"a file of {table.full_name} has deletes that cannot be extended")
            full = compose_path(table.path, path, is_relative=is_relative)
            earlier[data_file_id] = EarlierDeletes(file_id, full, begin)
        inlined = [name for (name,) in transaction.rows(INLINED_TABLES, [table.table_id])]
    data_files = {path: file_id for path, file_id, _ in listed}
    if len(data_files) < len(listed):
        raise CommitConflictError(f"{table.full_name} contains a file twice, so positions do not identify rows")
    row_counts = {path: count for path, _, count in listed} | dict.fromkeys(inlined, 0)
    return LiveFiles(table, begun, data_files, row_counts, earlier)


def locate(live: LiveFiles, writer: Connection, rows: str, conditions: Sequence[str] = ()) -> LocatedRows:
    """Makes the temporary table `DELETED_ROWS`.

    Args:
        writer: The connection that gets the table.
        rows: SQL that returns the places of rows: `filename`, `file_row_number` and `row_id`.
        conditions: SQL on `row_id`; the rows that satisfy one of them are deleted, and none satisfies several. DuckDB
            evaluates them one after the other, for less memory. Without conditions, all rows are deleted.
    """
    numbers = _fill(writer, live.table, rows, list(live.row_counts), _PLACES if conditions else DELETED_ROWS)
    if conditions:
        writer.execute(f"CREATE OR REPLACE TEMP TABLE {DELETED_ROWS} AS FROM {_PLACES} LIMIT 0")
        for condition in conditions:
            writer.execute(f"INSERT INTO {DELETED_ROWS} FROM {_PLACES} WHERE {condition}")
        writer.execute(f"DROP TABLE {_PLACES}")
    counts = dict(writer.rows(f"SELECT file, count(*) FROM {DELETED_ROWS} GROUP BY file"))
    found = {name: counts[number] for name, number in numbers.items() if number in counts}
    return LocatedRows(live, found, numbers)


def _fill(writer: Connection, table: TableInfo, rows: str, names: Sequence[str], into: str) -> dict[str, int]:
    """Makes a table of places, and returns the number of each name."""
    # A number needs 2 bytes where a name needs more than 100. An ENUM numbers its values from 0 on, without a join,
    # which could keep all rows in memory.
    known = f"ENUM({', '.join(map(literal, names or ['']))})"
    writer.execute(
        f"CREATE OR REPLACE TEMP TABLE {into} AS "
        f"SELECT enum_code(TRY_CAST(filename AS {known})) AS file, file_row_number::BIGINT AS position, row_id "
        f"FROM ({rows})"
    )
    ((unknown,),) = writer.rows(f"SELECT count(*) FROM {into} WHERE file IS NULL")
    if unknown:
        query = f"SELECT min(filename) FROM ({rows}) WHERE TRY_CAST(filename AS {known}) IS NULL"
        ((name,),) = writer.rows(query)
        raise CommitConflictError(f"the catalog does not know {name}, a file of {table.full_name}")
    return {name: number for number, name in enumerate(names)}


# DuckDB needs about 50 bytes of memory for each position that it sorts.
SORTED_IN_MEMORY = 500_000


_POSITION, _SNAPSHOT = DELETED_POSITION.name, INTERNAL_SNAPSHOT_ID.name


def write_position_files(writer: Connection, located: LocatedRows, folder: str) -> DeletedPositions:
    """Writes a file for each data file that loses rows, and drops `DELETED_ROWS`.

    Args:
        writer: The connection with the temporary table.
        folder: The folder of the new files.
    """
    data_files = located.live.data_files
    files = []
    for path in sorted(located.counts.keys() & data_files.keys()):
        rows = f"SELECT position AS {_POSITION} FROM {DELETED_ROWS} WHERE file = {located.numbers[path]}"
        files.append(write_positions(writer, located.live, path, rows, located.counts[path], folder))
    inlined = {located.numbers[name]: name for name in located.counts.keys() - data_files.keys()}
    numbers = ", ".join(map(str, inlined)) or "NULL"
    found = writer.rows(f"SELECT file, row_id FROM {DELETED_ROWS} WHERE file IN ({numbers}) ORDER BY ALL")
    writer.execute(f"DROP TABLE {DELETED_ROWS}")
    return DeletedPositions(tuple(files), tuple((inlined[number], row_id) for number, row_id in found))


def write_positions(
    writer: Connection,
    live: LiveFiles,
    data_file: str,
    positions: str,
    count: int,
    folder: str,
    *,
    is_sorted: bool = False,
) -> PositionFile:
    """Writes the file of deleted positions of a data file.

    Args:
        data_file: The path of the data file.
        positions: SQL that returns the positions of visible rows, each once, in a column named like that of the file.
        is_sorted: True if they are in ascending order.
    """
    data_file_id = live.data_files[data_file]
    snapshot_id, earlier = live.begun + 1, live.earlier.get(data_file_id)
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    # DuckDB could read an earlier file of this name, of an overtaken attempt of the commit, from its cache.
    path = f"{folder}{data_file_id}-{snapshot_id}.parquet"
    columns = [DELETED_FILE, DELETED_POSITION]
    if earlier is not None:
        columns.append(INTERNAL_SNAPSHOT_ID)
        positions, before = _with_earlier(writer, earlier, positions, snapshot_id)
        count += before
    is_ordered = is_sorted and earlier is None
    with _ordered(writer, positions, len(columns) - 1, count, is_ordered=is_ordered) as rows:
        # The name is added after the sort, which would need ten times the memory for it.
        named = f"SELECT {literal(data_file)} AS {DELETED_FILE.name}, * FROM ({rows})"
        ids = ", ".join(f"{column.name}: {column.field_id}" for column in columns)
        writer.execute(f"COPY ({named}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
    return PositionFile(path, data_file, data_file_id, count, snapshot_id, earlier)


def _with_earlier(writer: Connection, earlier: EarlierDeletes, positions: str, snapshot_id: int) -> tuple[str, int]:
    """SQL for the positions and those of earlier deletes, with their snapshots; and the number of the earlier ones."""
    old = files_sql("read_parquet", earlier.path, "hive_partitioning = false")
    names = {name for name, *_ in writer.rows(f"DESCRIBE FROM {old}")}
    ((before,),) = writer.rows(f"SELECT count(*) FROM {old}")
    since = _SNAPSHOT if _SNAPSHOT in names else f"{earlier.begin_snapshot}::BIGINT"
    rows = (
        f"SELECT {_POSITION}, {snapshot_id}::BIGINT AS {_SNAPSHOT} FROM ({positions}) UNION ALL "
        f"SELECT {_POSITION}::BIGINT AS {_POSITION}, {since} AS {_SNAPSHOT} FROM {old}"
    )
    return rows, int(before)


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
        found = files_sql("read_parquet", everything, "hive_partitioning = false")
        ((low, high),) = writer.rows(f"SELECT min({_POSITION}), max({_POSITION}) FROM {found}")
        parts = []
        for start in range(low, high + 1, SORTED_IN_MEMORY):
            part = str(Path(local) / f"{start}.parquet")
            within = f"{_POSITION} BETWEEN {start} AND {start + SORTED_IN_MEMORY - 1}"
            ordered = f"FROM {found} WHERE {within} ORDER BY {_POSITION}"
            writer.execute(f"COPY ({ordered}) TO {literal(part)} (FORMAT parquet)")
            parts.append(part)
        yield _in_order(f"FROM {files_sql('read_parquet', parts, 'hive_partitioning = false')}", columns)


def _in_order(rows: str, columns: int) -> str:
    """SQL that returns rows in their order, so that COPY needs no memory for them.

    COPY would keep each row group of a source in memory until its turn: 500 MB for three million positions. It does not
    if a source cannot tell its row groups apart, such as `range`.
    """
    none = ", ".join(["range"] * columns)
    return f"FROM ({rows}) UNION ALL SELECT {none} FROM system.main.range(0)"


@dataclass(frozen=True)
class SortedPositions:
    """The positions of rows in data files; they are right for as long as a data file and its deletes do not change.

    Attributes:
        data_files: The data files, as they were when the rows were found.
        paths: The files with their positions, by the id of the data file; see `PositionFiles`.
        counts: The numbers of these positions.
    """

    data_files: tuple[DataFile, ...]
    paths: Mapping[int, str]
    counts: Mapping[int, int]

    def are_of(self, live: LiveFiles) -> bool:
        """True if the data files are live, with the same delete files."""
        found = [file for file in self.data_files if file.data_file_id in self.counts]
        return len(found) == len(self.counts) and all(_is_live(live, file) for file in found)

    def write(
        self, writer: Connection, live: LiveFiles, data_file_ids: Collection[int], folder: str
    ) -> list[PositionFile]:
        """Writes the files of deleted positions of some data files.

        Args:
            data_file_ids: The ids of the data files.
            folder: The folder of the new files.
        """
        files = []
        for data_file, data_file_id in sorted(live.data_files.items()):
            if data_file_id in data_file_ids:
                source = files_sql("read_parquet", self.paths[data_file_id], "hive_partitioning = false")
                rows = f"SELECT {FILE_ROW_NUMBER} AS {DELETED_POSITION.name} FROM {source}"
                count = self.counts[data_file_id]
                files.append(write_positions(writer, live, data_file, rows, count, folder, is_sorted=True))
        return files


def _is_live(live: LiveFiles, file: DataFile) -> bool:
    earlier = live.earlier.get(file.data_file_id)
    path = None if file.delete_file is None else file.delete_file.path
    return live.data_files.get(file.path) == file.data_file_id and path == (earlier and earlier.path)


def found_positions(
    writer: Connection, data_files: tuple[DataFile, ...], paths: Mapping[int, str]
) -> SortedPositions | None:
    """Positions that an engine has sorted; None if a position is repeated.

    Args:
        writer: A connection with access to the files.
        data_files: The data files in which rows were found.
        paths: The files of positions, by the id of the data file.
    """
    counts: dict[int, int] = {}
    for data_file_id, path in paths.items():
        source = files_sql("read_parquet", path, "hive_partitioning = false")
        # DuckDB reads a file in its order on one thread, and keeps only the row before.
        numbered = f"SELECT {FILE_ROW_NUMBER} AS this, lag({FILE_ROW_NUMBER}) OVER () AS before FROM {source}"
        query = f"SELECT count(*), count(*) FILTER (this <= before) FROM ({numbered})"
        ((counts[data_file_id], repeated),) = writer.rows(query)
        if repeated:
            return None
    return SortedPositions(data_files, paths, counts)


# DuckDB needs 40 to 120 bytes of memory for each id in a table of hashes.
IDS_IN_MEMORY = 2_000_000


def have_row_ids(connection: Connection, files: Sequence[str], rows: str) -> bool:
    """True if files contain exactly the ids of rows; compared are the count, a sum of hashes, and the bounds.

    Args:
        connection: Reads the files and the rows.
        files: Files that contain the ids of their rows.
        rows: SQL that returns the rows, with their ids as `ROW_ID`.
    """
    written = f"FROM {files_sql('read_parquet', files, 'hive_partitioning = false')}"
    return _summary(connection, written, INTERNAL_ROW_ID.name) == _summary(connection, f"FROM ({rows})", ROW_ID)


def count_and_sum(connection: Connection, rows: str) -> tuple[int, int]:
    """The number of ids, and the sum of their hashes, which is 0 if there is none.

    Args:
        rows: SQL that returns the rows, with their ids as `ROW_ID`.
    """
    count, total, *_ = _summary(connection, f"FROM ({rows})", ROW_ID)
    return int(count), int(total)


def repeated_id(connection: Connection, rows: str, count: int) -> tuple[int, int] | None:
    """An id that several rows have, and their number; None if all ids differ.

    Args:
        rows: SQL that returns the rows, with their ids as `ROW_ID`.
    """
    with kept_ids(connection, rows, count) as kept:
        parts = max(1, -(-count // IDS_IN_MEMORY))
        for part in range(parts):
            # In one part, all ids are compared, and the lowest one is returned.
            condition = f" WHERE hash({ROW_ID}) % {parts} = {part}" if parts > 1 else ""
            grouped = f"SELECT {ROW_ID}, count(*) FROM ({kept}){condition} GROUP BY {ROW_ID} HAVING count(*) > 1"
            for row_id, repeats in connection.rows(f"{grouped} ORDER BY {ROW_ID} LIMIT 1"):
                return int(row_id), int(repeats)
    return None


@contextmanager
def kept_ids(connection: Connection, rows: str, count: int) -> Iterator[str]:
    """SQL that returns ids as `ROW_ID`, and can run many times; many ids are in a local file, to spare a bucket.

    Args:
        rows: SQL that returns rows with ids, as `ROW_ID`.
    """
    if count <= IDS_IN_MEMORY:
        yield f"SELECT {ROW_ID} FROM ({rows})"
        return
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as folder:
        path = str(Path(folder) / "row-ids.parquet")
        connection.execute(f"COPY (SELECT {ROW_ID} FROM ({rows})) TO {literal(path)} (FORMAT parquet)")
        yield f"SELECT {ROW_ID} FROM {files_sql('read_parquet', path, 'hive_partitioning = false')}"


def _summary(connection: Connection, source: str, column: str) -> tuple[int, ...]:
    name = identifier(column)
    query = f"SELECT count({name}), coalesce(sum(hash({name})::HUGEINT), 0), min({name}), max({name}) {source}"
    (found,) = connection.rows(query)
    return found
