"""How many rows a table has, and how large they are."""

from __future__ import annotations

from dataclasses import replace

from lakeconf.catalog.reader import CatalogReader, MetadataTransaction, repeated
from lakeconf.catalog.scan import inlined_row_counts
from lakeconf.catalog.table import NO_ID, TableInfo, find_table
from lakeconf.ducklake import inlined_deletes_table, visible_at
from lakeconf.sql import identifier

# A file whose rows have several snapshots does not tell how many of them are visible.
_FILES = f"""
    SELECT coalesce(sum(record_count), 0), count(*) FILTER (partial_max > $1 OR file_format <> 'parquet')
    FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()}
"""  # noqa: S608

_DELETED_IN_FILES = f"""
    SELECT coalesce(sum(d.delete_count), 0), count(*), count(DISTINCT d.data_file_id)
    FROM ducklake_delete_file AS d JOIN ducklake_data_file AS f USING (data_file_id)
    WHERE d.table_id = $2 AND {visible_at(row="d")} AND {visible_at(row="f")}
"""  # noqa: S608


@repeated
def row_count(reader: CatalogReader, table_name: str, snapshot_id: int) -> int | None:
    """The number of rows of a table at a snapshot.

    Args:
        table_name: `schema.table`, or `table` in the schema `main`.

    Returns:
        The number; None if only the files tell it: the catalog does not know how many rows of a file an older snapshot
        has if later snapshots added rows to it or deleted some.
    """
    with reader.transaction() as transaction:
        table = find_table(transaction, table_name, snapshot_id)
        parameters = [snapshot_id, table.table_id]
        ((in_files, unclear),) = transaction.rows(_FILES, parameters)
        ((deleted, delete_files, files),) = transaction.rows(_DELETED_IN_FILES, parameters)
        ((newest,),) = transaction.rows("SELECT max(snapshot_id) FROM ducklake_snapshot")
        inlined = _inlined_deletes(transaction, table, snapshot_id)
        # A delete file can contain later deletes too, and two live ones for one file are damage. A row can be in both
        # lists of deletes.
        if unclear or (delete_files and (snapshot_id != newest or delete_files > files or inlined)):
            return None
        added = sum(inlined_row_counts(transaction, table, snapshot_id).values())
        return int(in_files) - int(deleted) - inlined + added


def _inlined_deletes(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> int:
    name = inlined_deletes_table(table.table_id)
    if not transaction.has_table(name):
        return 0
    ((count,),) = transaction.rows(
        f"""SELECT count(DISTINCT (d.file_id, d.row_id)) FROM {identifier(name)} AS d
        JOIN ducklake_data_file AS f ON f.data_file_id = d.file_id
        WHERE d.begin_snapshot <= $1 AND f.table_id = $2 AND {visible_at(row="f")}""",  # noqa: S608
        [snapshot_id, table.table_id],
    )
    return int(count)


@repeated
def with_bytes_per_row(reader: CatalogReader, table: TableInfo) -> TableInfo:
    """Returns the table with `bytes_per_row` from the catalog's table statistics, if the catalog has the table."""
    if table.table_id == NO_ID:
        return table
    with reader.transaction() as transaction:
        found = transaction.rows(
            "SELECT record_count, file_size_bytes FROM ducklake_table_stats WHERE table_id = ?", [table.table_id]
        )
    known = [size / count for count, size in found if count and size]
    return replace(table, bytes_per_row=known[0]) if known else table
