"""Finds deletes that a rewrite by another tool undid."""

from __future__ import annotations

from lakeconf.catalog.reader import CatalogReader, MetadataTransaction, repeated
from lakeconf.ducklake import inlined_deletes_table
from lakeconf.sql import identifier

_TABLES = """
    SELECT t.table_id, s.schema_name, t.table_name
    FROM ducklake_table AS t
    JOIN ducklake_schema AS s USING (schema_id)
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL
    ORDER BY ALL
"""


@repeated
def lost_deletes(reader: CatalogReader, snapshot_id: int | None = None) -> dict[tuple[str, str], int]:
    """Counts rows that were deleted but are visible again.

    DuckLake records a small delete in the catalog, as a position in a data file. If a rewrite replaces the file before
    the delete commits, DuckLake commits both, and the new file still contains the row.

    Args:
        reader: The lake.
        snapshot_id: Count deletes up to this snapshot; default: all.

    Returns:
        The number of rows by schema and table, for each table with such rows.
    """
    with reader.transaction() as transaction:
        tables = transaction.rows(_TABLES)
        found = {(schema, name): _count(transaction, table_id, snapshot_id) for table_id, schema, name in tables}
    return {table: rows for table, rows in found.items() if rows}


def _count(transaction: MetadataTransaction, table_id: int, snapshot_id: int | None) -> int:
    name = inlined_deletes_table(table_id)
    if not transaction.has_table(name):
        return 0
    # Equal snapshots mean that the file was dropped together with its deletes.
    query = f"""
        SELECT count(*) FROM {identifier(name)} AS d
        JOIN ducklake_data_file AS f ON f.data_file_id = d.file_id
        WHERE f.end_snapshot < d.begin_snapshot AND d.begin_snapshot <= coalesce(?, d.begin_snapshot)
    """  # noqa: S608 - a number
    ((rows,),) = transaction.rows(query, [snapshot_id])
    return int(rows)
