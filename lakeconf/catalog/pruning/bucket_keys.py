"""Rows for which DuckLake looks in the wrong files, because their table got its bucket key after them.

For a value in a condition, such as `id = 1` or the keys of a join, DuckLake computes the bucket by the current key and
reads only the files that have this bucket. It does not look which key a file was written for: files without a key have
no bucket, and those of another key have another one (https://github.com/duckdb/ducklake/issues/1414). Other transforms
are right: DuckLake does not use their values.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.ducklake import visible_at
from lakeconf.sql import identifier

_BUCKET = "bucket("
# True for what is visible at any of the snapshots from $1 to $2.
_VISIBLE = "begin_snapshot <= $2 AND coalesce(end_snapshot, $2 + 1) > $1"
_FILES = f"""
    SELECT 1 AS found FROM ducklake_data_file
    WHERE table_id = $3 AND coalesce(partition_id, -1) <> $4 AND {_VISIBLE} LIMIT 1
"""  # noqa: S608
_BEGIN = "(SELECT min(begin_snapshot) FROM ducklake_partition_info WHERE table_id = $3 AND partition_id = $4)"
# The catalog's tables with inlined rows. A flush writes rows that are older than the key to a file without a key.
_INLINED = "SELECT table_name FROM ducklake_inlined_data_tables WHERE table_id = $1"


def is_bucket(transform: str) -> bool:
    """True for the transform `bucket(n)` of a partition key."""
    return transform.startswith(_BUCKET)


def has_other_rows(
    transaction: MetadataTransaction, table_id: int, partition_id: int, first: int, last: int | None = None
) -> bool:
    """True if a table has rows that were not written for this partitioning, at a snapshot or at some up to `last`."""
    parameters = [first, first if last is None else last, table_id, partition_id]
    if transaction.own_rows(_FILES, "found BIGINT", parameters):
        return True
    return _has_inlined(transaction, table_id, f"begin_snapshot < {_BEGIN} AND {_VISIBLE}", parameters)


def has_older_rows(transaction: MetadataTransaction, table_id: int, since: int, snapshot_id: int) -> bool:
    """True if a table has rows at a snapshot that began before the snapshot `since`."""
    older, parameters = f"begin_snapshot < $2 AND {visible_at()}", [snapshot_id, since]
    files = f"SELECT 1 FROM ducklake_data_file WHERE table_id = $3 AND {older} LIMIT 1"  # noqa: S608
    if transaction.rows(files, [*parameters, table_id]):
        return True
    return _has_inlined(transaction, table_id, older, parameters)


def _has_inlined(transaction: MetadataTransaction, table_id: int, condition: str, parameters: Sequence[int]) -> bool:
    """True if the catalog itself has rows of a table with a condition."""
    return any(
        transaction.rows(f"SELECT 1 FROM {identifier(name)} WHERE {condition} LIMIT 1", parameters)  # noqa: S608
        for (name,) in transaction.own_rows(_INLINED, "table_name VARCHAR", [table_id])
    )
