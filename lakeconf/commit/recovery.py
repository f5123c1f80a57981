"""Commits to an attached lake, and checks a commit and its files after its reply was lost.

DuckLake treats such a commit as failed and removes the files that it wrote, although the server may have applied the
commit. `KeptFiles` restores them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table import tables
from lakeconf.catalog.table_folder import table_folder
from lakeconf.catalog.table_name import joined_name, split_name
from lakeconf.commit.committing import Committing
from lakeconf.commit.kept_files import KeptFiles
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, CommitError, FileMissingError, LakeconfError, StorageError
from lakeconf.sql import folded, literal

# Select by id: files of compactions and of repeated deletes have the snapshot of the files that they replace.
_WRITTEN = """
    WITH earlier AS (SELECT coalesce(max(next_file_id), 0) AS files FROM ducklake_snapshot WHERE snapshot_id < ?)
    SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_data_file, earlier
    WHERE data_file_id >= files AND begin_snapshot <= ?
    UNION ALL SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_delete_file, earlier
    WHERE delete_file_id >= files AND begin_snapshot <= ?
"""


_FOLDERS = """
    SELECT s.schema_name, t.table_name, s.path, s.path_is_relative, t.path, t.path_is_relative
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL
"""


# Files and delete files have one series of ids. These are more than a busy lake commits in a minute or two.
_KNOWN = """
    WITH newest AS (SELECT max(next_file_id) - 1000 AS since FROM ducklake_snapshot)
    SELECT path FROM ducklake_data_file, newest WHERE data_file_id >= since
    UNION ALL SELECT path FROM ducklake_delete_file, newest WHERE delete_file_id >= since
"""


@dataclass(frozen=True)
class AttachedCatalog:
    """The catalog of an attached lake, for an attempt to commit; implements `committer.Catalog`.

    Attributes:
        alias: The alias of the lake.
        writer: The connection that commits.
        reader: Reads the catalog on another connection.
        reconnect: Opens a new connection with the lake attached.
        barrier: The statement that waits for commits in progress on a server, or what commits instead of a server.
        token: The id of the write.
        kept: The files that DuckLake has written for the commit.
    """

    alias: str
    writer: Connection
    reader: CatalogReader
    reconnect: Callable[[], Connection]
    barrier: str | Committing
    token: str
    kept: KeptFiles = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", KeptFiles(self.reader.connection))

    def begin(self) -> int:
        self.writer.execute("BEGIN")
        # From here on the transaction reads this snapshot; DuckLake itself detects later changes.
        ((begun,),) = self.writer.rows("FROM ducklake_current_snapshot(?)", [self.alias])
        return int(begun)

    def keep_written(self, tables: Collection[str], begun: int) -> None:
        if self.barrier is Committing.THIS_PROCESS or not tables:
            return  # no reply can be lost
        wanted = {folded(table): table for table in sorted(tables)}
        with self.reader.transaction() as transaction:
            folders = {}
            for *name, schema, schema_is_relative, table, table_is_relative in transaction.rows(_FOLDERS):
                parent = compose_path(transaction.data_path, schema, is_relative=schema_is_relative)
                folders[folded(joined_name(*name))] = compose_path(parent, table, is_relative=table_is_relative)
            known = {str(path).rpartition("/")[2] for (path,) in transaction.rows(_KNOWN)}
        new = {name: split_name(table) for name, table in wanted.items() if name not in folders}
        folders |= {name: table_folder(self.reader, *parts, begun) for name, parts in new.items()}
        self.kept.keep([folders[name] for name in wanted], known)

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
        # DuckLake stores the number when the server answers COMMIT, so this needs no server, and the number is exact
        # even if the server is lost afterwards. A commit without changes creates no snapshot.
        ((last,),) = self.writer.rows("FROM ducklake_last_committed_snapshot(?)", [self.alias])
        return max(begun, int(last or 0))

    def find(self, begun: int, *, answered: bool) -> int | None:
        if answered:
            return find_commit(self.reader, self.token, begun)
        with self.reconnect() as connection:
            reader = CatalogReader(connection, self.alias, self.reader.metadata_schema)
            if isinstance(self.barrier, str):
                await_commits(reader, self.barrier)
            found = find_commit(reader, self.token, begun)
        if found is None and self.barrier is Committing.UNKNOWN:
            raise CatalogError("the metadata backend cannot tell whether a commit is still in progress")
        return found

    def check_written(self, snapshot_id: int) -> None:
        with self.reconnect() as connection:
            check_written(CatalogReader(connection, self.alias, self.reader.metadata_schema), snapshot_id)


@contextlib.contextmanager
def without_retries(writer: Connection) -> Iterator[None]:
    """Disables DuckLake's own retries of a commit that another commit overtook."""
    setting = "ducklake_max_retry_count"
    ((retries,),) = writer.rows(f"SELECT system.main.current_setting('{setting}')")
    writer.execute(f"SET {setting} = 0")
    try:
        yield
    finally:
        writer.execute(f"SET {setting} = {retries}")


@contextlib.contextmanager
def changed(writer: Connection, settings: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of the DuckDB instance that otherwise have their defaults, inside a `with` block.

    The caller holds the session's writer lock.
    """
    try:
        for name, value in settings.items():
            writer.execute(f"SET {name} = {literal(value)}")
        yield
    finally:
        for name in settings:
            writer.execute(f"RESET {name}")


def find_commit(reader: CatalogReader, token: str, begun: int) -> int | None:
    """The snapshot of a commit; None if the catalog proves that the commit failed.

    Args:
        reader: Reads the catalog. No commit with this token may still be in progress.
        token: The id of the write.
        begun: The snapshot that the commit's transaction read.

    Raises:
        CatalogError: The catalog proves nothing: snapshots after `begun` have expired, or it is an older copy.
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
        raise CatalogError(f"the catalog lacks snapshots after {begun}, so the commit may have been in it")
    return None


def await_commits(reader: CatalogReader, barrier: str) -> None:
    """Waits until no commit is in progress on the catalog's server.

    Args:
        reader: Reads the catalog.
        barrier: The statement that waits; see `CatalogServer.await_commits`.

    Raises:
        LakeconfError: The server does not answer or refuses, or a commit takes too long.
    """
    with reader.connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            cursor.execute(barrier)
        finally:
            with contextlib.suppress(LakeconfError):
                cursor.execute("ROLLBACK")


def check_written(reader: CatalogReader, snapshot_id: int) -> None:
    """Checks that every file that a snapshot added exists.

    Args:
        reader: Reads the catalog on a new connection, opened after the reply was lost.
        snapshot_id: The snapshot that was committed although its reply was lost.

    Raises:
        CommitError: A file is missing, so the table cannot be read at this snapshot. The hint says how to repair it.
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
            name = table.full_name
            raise CommitError(
                f"snapshot {snapshot_id} was committed, but its reply was lost. DuckLake treated it as failed and "
                f"removed {full}, so {name} cannot be read from snapshot {begin} on",
                hint=f"restore the file, such as from a versioned bucket; or copy {name} from snapshot {begin - 1}, "
                "drop the table and create it again; or restore the catalog from a backup",
            )


def _exists(connection: Connection, path: str) -> bool:
    if "://" not in path:
        try:
            return Path(path).exists()
        except OSError as error:
            raise StorageError(f"{path} cannot be examined: {error.strerror}") from error
    try:
        return bool(connection.rows("SELECT size FROM read_blob(?)", [path]))
    except FileMissingError:
        return False
