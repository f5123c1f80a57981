"""Whole files that a staged commit drops from a table: DuckLake reads none of their rows."""

from __future__ import annotations

from dataclasses import dataclass

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.predicate.nodes import Predicate
from lakeconf.catalog.pruning.coverage import coverage
from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.scan import plan_in
from lakeconf.commit.position_delete import visible_rows


class StatementsNeeded(Exception):  # noqa: N818 - no error: the commit continues with statements
    """Rows outside whole files satisfy the condition, so a staged commit cannot delete them all."""


@dataclass(frozen=True)
class FileDrop:
    """The rows of a table that satisfy a condition, if they are all rows of some files below the data path.

    Attributes:
        name: The table, quoted, without the lake.
        predicate: The condition; None for all rows.
    """

    name: str
    predicate: Predicate | None

    def files(self, reader: CatalogReader, begun: int) -> tuple[DataFile, ...] | None:
        """The files at a snapshot; None if statements must delete the rows, because some are not those of such files.

        Args:
            reader: Reads the catalog.
            begun: The snapshot.
        """
        return _files(reader, self, begun)


@repeated
def _files(reader: CatalogReader, drop: FileDrop, begun: int) -> tuple[DataFile, ...] | None:
    predicate = drop.predicate
    with reader.transaction() as transaction:
        plan = plan_in(transaction, reader.time_zone, drop.name, begun, (), predicate)
        covered = None if predicate is None else coverage(transaction, plan.table, begun, predicate).covered
    files = plan.files
    # A file that another writer has registered twice has two ids, and DuckLake finds it by its path.
    if plan.inlined_row_count or len({file.path for file in files}) < len(files):
        return None
    if not all(_can_drop(file, reader.data_path) for file in files):
        return None
    if covered is not None and any(file.data_file_id not in covered for file in files):
        return None
    # Without a row, there is nothing to commit.
    return files if any(map(visible_rows, files)) else None


def _can_drop(file: DataFile, data_path: str) -> bool:
    # In a file with rows of later snapshots, other rows than the visible ones would be dropped. If a dropped file has
    # deletes in the catalog, DuckLake's change feed returns these rows again, and not the others.
    return file.snapshot_filter is None and not file.inlined_deletes and file.path.startswith(data_path)
