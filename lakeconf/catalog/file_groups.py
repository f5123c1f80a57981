"""The data files of a table in groups that a rewrite can replace: all files, or those of one partition."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction, repeated
from lakeconf.catalog.table import TableInfo
from lakeconf.ducklake import INLINED_TABLES, inlined_deletes_table, visible_at
from lakeconf.sql import identifier

# The key of a commit's extra info with the order in which the commit has sorted its files.
SORTED_BY = "sorted_by"
_FILES = f"""
    SELECT data_file_id, path, path_is_relative, record_count, file_size_bytes, begin_snapshot, partition_id,
        partial_max, encryption_key IS NOT NULL
    FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()} ORDER BY data_file_id
"""  # noqa: S608
_DELETES = f"""
    SELECT data_file_id, delete_file_id, delete_count
    FROM ducklake_delete_file WHERE table_id = $2 AND {visible_at()} ORDER BY delete_file_id
"""  # noqa: S608
_PARTITIONS = """
    SELECT data_file_id, partition_key_index, partition_value FROM ducklake_file_partition_value
    WHERE table_id = ? ORDER BY data_file_id, partition_key_index
"""
_REWRITES = "SELECT snapshot_id, commit_extra_info FROM ducklake_snapshot_changes WHERE changes_made = ?"


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """A data file that a rewrite replaces, with its deletes.

    Attributes:
        data_file_id: Its id.
        path: Its path.
        rows: The number of its rows that are not deleted.
        begin_snapshot: The snapshot that added it.
        delete_file_id: The id of its delete file; None if it has none.
        size: Its size in bytes.
        deleted: The number of its deleted rows.
    """

    data_file_id: int
    path: str
    rows: int
    begin_snapshot: int
    delete_file_id: int | None = None
    size: int = 0
    deleted: int = 0


@dataclass(frozen=True)
class FileGroup:
    """Files with rows of one partition.

    Attributes:
        files: The files.
        partition_id: The partitioning that they were written for; None if the table was not partitioned.
        partition: The partition values, as text, by the index of their key.
        sorted_by: The order in which the last rewrite has sorted all of them; empty if it is not known.
        encrypted: True if a file is encrypted.
    """

    files: tuple[ReplacedFile, ...]
    partition_id: int | None = None
    partition: tuple[tuple[int, str | None], ...] = ()
    sorted_by: tuple[str, ...] = ()
    encrypted: bool = False

    @property
    def rows(self) -> int:
        """The number of rows that are not deleted."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return sum(file.size for file in self.files)

    @property
    def folder(self) -> str | None:
        """The folder of all files, with a trailing slash; None if they are in several folders."""
        folders = {file.path.rpartition("/")[0] for file in self.files}
        return f"{folders.pop()}/" if len(folders) == 1 else None


@repeated
def file_groups(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> tuple[FileGroup, ...]:
    """The groups of a table's files at a snapshot; those with most files come first."""
    with reader.transaction() as transaction:
        return groups_of(transaction, table, snapshot_id)


def groups_of(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> tuple[FileGroup, ...]:
    """Like `file_groups`, in an open transaction."""
    parameters = [snapshot_id, table.table_id]
    deletes = {file_id: (delete_id, count) for file_id, delete_id, count in transaction.rows(_DELETES, parameters)}
    partitions: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    for file_id, index, value in transaction.rows(_PARTITIONS, [table.table_id]):
        partitions[file_id].append((index, value))
    orders = _orders(transaction, table)
    found: dict[tuple[object, ...], list[tuple[Any, ...]]] = defaultdict(list)
    for row in transaction.rows(_FILES, parameters):
        found[(row[6], *partitions[row[0]])].append(row)
    groups = [
        FileGroup(
            tuple(_replaced(table, row, deletes.get(row[0])) for row in rows),
            rows[0][6],
            tuple(partitions[rows[0][0]]),
            _order(rows, orders, deletes),
            any(row[8] for row in rows),
        )
        for rows in found.values()
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.files), group.files[0].data_file_id)))


@repeated
def is_inlined(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> bool:
    """True if the catalog itself contains rows of a table, or deletes from its files, at a snapshot."""
    with reader.transaction() as transaction:
        for (name,) in transaction.rows(INLINED_TABLES, [table.table_id]):
            query = f"SELECT 1 FROM {identifier(name)} WHERE {visible_at()} LIMIT 1"  # noqa: S608
            if transaction.rows(query, [snapshot_id]):
                return True
        return bool(inlined_deletes(transaction, table, snapshot_id))


def inlined_deletes(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> set[int]:
    """The ids of the live data files from which the catalog itself deletes rows."""
    name = inlined_deletes_table(table.table_id)
    if not transaction.has_table(name):
        return set()
    live = f"SELECT data_file_id FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()}"  # noqa: S608
    query = f"SELECT DISTINCT file_id FROM {identifier(name)} WHERE begin_snapshot <= $1 AND file_id IN ({live})"  # noqa: S608
    return {int(file_id) for (file_id,) in transaction.rows(query, [snapshot_id, table.table_id])}


def _replaced(table: TableInfo, row: tuple[Any, ...], deleted: tuple[int, int] | None) -> ReplacedFile:
    file_id, path, is_relative, rows, size, begin, *_ = row
    delete_id, count = deleted or (None, 0)
    full = compose_path(table.path, path, is_relative=is_relative)
    return ReplacedFile(file_id, full, rows - count, begin, delete_id, size, count)


def _orders(transaction: MetadataTransaction, table: TableInfo) -> Mapping[int, tuple[str, ...]]:
    """The order of the rows that each rewrite of the table has sorted."""
    found = {}
    for snapshot_id, text in transaction.rows(_REWRITES, [f"rewrite_delete:{table.table_id}"]):
        try:
            order = json.loads(text or "{}")["extra"][SORTED_BY]
        except (ValueError, KeyError, TypeError):
            continue  # another tool, or a rewrite without an order
        if isinstance(order, list):
            found[snapshot_id] = tuple(map(str, order))
    return found


def _order(
    rows: Sequence[tuple[Any, ...]], orders: Mapping[int, tuple[str, ...]], deletes: Mapping[int, object]
) -> tuple[str, ...]:
    """The order of a group whose files are those of one sorted rewrite, without later deletes."""
    begins = {row[5] for row in rows}
    if len(begins) > 1 or any(row[7] is not None or row[0] in deletes for row in rows):
        return ()
    return orders.get(begins.pop(), ())
