"""Detects data files from which DuckLake deletes the wrong rows: with two live delete files, or registered twice."""

from __future__ import annotations

from collections.abc import Iterable

from lakeconf.catalog.own_queries import own_rows
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table_name import split_name
from lakeconf.commit.conflicts import ReadDependency
from lakeconf.errors import CatalogError
from lakeconf.sql import qualified

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


def check_delete_files(reader: CatalogReader, deleted_from: Iterable[ReadDependency | None]) -> None:
    """Refuses to delete from a table if one of its data files has two live delete files, or is registered twice.

    DuckLake lets two concurrent deletes on one file commit. Commits of lakeconf prevent this; other writers do not. It
    deletes only some rows of a file that is registered twice.

    Args:
        reader: Reads the catalog.
        deleted_from: The tables; None for a table that the commit creates.

    Raises:
        CatalogError: A data file has two delete files, or is registered twice. The hint says how to rebuild the table.
    """
    tables = {dependency.table_id: dependency.table for dependency in deleted_from if dependency is not None}
    if not tables:
        return
    ids = ", ".join(map(str, sorted(tables)))
    with reader.transaction() as transaction:
        doubled = own_rows(
            transaction,
            "SELECT table_id, data_file_id FROM ducklake_delete_file "
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, data_file_id HAVING count(*) > 1",
            "table_id BIGINT, data_file_id BIGINT",
        )
        repeated = own_rows(
            transaction,
            "SELECT table_id, path FROM ducklake_data_file "
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, path, path_is_relative HAVING count(*) > 1 LIMIT 1",
            "table_id BIGINT, path VARCHAR",
        )
    if doubled:
        table_id, data_file_id = doubled[0]
        table = tables[table_id]
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


def rebuild_sql(reader: CatalogReader, table_id: int, table: str) -> str:
    """The statement that copies the rows of a damaged table that were not deleted to a new table.

    Args:
        reader: Reads the catalog.
        table_id: The id of the table.
        table: The full name of the table.
    """
    schema, name = split_name(table)
    return _REBUILD.format(
        rebuilt=qualified(reader.alias, schema, f"{name}_rebuilt"),
        table=qualified(reader.alias, schema, name),
        metadata=reader.metadata,
        table_id=table_id,
    )
