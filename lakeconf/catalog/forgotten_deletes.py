"""Finds older snapshots of which DuckLake forgot the deleted rows.

When DuckLake extends a deletion vector, it keeps only the longer one, from its own snapshot on. In earlier snapshots,
all rows of the file are visible again, also deleted ones: https://github.com/duckdb/ducklake/issues/1072
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.ducklake import visible_at
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from lakeconf.catalog.reader import MetadataTransaction

# A file that had no delete file yet, though rows of its table had been deleted, and that has a vector later.
_FORGOTTEN = f"""
    SELECT d.data_file_id AS data_file_id
    FROM ducklake_delete_file AS d JOIN ducklake_data_file AS f ON f.data_file_id = d.data_file_id
    WHERE d.table_id = $2 AND d.format = 'puffin' AND d.begin_snapshot > $1 AND f.begin_snapshot <= $1
        AND NOT EXISTS (SELECT 1 FROM ducklake_delete_file AS o
            WHERE o.data_file_id = d.data_file_id AND {visible_at(row="o")})
        AND EXISTS (SELECT 1 FROM ducklake_snapshot_changes AS c
            WHERE c.snapshot_id > f.begin_snapshot AND c.snapshot_id <= $1
                AND ',' || c.changes_made || ',' LIKE '%,deleted_from_table:' || CAST($2 AS VARCHAR) || ',%')
    LIMIT 1
"""  # noqa: S608


def check_deletes(transaction: MetadataTransaction, table_id: int, table: str, snapshot_id: int) -> None:
    """Rejects a snapshot at which it is not known which rows of a table had been deleted."""
    if transaction.own_rows(_FORGOTTEN, "data_file_id BIGINT", [snapshot_id, table_id]):
        raise UnsupportedError(
            f"DuckLake forgot which rows of {table} had been deleted at version {snapshot_id}, when it extended a "
            "deletion vector",
            hint="read the latest snapshot; to keep others, set write_deletion_vectors of the lake to false",
        )
