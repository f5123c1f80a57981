"""Finds the files of a table from which a staged commit deletes rows, and the places of these rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import INLINED_TABLES, visible_at
from lakeconf.errors import CommitConflictError
from lakeconf.sql import literal

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
        reader: Reads the catalog.
        table: The table of the lake.
        begun: The snapshot that the commit builds on.

    Raises:
        CommitConflictError: The deletes of a file cannot be extended, or a file is in the table twice.
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
        live: The files of the table.
        writer: The connection that gets the table.
        rows: SQL that returns the places of rows: `filename`, `file_row_number` and `row_id`.
        conditions: SQL on `row_id`; the rows that satisfy one of them are deleted, and none satisfies several. DuckDB
            evaluates them one after the other, for less memory. Without conditions, all rows are deleted.

    Raises:
        CommitConflictError: A row is in a file that the catalog does not know.
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
