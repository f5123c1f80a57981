"""Positions of rows to delete that executors found and sorted before the commit."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakeconf.catalog.data_file import DataFile
from lakeconf.commit.position_files import LiveFiles, PositionFile
from lakeconf.commit.position_writer import write_positions
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_POSITION
from lakeconf.engines.positions import FILE_ROW_NUMBER
from lakeconf.sql import literal


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
            writer: A connection to the lake.
            live: The files of the table.
            data_file_ids: The ids of the data files.
            folder: The folder of the new files.
        """
        files = []
        for data_file, data_file_id in sorted(live.data_files.items()):
            if data_file_id in data_file_ids:
                source = f"read_parquet({literal(self.paths[data_file_id])}, hive_partitioning = false)"
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
        source = f"read_parquet({literal(path)}, hive_partitioning = false)"
        # DuckDB reads a file in its order on one thread, and keeps only the row before.
        numbered = f"SELECT {FILE_ROW_NUMBER} AS this, lag({FILE_ROW_NUMBER}) OVER () AS before FROM {source}"
        query = f"SELECT count(*), count(*) FILTER (this <= before) FROM ({numbered})"
        ((counts[data_file_id], repeated),) = writer.rows(query)
        if repeated:
            return None
    return SortedPositions(data_files, paths, counts)
