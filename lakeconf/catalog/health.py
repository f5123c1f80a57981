"""What can be wrong in a catalog: bounds, deletes and updates that it has lost."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from lakeconf.catalog.changes import MERGES, changed_tables, made_changes
from lakeconf.catalog.data_file import load_data_files
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import find_table, split_name
from lakeconf.ducklake import OWN_ROW_IDS, inlined_deletes_table
from lakeconf.errors import CatalogError, UnsupportedError
from lakeconf.sql import files_sql, identifier, literal, qualified

_TABLES = """
    SELECT t.table_id, s.schema_name, t.table_name
    FROM ducklake_table AS t
    JOIN ducklake_schema AS s USING (schema_id)
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL
    ORDER BY ALL
"""
# DuckDB reads such a data file once for each delete file. A row that was not deleted is returned each time, so a
# delete file contains each row with fewer copies.
_REBUILD = """\
CREATE TABLE {rebuilt} AS WITH
copies AS (SELECT path, greatest(count(delete_file_id), 1) AS wanted FROM (
    SELECT data_file_id, path FROM {metadata}.ducklake_data_file WHERE table_id = {table_id} AND end_snapshot IS NULL
) LEFT JOIN (
    SELECT data_file_id, delete_file_id FROM {metadata}.ducklake_delete_file WHERE end_snapshot IS NULL
) USING (data_file_id) GROUP BY path),
rows AS (SELECT *, filename AS __file, count(*) OVER (PARTITION BY rowid) AS __found,
    row_number() OVER (PARTITION BY rowid) AS __number FROM {table})
SELECT rows.* EXCLUDE (__file, __found, __number) FROM rows LEFT JOIN copies ON ends_with(__file, path)
WHERE __number = 1 AND __found = coalesce(wanted, 1);"""
# The statistics of columns in the files of all tables, and those of the tables.
FILE_STATISTICS = """
    ducklake_file_column_stats AS f
    JOIN ducklake_data_file AS d ON d.data_file_id = f.data_file_id AND d.end_snapshot IS NULL
    JOIN ducklake_table AS t ON t.table_id = f.table_id AND t.end_snapshot IS NULL
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id AND s.end_snapshot IS NULL
    JOIN ducklake_column AS c ON c.table_id = f.table_id AND c.column_id = f.column_id AND c.end_snapshot IS NULL
    JOIN ducklake_table_column_stats AS g ON g.table_id = f.table_id AND g.column_id = f.column_id
"""
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
# The files of which some deletes are in a delete file, and some in the catalog.
_IN_BOTH = """
    SELECT DISTINCT x.data_file_id FROM ducklake_delete_file AS x JOIN {deletes} AS i ON i.file_id = x.data_file_id
    WHERE x.table_id = ? AND x.end_snapshot IS NULL
"""
_CHANGES = "SELECT snapshot_id, changes_made FROM ducklake_snapshot_changes WHERE snapshot_id > ? AND snapshot_id <= ?"
# A file of several snapshots, which a merge made. The first id of one that stores its row ids is NULL or as large as
# those of lakeconf's staged commits.
_MERGED = f"""
    SELECT 1 FROM ducklake_data_file
    WHERE table_id = ? AND begin_snapshot <= ? AND partial_max >= ? AND row_id_start < {OWN_ROW_IDS} LIMIT 1
"""  # noqa: S608 - a constant


def lost_deletes(reader: CatalogReader, snapshot_id: int | None = None) -> dict[tuple[str, str], int]:
    """Counts rows that were deleted but are visible again.

    DuckLake records a small delete in the catalog, as a position in a data file. If a rewrite replaces the file before
    the delete commits, DuckLake commits both, and the new file still contains the row.
    """
    with reader.transaction() as transaction:
        tables = transaction.rows(_TABLES)
        counts = {(schema, name): _count(transaction, table_id, snapshot_id) for table_id, schema, name in tables}
    return {table: rows for table, rows in counts.items() if rows}


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


def columns_by_table(transaction: MetadataTransaction, query: str) -> dict[tuple[str, str], list[str]]:
    """Runs a query that finds columns."""
    columns: dict[tuple[str, str], list[str]] = {}
    for schema, table, column in transaction.rows(query):
        columns.setdefault((schema, table), []).append(column)
    return columns


def lost_bounds(reader: CatalogReader) -> dict[tuple[str, str], list[str]]:
    """Finds columns whose bounds a rewrite by DuckLake may lose."""
    with reader.transaction() as transaction:
        return columns_by_table(transaction, _LOST)


def forgotten_bounds(transaction: MetadataTransaction, table_id: int, replaced: Collection[int]) -> Mapping[int, str]:
    """Finds files because of which DuckLake forgets bounds when other files replace some files of a table."""
    if any(file_id not in replaced for (file_id,) in transaction.rows(_WITH_DELETES, [table_id])):
        return {}  # DuckLake leaves the bounds of a table with deleted rows as they are
    rows = transaction.rows(_WITHOUT_BOUNDS, [table_id])
    return {int(file_id): str(column) for file_id, column in rows if file_id not in replaced}


def table_bounds(transaction: MetadataTransaction, table_id: int) -> Mapping[int, tuple[str, str]]:
    """The bounds of a table's columns, as text, by field id."""
    return {int(field_id): (low, high) for field_id, low, high in transaction.rows(_BOUNDS, [table_id])}


