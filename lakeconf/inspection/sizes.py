"""Computes the sizes of tables from the catalog, without reading data files."""

from __future__ import annotations

from dataclasses import dataclass

from lakeconf.catalog.history import TableFile, stored_rows
from lakeconf.lake.lake import Lake


@dataclass(frozen=True)
class TableSize:
    """A table and its files.

    Attributes:
        table: Its name.
        files: Its data files.
        inlined_rows: The number of rows inlined in the catalog.
    """

    table: str
    files: tuple[TableFile, ...]
    inlined_rows: int

    @property
    def deleted_rows(self) -> int:
        """The number of deleted rows in the data files."""
        return sum(file.deleted_rows for file in self.files)

    @property
    def delete_files(self) -> int:
        """The number of data files with a delete file."""
        return sum(file.delete_file is not None for file in self.files)

    @property
    def rows(self) -> int:
        """The number of rows in the table."""
        return sum(file.rows for file in self.files) - self.deleted_rows + self.inlined_rows

    @property
    def bytes(self) -> int:
        """The size of the data files, in bytes."""
        return sum(file.bytes for file in self.files)


def table_sizes(lake: Lake) -> list[TableSize]:
    """Returns the tables of a lake with their files, at the lake's snapshot.

    Args:
        lake: The lake.
    """
    return [table_size(lake, name) for name in lake.tables()]


def table_size(lake: Lake, table: str) -> TableSize:
    """Returns a table with its files, at the lake's snapshot.

    Args:
        lake: The lake.
        table: The name of the table, as for `Lake.table`.

    Raises:
        TableNotFoundError: There is no such table.
    """
    reader = lake._session.reader  # noqa: SLF001 - `Table.explain` would plan the scan twice more
    files, inlined_rows = stored_rows(reader, table, lake.snapshot_id)
    return TableSize(table, tuple(files), inlined_rows)
