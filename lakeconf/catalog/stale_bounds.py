"""Finds columns whose statistics of the table do not cover the values of its files."""

from __future__ import annotations

from lakeconf.catalog.reader import CatalogReader, repeated

# Bounds are text. The text of numbers and times is converted: a conversion may round, but keeps the order. DuckLake has
# no bounds for other types, or does not use them.
_NUMBERS, _TIMES = "'(u?int(8|16|32|64)|float(32|64)|decimal.*)'", "'(date|timestamp.*)'"
_TEXTS = "'(varchar|uuid)'"
# The statistics of columns in the files of all tables, and those of the tables.
FILE_STATISTICS = """
    ducklake_file_column_stats AS f
    JOIN ducklake_data_file AS d ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL
    JOIN ducklake_table AS t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    JOIN ducklake_column AS c ON c.table_id = f.table_id AND c.column_id = f.column_id AND c.end_snapshot IS NULL
    JOIN ducklake_table_column_stats AS g ON g.table_id = f.table_id AND g.column_id = f.column_id
"""
_FILES = f"""
    SELECT s.schema_name, t.table_name, c.column_name, lower(c.column_type) AS type,
        f.min_value AS lowest, f.max_value AS highest, g.min_value AS table_lowest, g.max_value AS table_highest,
        coalesce(f.value_count, 1) > 0 AND NOT coalesce(f.contains_nan, false) AND f.min_value IS NULL AS is_unknown
    FROM {FILE_STATISTICS}
    WHERE regexp_full_match(lower(c.column_type), {_NUMBERS}) OR regexp_full_match(lower(c.column_type), {_TIMES})
        OR regexp_full_match(lower(c.column_type), {_TEXTS})
"""  # noqa: S608 - constants


def _outside(kind: str) -> str:
    lowest, highest, table_lowest, table_highest = (
        f"TRY_CAST({name} AS {kind})" for name in ("lowest", "highest", "table_lowest", "table_highest")
    )
    return f"({lowest} < {table_lowest} OR {highest} > {table_highest})"


_STALE = f"""
    SELECT DISTINCT schema_name, table_name, column_name FROM ({_FILES})
    WHERE is_unknown OR (lowest IS NOT NULL AND table_lowest IS NULL) OR CASE
        WHEN regexp_full_match(type, {_NUMBERS}) THEN {_outside("DOUBLE")}
        WHEN regexp_full_match(type, {_TIMES}) THEN {_outside("TIMESTAMP")}
        ELSE {_outside("VARCHAR")} END
    ORDER BY ALL
"""  # noqa: S608 - constants


def stale_bounds(reader: CatalogReader) -> dict[tuple[str, str], list[str]]:
    """Finds columns whose rows plain DuckDB may hide.

    If a file with values has no bounds, DuckLake takes it for a file without values, and the next insert makes its own
    bounds those of the table. DuckDB then answers filters from these bounds. A compaction gives bounds to the file, but
    not to the table. lakeconf reads all rows: it does not use the bounds of the table.

    Args:
        reader: The lake.

    Returns:
        The columns by schema and table. DuckDB hides rows of some from now on, and of others after the next insert.
    """
    return columns_by_table(reader, _STALE)


@repeated
def columns_by_table(reader: CatalogReader, query: str) -> dict[tuple[str, str], list[str]]:
    """Runs a query that finds columns.

    Args:
        reader: The lake.
        query: SQL that returns a schema, a table and a column in each row.

    Returns:
        The columns by schema and table.
    """
    found: dict[tuple[str, str], list[str]] = {}
    with reader.transaction() as transaction:
        for schema, table, column in transaction.rows(query):
            found.setdefault((schema, table), []).append(column)
    return found
