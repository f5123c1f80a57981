"""Data files with two live delete files: a damage that DuckLake lets happen, and how to repair it."""

from __future__ import annotations

from collections.abc import Iterable

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import split_name
from lakeconf.commit.conflicts import Reliance
from lakeconf.errors import CatalogError
from lakeconf.sql import identifier

# DuckDB reads such a data file once for each delete file. A row that no delete has taken is there each time, so the
# number of its copies tells it from a row that only one of them has taken.
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


def check_delete_files(reader: CatalogReader, deleted_from: Iterable[Reliance | None]) -> None:
    """Refuses to delete from a table of which a data file has two live delete files: it would get a third one.

    DuckLake lets two deletes on one file both commit. Commits of lakeconf cannot do it to each other; writers other
    than lakeconf can.

    Args:
        reader: The lake.
        deleted_from: The tables; None for one that the commit makes.

    Raises:
        CatalogError: There is one; says how to rebuild the table.
    """
    tables = {relied.table_id: relied.table for relied in deleted_from if relied is not None}
    if not tables:
        return
    ids = ", ".join(map(str, sorted(tables)))
    with reader.transaction() as transaction:
        doubled = transaction.rows(
            "SELECT table_id, data_file_id FROM ducklake_delete_file "
            f"WHERE end_snapshot IS NULL AND table_id IN ({ids}) "
            "GROUP BY table_id, data_file_id HAVING count(*) > 1"
        )
    if doubled:
        table_id, data_file_id = doubled[0]
        table = tables[table_id]
        raise CatalogError(
            f"two writers have deleted from {table} at the same moment: the data file {data_file_id} has two delete "
            "files, and deleted rows are seen again, so nothing was written",
            hint="rebuild the table with DuckDB, compare, then drop the damaged one and rename the new one:\n"
            + rebuild_sql(reader, table_id, table),
        )


def rebuild_sql(reader: CatalogReader, table_id: int, table: str) -> str:
    """The statement that makes a copy of a damaged table with the rows that no delete has taken.

    Args:
        reader: The lake.
        table_id: The table.
        table: Its full name.
    """
    schema, name = split_name(table)
    quoted = f"{identifier(reader.alias)}.{identifier(schema)}"
    return _REBUILD.format(
        rebuilt=f"{quoted}.{identifier(f'{name}_rebuilt')}",
        table=f"{quoted}.{identifier(name)}",
        metadata=reader.metadata,
        table_id=table_id,
    )
