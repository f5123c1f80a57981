"""The interface of an engine that writes the rows of data files again, in an order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakeconf.catalog.file_footers import Footer
from lakeconf.catalog.file_groups import FileGroup
from lakeconf.catalog.sort_keys import SortKey
from lakeconf.catalog.table import TableInfo
from lakeconf.engines.base import Staged
from lakeconf.engines.staging import placed_path, staging_folder
from lakeconf.errors import UnsupportedError

_PARTITION_FOLDER = re.compile(r"(?:[^/]*=[^/]*/)+", re.DOTALL)


@dataclass(frozen=True)
class SortRequest:
    """A group of data files whose rows are written again, in an order.

    Attributes:
        table: The table.
        snapshot_id: The snapshot at which the rows are read; the catalog contains no rows of the table itself.
        group: The files.
        is_whole: True if the table has no other files.
        keys: The order of the rows; empty for any order.
        file_count: The number of new files.
        token: The ID of this write.
    """

    table: TableInfo
    snapshot_id: int
    group: FileGroup
    is_whole: bool
    keys: tuple[SortKey, ...]
    file_count: int
    token: str

    @property
    def folder(self) -> str:
        """The staging folder, which has the manifest of the files."""
        return staging_folder(self.table, self.token)

    def paths(self, names: Sequence[str]) -> list[str]:
        """The paths of the new files: in the staging folder, or in the folder of their partition.

        Args:
            names: Names for files in the staging folder.

        Raises:
            UnsupportedError: The files of the partition are not together in a folder of their own.
        """
        group = self.group
        if group.partition_id is None:
            return [f"{self.folder}{name}" for name in names]
        folder = (group.folder or "").removeprefix(self.table.path)
        if not _PARTITION_FOLDER.fullmatch(folder):
            raise UnsupportedError(
                f"the files of a partition of {self.table.full_name} are not in a folder of their own",
                hint="write the rows again: lake.table(…).overwrite(…)",
            )
        return [placed_path(self.table, folder, self.token, number) for number, _ in enumerate(names)]


@dataclass(frozen=True)
class SortedFiles:
    """New files with the rows of a `SortRequest`, and the ids of these rows.

    Attributes:
        staged: The files.
        footers: What their footers say, with bounds that DuckLake can keep.
    """

    staged: Staged
    footers: tuple[Footer, ...]


@runtime_checkable
class SortEngine(Protocol):
    """An engine that can write the rows of data files again."""

    def stage_sorted(self, request: SortRequest) -> SortedFiles:
        """Writes the rows of data files to new files, in an order and with their row ids.

        Raises:
            UnsupportedError: The engine cannot write a column exactly.
        """
        ...
