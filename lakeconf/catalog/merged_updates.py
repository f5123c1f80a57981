"""Finds updates whose rows have lost their ids: DuckLake's merges of files give updated rows new ids."""

from __future__ import annotations

from lakeconf.catalog.changes_made import changed_tables, made_changes
from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.table import find_table

# The changes of a snapshot in which DuckLake merged files.
_MERGES = ("merge_adjacent", "compacted_table")
_CHANGES = "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > ? AND snapshot_id <= ?"
# A file of several snapshots, which a merge made. The first id of one that stores its row ids is NULL or as large as
# those of lakeconf's staged commits.
_MERGED = """
    SELECT 1 FROM ducklake_data_file
    WHERE table_id = ? AND begin_snapshot <= ? AND partial_max >= ? AND row_id_start < 1000000000000000 LIMIT 1
"""


@repeated
def merged_update(reader: CatalogReader, table_name: str, since: int, until: int) -> tuple[int, int] | None:
    """Returns an update that the change feed may show as deleted and inserted rows.

    Args:
        reader: The lake.
        table_name: `schema.table`, or `table` in the schema `main`.
        since: The snapshot before the range.
        until: The last snapshot of the range.

    Returns:
        A snapshot that inserted and deleted rows, and a later one that merged its files; None if there is none.

    Raises:
        TableNotFoundError: The table does not exist at `until`.
    """
    with reader.transaction() as transaction:
        table_id = find_table(transaction, table_name, until).table_id
        found = sorted(transaction.rows(_CHANGES, [since, until]))
        merges = [
            version
            for version, made in found
            if any(kind.startswith(_MERGES) and table == table_id for kind, table in made_changes(made))
        ]
        for version, made in found:
            kinds = [kind for kind, table in changed_tables(made) if table == table_id]
            merge = next((one for one in merges if one > version), None)
            is_update = any("insert" in kind for kind in kinds) and any("delete" in kind for kind in kinds)
            if merge is not None and is_update and transaction.rows(_MERGED, [table_id, version, version]):
                return version, merge
    return None
