"""Writes the files of deleted positions for a staged commit, each with the earlier deletes of its data file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo, compose_path
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_FILE, DELETED_POSITION, INLINED_TABLES, INTERNAL_SNAPSHOT_ID, visible_at
from lakeconf.errors import CommitConflictError
from lakeconf.sql import literal

# Qualified, because the lake may have a table with this name.
DELETED_ROWS = "temp.main.__lakeconf_deleted"
_DATA_FILES = f"""
    SELECT data_file_id, path, path_is_relative FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()}
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


def write_position_files(
    reader: CatalogReader, writer: Connection, table: TableInfo, folder: str, begun: int
) -> DeletedPositions:
    """Writes a file for each data file that loses rows.

    Args:
        reader: Reads the catalog.
        writer: The connection with the temporary table `DELETED_ROWS`: `filename`, `file_row_number`, `row_id`.
        table: The table.
        folder: The folder of the new files.
        begun: The snapshot that the commit builds on.

    Raises:
        CommitConflictError: A row is in a file that the catalog does not know, or whose deletes cannot be extended.
    """
    with reader.transaction() as transaction:
        parameters = [begun, table.table_id]
        listed = [
            (compose_path(table.path, path, is_relative=is_relative), file_id)
            for file_id, path, is_relative in transaction.rows(_DATA_FILES, parameters)
        ]
        data_files = dict(listed)
        earlier: dict[int, EarlierDeletes] = {}
        for data_file_id, file_id, path, is_relative, begin, form in transaction.rows(_DELETE_FILES, parameters):
            if form != "parquet" or data_file_id in earlier:
                raise CommitConflictError(f"a file of {table.full_name} has deletes that cannot be extended")
            full = compose_path(table.path, path, is_relative=is_relative)
            earlier[data_file_id] = EarlierDeletes(file_id, full, begin)
        inlined = {name for (name,) in transaction.rows(INLINED_TABLES, [table.table_id])}
    counts: Mapping[str, int] = dict(writer.rows(f"SELECT filename, count(*) FROM {DELETED_ROWS} GROUP BY ALL"))
    if len(data_files) < len(listed):
        raise CommitConflictError(f"{table.full_name} contains a file twice, so positions do not identify rows")
    unknown = counts.keys() - data_files.keys() - inlined
    if unknown:
        raise CommitConflictError(f"the catalog does not know {min(unknown)}, a file of {table.full_name}")
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    files = [
        _write(writer, folder, begun + 1, path, data_files[path], counts[path], earlier.get(data_files[path]))
        for path in sorted(counts.keys() - inlined)
    ]
    names = ", ".join(map(literal, sorted(inlined))) or "NULL"
    rows = writer.rows(f"SELECT filename, row_id FROM {DELETED_ROWS} WHERE filename IN ({names}) ORDER BY ALL")
    return DeletedPositions(tuple(files), tuple(rows))


def _write(
    writer: Connection,
    folder: str,
    snapshot_id: int,
    data_file: str,
    data_file_id: int,
    count: int,
    earlier: EarlierDeletes | None,
) -> PositionFile:
    path = f"{folder}{data_file_id}.parquet"
    file, position, snapshot = DELETED_FILE, DELETED_POSITION, INTERNAL_SNAPSHOT_ID
    columns = [file, position]
    rows = (
        f"SELECT file_row_number::BIGINT AS {position.name} FROM {DELETED_ROWS} WHERE filename = {literal(data_file)}"
    )
    if earlier is not None:
        columns.append(snapshot)
        old = f"read_parquet({literal(earlier.path)}, hive_partitioning = false)"
        names = {name for name, *_ in writer.rows(f"DESCRIBE FROM {old}")}
        ((before,),) = writer.rows(f"SELECT count(*) FROM {old}")
        count += before
        since = snapshot.name if snapshot.name in names else f"{earlier.begin_snapshot}::BIGINT"
        rows = (
            f"SELECT *, {snapshot_id}::BIGINT AS {snapshot.name} FROM ({rows}) UNION ALL BY NAME "
            f"SELECT {position.name}::BIGINT AS {position.name}, {since} AS {snapshot.name} FROM {old}"
        )
    ids = ", ".join(f"{column.name}: {column.field_id}" for column in columns)
    # The name is added after the sort, which would need ten times the memory for it.
    ordered = f"SELECT {literal(data_file)} AS {file.name}, * FROM (FROM ({rows}) ORDER BY {position.name})"
    writer.execute(f"COPY ({ordered}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
    return PositionFile(path, data_file, data_file_id, count, snapshot_id, earlier)
