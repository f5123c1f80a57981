"""Whole files that a staged commit drops from a table: DuckLake reads none of their rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.predicate.nodes import Predicate, columns_of
from lakeconf.catalog.pruning.coverage import Coverage, coverage
from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.scan import ScanPlan, plan_in
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
        plan, known = plan_delete(reader, self.name, self.predicate, begun)
        return whole_files(plan, known.covered, reader.data_path)


@repeated
def plan_delete(
    reader: CatalogReader, name: str, predicate: Predicate | None, snapshot_id: int | None = None
) -> tuple[ScanPlan, Coverage]:
    """The files that may contain rows to delete, and which of them are covered.

    Args:
        reader: Reads the catalog.
        name: The table, quoted, without the lake.
        predicate: The condition on the rows; None for all rows.
        snapshot_id: The snapshot; by default the latest one, so that the commit finds as little as possible changed. In
            an older plan, delete files could contain deletes of later snapshots.
    """
    names = [] if predicate is None else [column.name for column in columns_of(predicate)]
    time_zone = reader.time_zone
    with reader.transaction() as transaction:
        if snapshot_id is None:
            ((snapshot_id,),) = transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
        plan = plan_in(transaction, time_zone, name, snapshot_id, names, predicate)
        known = None if predicate is None else coverage(transaction, plan.table, snapshot_id, predicate)
        return plan, known or Coverage(frozenset(), {})


def whole_files(plan: ScanPlan, covered: Collection[int], data_path: str) -> tuple[DataFile, ...] | None:
    """The files of a delete, if a staged commit can drop them, and no other rows are to be deleted; else None.

    Args:
        plan: The plan of the delete.
        covered: The ids of files of which every row satisfies its condition, if it has one.
        data_path: The data path of the lake.
    """
    files = plan.files
    # A file that another writer has registered twice has two ids, and DuckLake finds it by its path.
    if plan.inlined_row_count or len({file.path for file in files}) < len(files):
        return None
    if not all(_can_drop(file, data_path) for file in files):
        return None
    if plan.predicate is not None and any(file.data_file_id not in covered for file in files):
        return None
    # Without a row, there is nothing to commit.
    return files if any(map(visible_rows, files)) else None


def _can_drop(file: DataFile, data_path: str) -> bool:
    # In a file with rows of later snapshots, other rows than the visible ones would be dropped. If a dropped file has
    # deletes in the catalog, DuckLake's change feed returns these rows again, and not the others.
    return file.snapshot_filter is None and not file.inlined_deletes and file.path.startswith(data_path)
