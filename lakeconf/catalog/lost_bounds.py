"""Finds tables whose bounds DuckLake would forget if it rewrote their files with deleted rows.

`ducklake_rewrite_data_files` sets the bounds of a column to NULL if a file has no values in it, and DuckLake then makes
the bounds of the next insert those of the table: DuckDB loses all other rows in filters and groups.
"""

from __future__ import annotations

from lakeconf.catalog.reader import CatalogReader, repeated

_LOST = """
    WITH deleted AS (
        SELECT data_file_id, max(delete_count) AS rows FROM ducklake_delete_file
        WHERE end_snapshot IS NULL GROUP BY data_file_id
    )
    SELECT DISTINCT s.schema_name, t.table_name, c.column_name FROM ducklake_file_column_stats AS f
    JOIN ducklake_data_file AS d ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL
    JOIN ducklake_table AS t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    JOIN ducklake_column AS c ON c.table_id = f.table_id AND c.column_id = f.column_id AND c.end_snapshot IS NULL
    JOIN ducklake_table_column_stats AS g ON g.table_id = f.table_id AND g.column_id = f.column_id
    LEFT JOIN deleted AS x ON x.data_file_id = f.data_file_id
    WHERE g.min_value IS NOT NULL AND (
        f.min_value IS NULL
        -- The rows that are left may have no values.
        OR x.rows >= d.record_count - coalesce(f.null_count, d.record_count)
        OR x.rows > 0 AND coalesce(f.contains_nan, false)
    )
    ORDER BY ALL
"""


@repeated
def lost_bounds(reader: CatalogReader) -> dict[tuple[str, str], list[str]]:
    """Finds columns whose bounds a rewrite by DuckLake may lose.

    Args:
        reader: The lake.

    Returns:
        The columns by schema and table.
    """
    found: dict[tuple[str, str], list[str]] = {}
    with reader.transaction() as transaction:
        for schema, table, column in transaction.rows(_LOST):
            found.setdefault((schema, table), []).append(column)
    return found
