"""Finds tables whose bounds DuckLake would forget if it rewrote their files with deleted rows.

After a rewrite that leaves no deleted rows, DuckLake computes the bounds of the table again. It sets those of a column
to NULL if a file that stays has none, because it has no values. The bounds of the next insert then become those of the
table: DuckDB loses all other rows in filters and groups.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.stale_bounds import FILE_STATISTICS, columns_by_table

_LOST = f"""
    WITH deleted AS (
        SELECT data_file_id, max(delete_count) AS rows FROM ducklake_delete_file
        WHERE end_snapshot IS NULL GROUP BY data_file_id
    )
    SELECT DISTINCT s.schema_name, t.table_name, c.column_name FROM {FILE_STATISTICS}
    LEFT JOIN deleted AS x ON x.data_file_id = f.data_file_id
    WHERE g.min_value IS NOT NULL AND (
        f.min_value IS NULL
        -- The rows that are left may have no values.
        OR x.rows >= d.record_count - coalesce(f.null_count, d.record_count)
        OR x.rows > 0 AND coalesce(f.contains_nan, false)
    )
    ORDER BY ALL
"""  # noqa: S608 - constants
_WITH_DELETES = """
    SELECT DISTINCT d.data_file_id FROM ducklake_data_file AS d
    JOIN ducklake_delete_file AS x ON x.data_file_id = d.data_file_id AND x.end_snapshot IS NULL
    WHERE d.table_id = ? AND d.end_snapshot IS NULL
"""
_WITHOUT_BOUNDS = f"""
    SELECT f.data_file_id, c.column_name FROM {FILE_STATISTICS}
    WHERE f.table_id = ? AND g.min_value IS NOT NULL AND f.min_value IS NULL ORDER BY ALL
"""  # noqa: S608 - constants

_BOUNDS = """
    SELECT column_id, min_value, max_value FROM ducklake_table_column_stats
    WHERE table_id = ? AND min_value IS NOT NULL AND max_value IS NOT NULL
"""


def lost_bounds(reader: CatalogReader) -> dict[tuple[str, str], list[str]]:
    """Finds columns whose bounds a rewrite by DuckLake may lose.

    Args:
        reader: The lake.

    Returns:
        The columns by schema and table.
    """
    return columns_by_table(reader, _LOST)


def forgotten_bounds(transaction: MetadataTransaction, table_id: int, replaced: Collection[int]) -> Mapping[int, str]:
    """Finds files because of which DuckLake forgets bounds when other files replace some files of a table.

    Args:
        transaction: Reads the catalog.
        table_id: The table.
        replaced: The ids of the replaced files; the new ones have no deleted rows.

    Returns:
        The ids of files that stay, each with a column that has no bounds in it; none if DuckLake keeps all bounds.
    """
    if any(file_id not in replaced for (file_id,) in transaction.rows(_WITH_DELETES, [table_id])):
        return {}  # DuckLake leaves the bounds of a table with deleted rows as they are
    found = transaction.rows(_WITHOUT_BOUNDS, [table_id])
    return {int(file_id): str(column) for file_id, column in found if file_id not in replaced}


def table_bounds(transaction: MetadataTransaction, table_id: int) -> Mapping[int, tuple[str, str]]:
    """The bounds of a table's columns, as text, by field id."""
    return {int(field_id): (low, high) for field_id, low, high in transaction.rows(_BOUNDS, [table_id])}
