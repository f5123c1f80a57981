"""Commits to an attached lake: what became of a commit whose reply was lost, and of its files.

DuckLake takes such a commit for failed, though the server has applied it, and removes the files that it wrote for it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import compose_path, tables
from lakeconf.connection import Connection
from lakeconf.errors import CatalogError, CommitError, FileMissingError, LakeconfError
from lakeconf.sql import literal

# Settings of DuckDB with which a lake is read and committed.
SETTINGS: Mapping[str, str | int | float] = {
    # DuckDB answers filters in the past from the statistics of today, which is wrong once files were rewritten.
    "disabled_optimizers": "statistics_propagation",
    # Retries of a commit that another one overtook: ten are too few for eight writers. Pauses grow to six seconds.
    "ducklake_max_retry_count": 100,
    "ducklake_retry_wait_ms": 50,
    "ducklake_retry_backoff": 1.05,
}
_WRITTEN = """
    SELECT table_id, path, path_is_relative FROM ducklake_data_file WHERE begin_snapshot = ?
    UNION ALL SELECT table_id, path, path_is_relative FROM ducklake_delete_file
    WHERE begin_snapshot = ? OR partial_max = ?
"""


@dataclass(frozen=True)
class AttachedCatalog:
    """The catalog of an attached lake, as an attempt to commit uses it; see `committer.Catalog`.

    Attributes:
        alias: The name that the lake is attached as.
        writer: The connection that commits.
        reader: The lake on another connection.
        reconnect: Opens a new connection with the lake attached.
        barrier: The statement that waits for commits under way on a server; "" where commits are carried out by this
            process; None where nothing can wait for them.
        token: The name of the write.
    """

    alias: str
    writer: Connection
    reader: CatalogReader
    reconnect: Callable[[], Connection]
    barrier: str | None
    token: str

    def begin(self) -> int:
        self.writer.execute("BEGIN")
        # From here on the transaction sees this snapshot; DuckLake itself finds what comes after it.
        ((begun,),) = self.writer.rows("FROM ducklake_current_snapshot(?)", [self.alias])
        return int(begun)

    def commit(self) -> None:
        self.writer.execute("COMMIT")

    def roll_back(self) -> None:
        with contextlib.suppress(LakeconfError):
            self.writer.execute("ROLLBACK")

    def last_committed(self, begun: int) -> int:
        # DuckLake keeps the number from the moment at which the server answered COMMIT, so that no server is asked
        # and the number is exact even if the server is lost then. A commit that changes nothing makes no snapshot.
        ((last,),) = self.writer.rows("FROM ducklake_last_committed_snapshot(?)", [self.alias])
        return max(begun, int(last or 0))

    def find(self, begun: int, *, answered: bool) -> int | None:
        if answered:
            return find_commit(self.reader, self.token, begun)
        with self.reconnect() as connection:
            reader = CatalogReader(connection, self.alias, self.reader.metadata_schema)
            if self.barrier:
                await_commits(reader, self.barrier)
            found = find_commit(reader, self.token, begun)
        if found is None and self.barrier is None:
            raise CatalogError("the metadata backend cannot say whether a commit is still under way")
        return found

    def check_written(self, snapshot_id: int) -> None:
        with self.reconnect() as connection:
            check_written(CatalogReader(connection, self.alias, self.reader.metadata_schema), snapshot_id)


@contextlib.contextmanager
def without_retries(writer: Connection) -> Iterator[None]:
    """Keeps DuckLake from trying again by itself when another commit came first."""
    setting = "ducklake_max_retry_count"
    ((retries,),) = writer.rows(f"SELECT system.main.current_setting('{setting}')")
    writer.execute(f"SET {setting} = 0")
    try:
        yield
    finally:
        writer.execute(f"SET {setting} = {retries}")


def find_commit(reader: CatalogReader, token: str, begun: int) -> int | None:
    """The snapshot of a commit; None where the catalog proves that there is none.

    Args:
        reader: The lake. No commit with this token may still be under way.
        token: The name of the write.
        begun: The snapshot that the commit's transaction saw.

    Raises:
        CatalogError: The catalog does not know enough: snapshots after `begun` have expired, or it is an older copy.
    """
    with reader.transaction() as transaction:
        found = transaction.rows(
            "SELECT snapshot_id FROM ducklake_snapshot_changes "
            "WHERE snapshot_id > ? AND contains(commit_extra_info, ?)",
            [begun, token],
        )
        ((known, latest),) = transaction.rows(
            "SELECT count(*) FILTER (snapshot_id > ?), max(snapshot_id) FROM ducklake_snapshot", [begun]
        )
    if found:
        return int(found[0][0])
    if latest is None or latest < begun or known < latest - begun:
        raise CatalogError(f"the catalog does not have all snapshots after {begun}, so the commit may have been in it")
    return None


def await_commits(reader: CatalogReader, barrier: str) -> None:
    """Waits until no commit is under way on the catalog's server.

    Args:
        reader: The lake.
        barrier: The statement that waits; see `MetadataBackend.barrier_sql`.

    Raises:
        LakeconfError: The server does not answer, refuses, or a commit takes too long.
    """
    with reader.connection.cursor() as cursor:
        cursor.execute(f"USE {reader.metadata}")
        ((database,),) = cursor.rows("SELECT current_database()")
        cursor.execute("BEGIN")
        try:
            cursor.execute(f"CALL postgres_execute({literal(database)}, {literal(barrier)})")
        finally:
            with contextlib.suppress(LakeconfError):
                cursor.execute("ROLLBACK")


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
        written = transaction.rows(_WRITTEN, [snapshot_id] * 3)
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
