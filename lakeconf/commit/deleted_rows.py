"""Finds the rows that a staged commit deletes, by their ids, in so many files at a time that memory is limited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.position_delete import batches
from lakeconf.commit.position_files import (
    DELETED_ROWS,
    DeletedPositions,
    PositionFile,
    live_files,
    locate,
    write_position_files,
)
from lakeconf.commit.row_ids import IDS_IN_MEMORY, count_and_sum, kept_ids
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import ROW_ID
from lakeconf.errors import CommitConflictError
from lakeconf.sql import literal, qualified


def delete_rows(
    reader: CatalogReader, writer: Connection, table: TableInfo, row_ids: str, row_count: int, begun: int, folder: str
) -> DeletedPositions:
    """Writes files of the positions of rows, and returns them with the rows that are in the catalog.

    Args:
        reader: Reads the catalog.
        writer: Reads the lake in the transaction of the commit, and writes the files.
        table: The table of the rows.
        row_ids: SQL that returns their ids, as `ROW_ID`.
        row_count: The number of the ids.
        begun: The snapshot that the commit builds on.
        folder: The folder for the files of positions.

    Raises:
        CommitConflictError: Rows do not exist, or are in several places.
    """
    live = live_files(reader, table, begun)
    places = f"SELECT filename, file_row_number, rowid AS row_id FROM {_lake_table(reader, table)}"
    files: list[PositionFile] = []
    inlined: list[tuple[str, int]] = []
    count = total = 0
    with kept_ids(writer, row_ids, row_count) as kept:
        wanted = count_and_sum(writer, kept)
        places += f" WHERE rowid IN (SELECT {ROW_ID} FROM ({kept}))"
        for condition in _conditions(live.row_counts, row_count):
            located = locate(live, writer, f"{places}{condition}")
            found, hashes = count_and_sum(writer, f"SELECT row_id AS {ROW_ID} FROM {DELETED_ROWS}")
            count, total = count + found, total + hashes
            written = write_position_files(writer, located, folder)
            files += written.files
            inlined += written.inlined
    if not (count, total) == wanted == (row_count, total):
        raise CommitConflictError(
            f"expected to change {row_count} rows of {table.full_name}, but found {count}: nothing was written",
            hint="call lake.refresh() and try again",
        )
    return DeletedPositions(tuple(files), tuple(inlined))


def _lake_table(reader: CatalogReader, table: TableInfo) -> str:
    return qualified(reader.alias, table.schema_name, table.name)


def _conditions(row_counts: Mapping[str, int], row_count: int) -> Iterator[str]:
    """Conditions on the rows of a table that divide its files, if so many rows are searched that memory matters."""
    if row_count <= IDS_IN_MEMORY:
        yield ""
        return
    for names in batches(row_counts):
        yield f" AND filename IN ({', '.join(map(literal, names))})"