def has_deletes(reader: CatalogReader, table_name: str, since: int, until: int) -> bool:
    """True if snapshots deleted rows of a table, as deletes, updates and overwrites do."""
    with reader.transaction() as transaction:
        table_id = find_table(transaction, table_name, until).table_id
        changes = transaction.rows(_CHANGES, [since, until])
    return any("delete" in kind for _, text in changes for kind, table in changed_tables(text) if table == table_id)


def merged_update(reader: CatalogReader, table_name: str, since: int, until: int) -> tuple[int, int] | None:
    """Returns an update that the change feed may show as deleted and inserted rows."""
    with reader.transaction() as transaction:
        table_id = find_table(transaction, table_name, until).table_id
        changes = sorted(transaction.rows(_CHANGES, [since, until]))
        merges = [
            version
            for version, text in changes
            if any(kind.startswith(MERGES) and table == table_id for kind, table in made_changes(text))
        ]
        for version, text in changes:
            kinds = [kind for kind, table in changed_tables(text) if table == table_id]
            merge = next((later for later in merges if later > version), None)
            is_update = any("insert" in kind for kind in kinds) and any("delete" in kind for kind in kinds)
            if merge is not None and is_update and transaction.rows(_MERGED, [table_id, version, version]):
                return version, merge
    return None


def check_delete_files(reader: CatalogReader, tables: Mapping[int, str]) -> None:
    """Rejects deletes from tables, by id, that DuckLake would carry out wrongly.

    It lets two concurrent deletes on one file commit, which leave it with two live delete files. Commits of lakeconf
    prevent this; other writers do not. It deletes only some rows of a file that is registered twice. And it replaces a
    deletion vector by a longer one without its history: https://github.com/duckdb/ducklake/issues/1072
    """
    ids = ", ".join(map(str, sorted(tables)))
    with reader.transaction() as transaction:
        doubled = transaction.own_rows(
            "SELECT table_id, data_file_id, count(*) AS files FROM ducklake_delete_file "  # noqa: S608 - numbers
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, data_file_id HAVING count(*) > 1 OR max(format) = 'puffin'",
            "table_id BIGINT, data_file_id BIGINT, files BIGINT",
        )
        repeated = transaction.own_rows(
            "SELECT table_id, path FROM ducklake_data_file "  # noqa: S608 - numbers
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, path, path_is_relative HAVING count(*) > 1 LIMIT 1",
            "table_id BIGINT, path VARCHAR",
        )
    if doubled:
        table_id, data_file_id, file_count = doubled[0]
        table = tables[table_id]
        if file_count == 1:
            raise _has_vector(reader.alias, table)
        raise CatalogError(
            f"two writers deleted from {table} at the same time: the data file {data_file_id} has two delete "
            "files, and deleted rows are visible again, so nothing was written",
            hint="rebuild the table with DuckDB, compare both, then drop the damaged table and rename the new one:\n"
            + rebuild_sql(reader, table_id, table),
        )
    if repeated:
        table_id, path = repeated[0]
        table = tables[table_id]
        raise CatalogError(
            f"the file {path} is registered more than once in {table}, and DuckLake would delete only some of its "
            "rows, so nothing was written",
            hint=f"write its rows to another table, CREATE TABLE copied AS FROM {table}, and put that in its place",
        )


def check_overlaps(reader: CatalogReader, tables: Mapping[int, str], snapshot_id: int) -> None:
    """Rejects deletes from tables, by id, whose deleted rows DuckDB shows again.

    Two plain clients can delete one row at once, one in a delete file and one in the catalog. DuckDB then returns other
    deleted rows of the file: https://github.com/duckdb/ducklake/issues/1215
    """
    with reader.transaction() as transaction:
        for table_id, name in tables.items():
            if not transaction.has_table(inlined_deletes_table(table_id)):
                continue
            query = _IN_BOTH.format(deletes=identifier(inlined_deletes_table(table_id)))
            ids = [file_id for (file_id,) in transaction.rows(query, [table_id])]
            if not ids:
                continue
            table = find_table(transaction, name, snapshot_id)
            for file in load_data_files(transaction, table, snapshot_id, ids):
                deletes = file.delete_file
                if deletes is None or deletes.encryption_key is not None or deletes.format != "parquet":
                    continue
                positions = ", ".join(map(str, file.inlined_deletes))
                deleted = files_sql("read_parquet", [deletes.path])
                rows = f"SELECT 1 FROM {deleted} WHERE pos IN ({positions}) LIMIT 1"  # noqa: S608
                if reader.connection.rows(rows):
                    raise CatalogError(
                        f"two writers deleted the same rows of {name} at the same time: deleted rows are visible "
                        "again, so nothing was written",
                        hint="write its files again without them: lake.maintenance.compact()",
                    )


def _has_vector(alias: str, table: str) -> UnsupportedError:
    """The error for a delete that would extend a deletion vector."""
    return UnsupportedError(
        f"{table} has a deletion vector, and DuckLake would forget which of its rows older snapshots have, so nothing "
        "was written",
        hint="set write_deletion_vectors to false, and rewrite the files with DuckDB: "
        f"CALL {identifier(alias)}.set_option('write_deletion_vectors', false); "
        f"CALL ducklake_rewrite_data_files({literal(alias)}, delete_threshold => 0)",
    )


def rebuild_sql(reader: CatalogReader, table_id: int, table: str) -> str:
    """The statement that copies the rows of a damaged table that were not deleted to a new table."""
    schema, name = split_name(table)
    return _REBUILD.format(
        rebuilt=qualified(reader.alias, schema, f"{name}_rebuilt"),
        table=qualified(reader.alias, schema, name),
        metadata=reader.metadata,
        table_id=table_id,
    )
