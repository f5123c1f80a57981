"""How large the tables of a lake are, as its catalog says; no data file is read."""

from __future__ import annotations

from dataclasses import dataclass

from lakeconf.catalog.history import TableFile
from lakeconf.lake.lake import Lake


@dataclass(frozen=True)
class TableSize:
    """A table and its files.

    Attributes:
        table: Its name.
        files: Its data files.
        inlined_rows: How many of its rows the catalog holds itself.
    """

    table: str
    files: tuple[TableFile, ...]
    inlined_rows: int

    @property
    def deleted_rows(self) -> int:
        """How many rows of the files are deleted."""
        return sum(file.deleted_rows for file in self.files)

    @property
    def delete_files(self) -> int:
        """How many of the files have a delete file."""
        return sum(file.delete_file is not None for file in self.files)

    @property
    def rows(self) -> int:
        """How many rows the table has."""
        return sum(file.rows for file in self.files) - self.deleted_rows + self.inlined_rows

    @property
    def bytes(self) -> int:
        """The size of the data files, in bytes."""
        return sum(file.bytes for file in self.files)


def table_sizes(lake: Lake) -> list[TableSize]:
    """The tables of a lake at its snapshot, with their files.

    Args:
        lake: The lake.
    """
    tables = ((name, lake.table(name)) for name in lake.tables())
    return [TableSize(name, tuple(table.files()), table.explain().inlined_rows) for name, table in tables]
