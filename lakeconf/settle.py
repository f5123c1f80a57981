"""What became of the files of a commit whose reply was lost.

DuckLake takes such a commit for failed, though the server has applied it, and removes the files that it wrote for it.
"""

from __future__ import annotations

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import compose_path, tables
from lakeconf.connection import Connection
from lakeconf.errors import CommitError, FileMissingError

_WRITTEN = """
    SELECT table_id, path, path_is_relative FROM ducklake_data_file WHERE begin_snapshot = ?
    UNION ALL SELECT table_id, path, path_is_relative FROM ducklake_delete_file WHERE begin_snapshot = ?
"""


def check_written(reader: CatalogReader, snapshot_id: int) -> None:
    """Makes sure that every file which a snapshot has added is there.

    Args:
        reader: A connection of its own, made after the reply was lost.
        snapshot_id: The snapshot that was committed all the same.

    Raises:
        CommitError: A file is gone, so that its table cannot be read at this snapshot; says how to repair it.
    """
    infos = {info.table_id: info for info in tables(reader, snapshot_id)}
    with reader.transaction() as transaction:
        written = transaction.rows(_WRITTEN, [snapshot_id, snapshot_id])
    for table_id, path, is_relative in written:
        table = infos[table_id]
        full = compose_path(table.path, path, is_relative=is_relative)
        if not _exists(reader.connection, full):
            name = f"{table.schema_name}.{table.name}"
            raise CommitError(
                f"snapshot {snapshot_id} was committed, but its reply was lost: DuckLake took it for failed and "
                f"removed {full}, so that {name} cannot be read from this snapshot on",
                hint=f"put the file back, as a bucket with versions can; or copy {name} from snapshot "
                f"{snapshot_id - 1}, drop the table and make it anew",
            )


def _exists(connection: Connection, path: str) -> bool:
    try:
        # Of a local file that is gone there is no row, of one in a bucket an error.
        return bool(connection.rows("SELECT size FROM read_blob(?)", [path]))
    except FileMissingError:
        return False
