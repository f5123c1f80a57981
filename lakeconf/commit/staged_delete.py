"""Deletes the rows that satisfy a condition in a staged commit.

DuckLake's DELETE needs 30 to 60 bytes of memory for each row. A staged commit names the files that it drops, and gets
files with the positions of other rows, which are written in limited memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.predicate.nodes import Predicate
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.scan import ScanPlan
from lakeconf.catalog.table import TableInfo
from lakeconf.commit.dropped_files import divided_files, plan_delete
from lakeconf.commit.position_delete import batches, in_files
from lakeconf.commit.position_files import DeletedPositions, LiveFiles, PositionFile, live_files, locate
from lakeconf.commit.position_writer import SORTED_IN_MEMORY, write_position_files, write_positions
from lakeconf.commit.sorted_positions import SortedPositions
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_POSITION
from lakeconf.sql import literal, qualified


class StatementsNeeded(Exception):  # noqa: N818 - no error: the commit continues with statements
    """A staged commit cannot delete all rows that satisfy the condition."""


@dataclass(frozen=True)
class StagedDelete:
    """The rows of a table that satisfy a condition.

    Attributes:
        table: The table.
        predicate: The condition; None for all rows.
        condition: The same condition in SQL.
        folder: The folder for files of deleted positions; empty if whole files contained all rows when it was planned.
        found: Positions that executors have found in some files.
    """

    table: TableInfo
    predicate: Predicate | None
    condition: str
    folder: str = ""
    found: SortedPositions | None = None

    def rows(
        self, reader: CatalogReader, writer: Connection, begun: int
    ) -> tuple[tuple[DataFile, ...], DeletedPositions]:
        """The files to drop, and the other rows to delete, at a snapshot.

        Args:
            reader: Reads the catalog.
            writer: A connection to the lake.
            begun: The snapshot.

        Raises:
            StatementsNeeded: A staged commit cannot delete all of the rows, or there is none.
        """
        name = qualified(self.table.schema_name, self.table.name)
        plan, known = plan_delete(reader, name, self.predicate, begun)
        files = divided_files(plan, known.covered, reader.data_path)
        if files is None:
            raise StatementsNeeded
        others = DeletedPositions((), ())
        if files.searched or plan.inlined_row_count:
            if not self.folder or (files.searched and reader.encrypted):
                raise StatementsNeeded
            live = live_files(reader, self.table, begun)
            ((time_zone,),) = writer.rows("SELECT system.main.current_setting('TimeZone')")
            with writer.cursor() as cursor:
                # A file may contain TIMESTAMP values of a column that is a TIMESTAMPTZ now.
                cursor.execute(f"SET TimeZone = {literal(time_zone)}")
                others = self._positions(live, cursor, reader.alias, plan, files.searched)
        if not (files.dropped or others.files or others.inlined):
            raise StatementsNeeded
        return files.dropped, others

    def _positions(
        self, live: LiveFiles, writer: Connection, lake: str, plan: ScanPlan, searched: Sequence[DataFile]
    ) -> DeletedPositions:
        found = self.found
        known = set[DataFile]() if found is None else set(found.data_files)
        same = {file.data_file_id for file in searched if file in known}
        written: list[PositionFile] = []
        if found is not None:
            written += found.write(writer, live, same & found.counts.keys(), self.folder)
        row_counts = {file.path: file.record_count for file in searched if file.data_file_id not in same}
        row_counts |= dict.fromkeys(plan.inlined_tables, 0)
        inlined: list[tuple[str, int]] = []
        for names in batches(row_counts, SORTED_IN_MEMORY):
            rows = f"FROM {qualified(lake, self.table.schema_name, self.table.name)} AT (VERSION => {live.begun}) "
            rows += f"WHERE {in_files(names)} AND ({self.condition})"
            if sum(names.values()) > SORTED_IN_MEMORY:
                written += self._of_large_file(live, writer, rows, *names)
                continue
            places = f"SELECT filename, file_row_number, rowid AS row_id {rows}"
            part = write_position_files(writer, locate(live, writer, places), self.folder)
            written += part.files
            inlined += part.inlined
        return DeletedPositions(tuple(written), tuple(inlined))

    def _of_large_file(self, live: LiveFiles, writer: Connection, rows: str, path: str) -> list[PositionFile]:
        ((count,),) = writer.rows(f"SELECT count(*) {rows}")
        if not count:
            return []
        positions = f"SELECT file_row_number AS {DELETED_POSITION.name} {rows}"
        return [write_positions(writer, live, path, positions, count, self.folder, is_sorted=True)]
