"""Finds the rows that a staged commit deletes, by their ids, in so many files at a time that memory is limited."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.position_delete import batches
from lakeconf.commit.position_files import (
    DELETED_ROWS,
    DeletedPositions,
    LiveFiles,
    PositionFile,
    live_files,
    locate,
)
from lakeconf.commit.position_writer import write_position_files
from lakeconf.commit.row_ids import IDS_IN_MEMORY, count_and_sum, kept_ids
from lakeconf.commit.sorted_positions import SortedPositions
from lakeconf.connection.connection import Connection
from lakeconf.engines.base import ROW_ID
from lakeconf.engines.positions import FILE_ID
from lakeconf.errors import CommitConflictError
from lakeconf.sql import literal, qualified


def delete_rows(
    reader: CatalogReader,
    writer: Connection,
    table: TableInfo,
    row_ids: str,
    row_count: int,
    begun: int,
    folder: str,
    found: SortedPositions | None = None,
) -> DeletedPositions:
    """Writes files of the positions of rows, and returns them with the rows that are in the catalog.

    Args:
        reader: Reads the catalog.
        writer: A connection to the lake.
        table: The table of the rows.
        row_ids: SQL that returns their ids, as `ROW_ID`; and `FILE_ID` if there is `found`.
        row_count: The number of the ids.
        begun: The snapshot that the commit builds on.
        folder: The folder for the files of positions.
        found: The positions of those of the rows that have a `FILE_ID`. They are not used if other files have these
            rows now, such as after a compaction.

    Raises:
        CommitConflictError: Rows do not exist, or are in several places.
    """
    live = live_files(reader, table, begun)
    # In an open transaction, DuckDB would keep the memory of dropped tables.
    with writer.cursor() as cursor:
        if found is None or not found.are_of(live):
            return _written(live, cursor, reader.alias, row_ids, row_count, folder)
        files = tuple(found.write(cursor, live, found.counts.keys(), folder))
        count = row_count - sum(found.counts.values())
        if not count:
            return DeletedPositions(files, ())
        others = _written(live, cursor, reader.alias, f"FROM ({row_ids}) WHERE {FILE_ID} IS NULL", count, folder)
        return replace(others, files=(*files, *others.files))


def _written(
    live: LiveFiles, writer: Connection, lake: str, row_ids: str, row_count: int, folder: str
) -> DeletedPositions:
    table = live.table
    named = qualified(lake, table.schema_name, table.name)
    places = f"SELECT filename, file_row_number, rowid AS row_id FROM {named} AT (VERSION => {live.begun}) WHERE "
    files: list[PositionFile] = []
    inlined: list[tuple[str, int]] = []
    count = total = 0
    with kept_ids(writer, row_ids, row_count) as kept:
        wanted = count_and_sum(writer, kept)
        for condition, parts in _searches(live.row_counts, kept, row_count):
            located = locate(live, writer, f"{places}{condition}", parts)
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


def _searches(row_counts: Mapping[str, int], kept: str, row_count: int) -> Iterator[tuple[str, Sequence[str]]]:
    """Conditions on rows of the lake, each with conditions on the places of these rows that select the deleted ones."""
    if row_count <= IDS_IN_MEMORY:
        yield f"rowid IN (SELECT {ROW_ID} FROM ({kept}))", ()
        return
    # A file has more rows than fit, or there are more ids: DuckDB gets parts of both that fit, by a hash.
    for names in batches(row_counts):
        count = max(1, -(-sum(names.values()) // (IDS_IN_MEMORY // 2)))
        parts = [
            f"hash(row_id) % {count} = {part} AND row_id IN "
            f"(SELECT {ROW_ID} FROM ({kept}) WHERE hash({ROW_ID}) % {count} = {part})"
            for part in range(count)
        ]
        yield f"filename IN ({', '.join(map(literal, names))})", parts
