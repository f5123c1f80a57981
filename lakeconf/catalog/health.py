"""What can be wrong in a catalog: bounds, deletes and updates that it has lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakeconf.catalog.changes import MERGES, changed_tables, made_changes
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import find_table
from lakeconf.ducklake import inlined_deletes_table
from lakeconf.sql import identifier

_TABLES = """
    SELECT t.table_id, s.schema_name, t.table_name
    FROM ducklake_table AS t
    JOIN ducklake_schema AS s USING (schema_id)
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL
    ORDER BY ALL
"""


def lost_deletes(reader: CatalogReader, snapshot_id: int | None = None) -> dict[tuple[str, str], int]:
    """Counts rows that were deleted but are visible again.

    DuckLake records a small delete in the catalog, as a position in a data file. If a rewrite replaces the file before
    the delete commits, DuckLake commits both, and the new file still contains the row.
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
    """
    return columns_by_table(reader, _STALE)


def columns_by_table(reader: CatalogReader, query: str) -> dict[tuple[str, str], list[str]]:
    """Runs a query that finds columns."""
    found: dict[tuple[str, str], list[str]] = {}
    with reader.transaction() as transaction:
        for schema, table, column in transaction.rows(query):
            found.setdefault((schema, table), []).append(column)
    return found


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
    """Finds columns whose bounds a rewrite by DuckLake may lose."""
    return columns_by_table(reader, _LOST)


def forgotten_bounds(transaction: MetadataTransaction, table_id: int, replaced: Collection[int]) -> Mapping[int, str]:
    """Finds files because of which DuckLake forgets bounds when other files replace some files of a table."""
    if any(file_id not in replaced for (file_id,) in transaction.rows(_WITH_DELETES, [table_id])):
        return {}  # DuckLake leaves the bounds of a table with deleted rows as they are
    found = transaction.rows(_WITHOUT_BOUNDS, [table_id])
    return {int(file_id): str(column) for file_id, column in found if file_id not in replaced}


def table_bounds(transaction: MetadataTransaction, table_id: int) -> Mapping[int, tuple[str, str]]:
    """The bounds of a table's columns, as text, by field id."""
    return {int(field_id): (low, high) for field_id, low, high in transaction.rows(_BOUNDS, [table_id])}


_CHANGES = "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > ? AND snapshot_id <= ?"
# A file of several snapshots, which a merge made. The first id of one that stores its row ids is NULL or as large as
# those of lakeconf's staged commits.
_MERGED = """
    SELECT 1 FROM ducklake_data_file
    WHERE table_id = ? AND begin_snapshot <= ? AND partial_max >= ? AND row_id_start < 1000000000000000 LIMIT 1
"""


def has_deletes(reader: CatalogReader, table_name: str, since: int, until: int) -> bool:
    """True if snapshots deleted rows of a table, as deletes, updates and overwrites do."""
    with reader.transaction() as transaction:
        table_id = find_table(transaction, table_name, until).table_id
        found = transaction.rows(_CHANGES, [since, until])
    return any("delete" in kind for _, made in found for kind, table in changed_tables(made) if table == table_id)


def merged_update(reader: CatalogReader, table_name: str, since: int, until: int) -> tuple[int, int] | None:
    """Returns an update that the change feed may show as deleted and inserted rows."""
    with reader.transaction() as transaction:
        table_id = find_table(transaction, table_name, until).table_id
        found = sorted(transaction.rows(_CHANGES, [since, until]))
        merges = [
            version
            for version, made in found
            if any(kind.startswith(MERGES) and table == table_id for kind, table in made_changes(made))
        ]
        for version, made in found:
            kinds = [kind for kind, table in changed_tables(made) if table == table_id]
            merge = next((one for one in merges if one > version), None)
            is_update = any("insert" in kind for kind in kinds) and any("delete" in kind for kind in kinds)
            if merge is not None and is_update and transaction.rows(_MERGED, [table_id, version, version]):
                return version, merge
    return None
