"""The folder of a table that does not exist yet."""

from __future__ import annotations

from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import CatalogReader, repeated
from lakeconf.ducklake import visible_at


@repeated
def table_folder(reader: CatalogReader, schema: str, table: str, snapshot_id: int) -> str:
    """Returns the folder that DuckLake will use for a new table, if the names are valid folder names.

    Args:
        reader: The lake.
        schema: The schema of the table, which may be new as well.
        table: The name of the table.
        snapshot_id: The snapshot to read.
    """
    with reader.transaction() as transaction:
        found = transaction.rows(
            "SELECT path, path_is_relative FROM ducklake_schema "  # noqa: S608
            f"WHERE lower(schema_name) = lower($2) AND {visible_at()}",
            [snapshot_id, schema],
        )
        path, is_relative = found[0] if found else (f"{schema}/", True)
        return compose_path(transaction.data_path, path, is_relative=is_relative) + f"{table}/"
