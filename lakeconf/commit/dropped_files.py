"""Plans a delete: which files it can drop as a whole, so that DuckLake reads none of their rows, and which not."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from lakeconf.catalog.data_file import DataFile
from lakeconf.catalog.predicate.nodes import Predicate, columns_of
from lakeconf.catalog.pruning.coverage import Coverage, coverage
from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.scan import ScanPlan, plan_in
from lakeconf.commit.position_delete import visible_rows


class DeletedFiles(NamedTuple):
    """The data files of a delete.

    Attributes:
        dropped: Files that a staged commit can drop, because all of their rows are deleted.
        searched: Files of which only some rows may be deleted, or that are outside the data path.
    """

    dropped: tuple[DataFile, ...]
    searched: tuple[DataFile, ...]


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


def divided_files(plan: ScanPlan, covered: Collection[int], data_path: str) -> DeletedFiles | None:
    """Divides the files of a delete; None if no staged commit can delete their rows.

    Args:
        plan: The plan of the delete.
        covered: The ids of files of which every row satisfies its condition, if it has one.
        data_path: The data path of the lake.
    """
    files = plan.files
    # A file that another writer has registered twice has two ids, and DuckLake finds it by its path.
    if len({file.path for file in files}) < len(files):
        return None
    # In a file with rows of later snapshots, other rows than the visible ones would be deleted.
    if any(file.snapshot_filter is not None for file in files):
        return None
    is_whole = plan.predicate is None
    whole = tuple(file for file in files if is_whole or file.data_file_id in covered)
    # If a dropped file has deletes in the catalog, DuckLake's change feed returns these rows again, and not the others.
    if any(file.inlined_deletes for file in whole):
        return None
    dropped = tuple(file for file in whole if file.path.startswith(data_path))
    searched = tuple(file for file in files if file not in set(dropped))
    if any(map(_has_other_deletes, searched)):
        return None
    # Without a row, there is nothing to commit.
    return DeletedFiles(dropped if any(map(visible_rows, dropped)) else (), searched)


def _has_other_deletes(file: DataFile) -> bool:
    """True if a file of deleted positions would not be encrypted, or cannot contain the earlier deletes."""
    deletes = file.delete_file
    return file.encryption_key is not None or (deletes is not None and deletes.format != "parquet")
