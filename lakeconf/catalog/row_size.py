"""Computes the average size of a table's rows in its files."""

from __future__ import annotations

from dataclasses import replace

from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.catalog.table import NO_ID, TableInfo


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
