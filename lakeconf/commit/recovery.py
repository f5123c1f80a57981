"""Commits to an attached lake: what became of a commit whose reply was lost, and of its files.

DuckLake takes such a commit for failed, though the server may have applied it, and removes the files that it wrote for
it. `KeptFiles` puts them back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import compose_path, table_folder, tables
from lakeconf.commit.kept_files import KeptFiles
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, CommitError, FileMissingError, LakeconfError

# Settings of DuckDB with which a lake is read and committed.
SETTINGS: Mapping[str, str | int | float] = {
    # DuckDB answers filters in the past from the statistics of today, which is wrong once files were rewritten.
    "disabled_optimizers": "statistics_propagation",
    # Retries of a commit that another one overtook: ten are too few for eight writers. Pauses grow to six seconds.
    "ducklake_max_retry_count": 100,
    "ducklake_retry_wait_ms": 50,
    "ducklake_retry_backoff": 1.05,
}
# By their ids, as compactions and second deletes give the files that they write the snapshot of earlier ones.
_WRITTEN = """
    WITH earlier AS (SELECT coalesce(max(next_file_id), 0) AS files FROM ducklake_snapshot WHERE snapshot_id < ?)
    SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_data_file, earlier
    WHERE data_file_id >= files AND begin_snapshot <= ?
    UNION ALL SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_delete_file, earlier
    WHERE delete_file_id >= files AND begin_snapshot <= ?
"""


_FOLDERS = """
    SELECT lower(concat(s.schema_name, '.', t.table_name)), s.path, s.path_is_relative, t.path, t.path_is_relative
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL
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
        kept: The files that DuckLake has written for the commit.
    """

    alias: str
    writer: Connection
    reader: CatalogReader
    reconnect: Callable[[], Connection]
    barrier: str | None
    token: str
    kept: KeptFiles = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", KeptFiles(self.reader.connection))

    def begin(self) -> int:
        self.writer.execute("BEGIN")
        # From here on the transaction sees this snapshot; DuckLake itself finds what comes after it.
        ((begun,),) = self.writer.rows("FROM ducklake_current_snapshot(?)", [self.alias])
        return int(begun)

    def keep_written(self, tables: Collection[str], begun: int) -> None:
        if self.barrier == "" or not tables:
            return  # this process itself commits: no reply can be lost
        wanted = {table.lower() for table in tables}
        with self.reader.transaction() as transaction:
            found = {
                name: compose_path(
                    compose_path(transaction.data_path, schema, is_relative=schema_is_relative),
                    table,
                    is_relative=table_is_relative,
                )
                for name, schema, schema_is_relative, table, table_is_relative in transaction.rows(_FOLDERS)
                if name in wanted
            }
        new = [name.partition(".")[::2] for name in tables if name.lower() not in found]
        folders = (table_folder(self.reader, schema, table, begun) for schema, table in new)
        self.kept.keep([*found.values(), *folders])

    def restore_written(self) -> None:
        self.kept.restore()

    def release_written(self) -> None:
        self.kept.close()

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
        barrier: The statement that waits; see `CatalogServer.await_commits`.

    Raises:
        LakeconfError: The server does not answer, refuses, or a commit takes too long.
    """
    with reader.connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            cursor.execute(barrier)
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
    for table_id, path, is_relative, begin in written:
        table = infos.get(table_id)
        if table is None:
            continue
        full = compose_path(table.path, path, is_relative=is_relative)
        if not _exists(reader.connection, full):
            name = f"{table.schema_name}.{table.name}"
            raise CommitError(
                f"snapshot {snapshot_id} was committed, but its reply was lost: DuckLake took it for failed and "
                f"removed {full}, so that {name} cannot be read from snapshot {begin} on",
                hint=f"restore the file, as a bucket with versions can; or copy {name} from snapshot {begin - 1}, drop "
                "the table and create it again; or restore the catalog from a backup",
            )


def _exists(connection: Connection, path: str) -> bool:
    if "://" not in path:
        return Path(path).exists()
    try:
        return bool(connection.rows("SELECT size FROM read_blob(?)", [path]))
    except FileMissingError:
        return False
