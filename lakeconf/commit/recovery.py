"""Keeps the files of a commit until its outcome is known.

If the reply to a commit is lost, DuckLake treats the commit as failed and removes the data and delete files that it
wrote, although the server may have applied the commit.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from heapq import nlargest
from pathlib import Path

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.table_options import table_folder
from lakeconf.catalog.tables import joined_name, split_name, tables
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, CommitError, FileMissingError, LakeconfError, StorageError
from lakeconf.logs import EventLogger
from lakeconf.sql import files_sql, folded, listing_sql, literal, qualified

_log = EventLogger("commit")
# DuckLake names files with UUIDs of version 7, which start with the time in milliseconds.
_NAME = re.compile(r"ducklake-([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f-]{21}(-delete)?\.(parquet|puffin)")
_SLACK_SECONDS = 60.0
# The most bytes to read back from object storage: reading more takes too long for such a rare case.
_LARGEST_BYTES = 64 << 20
# The most files of a table to list in the folders of its partitions, which takes a request for each thousand.
_MOST_LISTED = 5000
# The most files to keep open: the usual limit of a process is about a thousand.
_MOST_FILES = 256


class KeptFiles:
    """The contents of a transaction's new files, kept until the outcome of its commit is known.

    Up to 256 local files are held open, so the operating system keeps their contents. Up to 64 MiB of files in object
    storage are read back.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._began, self._started = time.time(), time.monotonic()
        self._open: dict[str, int] = {}
        self._contents: dict[str, bytes] = {}

    def keep(self, folders: Mapping[str, str], known: Collection[str] = ()) -> None:
        """Keeps the files that DuckLake has written since the transaction began, by folder and pattern in a bucket."""
        try:
            for folder, pattern in folders.items():
                if "://" in folder:
                    self._read_back(folder, pattern, known)
                else:
                    new = _new_files(folder, self._period()[0])
                    # The transaction's own files are the newest; other writers may have created many.
                    for path in nlargest(_MOST_FILES - len(self._open), new, key=os.path.basename):
                        self._open[path] = os.open(path, os.O_RDONLY)
        except (LakeconfError, OSError) as error:
            # The files are only needed if the reply is lost, and a later check then reports missing ones.
            _log.warning("cannot keep the files of a commit until its reply: %s", type(error).__name__)

    def restore(self) -> None:
        """Restores files that were removed, and logs files that cannot be restored."""
        for path, descriptor in self._open.items():
            with _logged(path):
                if not os.path.lexists(path):
                    _write_back(path, descriptor)
                    _log.warning("restored %s, which was removed when the reply to its commit was lost", path)
        for path, content in self._contents.items():
            with _logged(path):
                # DuckDB only lists files if the path contains a pattern.
                if not self._connection.rows(listing_sql(path, "*")):
                    self._connection.execute(f"COPY (SELECT ?::BLOB) TO {literal(path)} (FORMAT blob)", [content])
                    _log.warning("restored %s, which was removed when the reply to its commit was lost", path)

    def close(self) -> None:
        """Releases the files."""
        descriptors, self._open, self._contents = list(self._open.values()), {}, {}
        for descriptor in descriptors:
            os.close(descriptor)

    def _period(self) -> tuple[float, float]:
        """The earliest and the latest time in names of new files, also if the clock was set during the transaction."""
        now, elapsed = time.time(), time.monotonic() - self._started
        return min(self._began, now - elapsed) - _SLACK_SECONDS, max(self._began + elapsed, now)

    def _read_back(self, folder: str, pattern: str, known: Collection[str]) -> None:
        # The common prefix of names from this period: the server lists few other files.
        period = self._period()
        times = [f"{round(seconds * 1000):012x}" for seconds in period]
        start = os.path.commonprefix(times)[:8]  # noqa: RUF071 - of names, not of folders
        found = self._connection.rows(listing_sql(folder, f"{pattern}ducklake-{start}*"))
        listed = [str(path) for (path,) in found]
        names = {path: path.rpartition("/")[2] for path in listed}
        new = [path for path, name in names.items() if name not in known and _is_new(name, period[0])]
        if not new:
            return
        sizes = dict(self._connection.rows(f"SELECT filename, size FROM {files_sql('read_blob', new)}"))
        free = _LARGEST_BYTES - sum(map(len, self._contents.values()))
        wanted: list[str] = []
        for path in sorted(new, key=os.path.basename, reverse=True):
            free -= sizes[path]
            if free < 0:
                break
            wanted.append(path)
        if wanted:
            source = files_sql("read_blob", wanted)
            self._contents.update(self._connection.rows(f"SELECT filename, content FROM {source}"))


def _is_new(name: str, since: float) -> bool:
    found = _NAME.fullmatch(name)
    return found is not None and int(found[1] + found[2], 16) >= since * 1000


def _new_files(folder: str, since: float) -> Iterator[str]:
    for parent, _, names in os.walk(folder):
        for name in names:
            if _is_new(name, since):
                yield os.path.join(parent, name)


def _write_back(path: str, descriptor: int) -> None:
    temporary = Path(f"{path}.{uuid.uuid4().hex}")
    try:
        with os.fdopen(os.dup(descriptor), "rb") as kept, temporary.open("wb") as file:
            kept.seek(0)
            shutil.copyfileobj(kept, file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def _logged(path: str) -> Iterator[None]:
    try:
        yield
    except (LakeconfError, OSError) as error:
        _log.error("cannot restore %s: %s", path, type(error).__name__)


# DuckDB settings for reading a lake and committing to it.
SETTINGS: Mapping[str, str | int | float] = {
    # DuckDB applies today's statistics to filters on older snapshots, which is wrong after files were rewritten.
    "disabled_optimizers": "statistics_propagation",
    # Retries of a commit that another commit overtook: 10 are too few for 8 writers. Pauses grow to 6 seconds.
    "ducklake_max_retry_count": 100,
    "ducklake_retry_wait_ms": 50,
    "ducklake_retry_backoff": 1.05,
}


class Committing(Enum):
    """What commits, if it is no server that can wait for commits in progress."""

    THIS_PROCESS = "this process"
    UNKNOWN = "unknown"


# Select by id: files of compactions and of repeated deletes have the snapshot of the files that they replace.
_WRITTEN = """
    WITH earlier AS (SELECT coalesce(max(next_file_id), 0) AS files FROM ducklake_snapshot WHERE snapshot_id < ?)
    SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_data_file, earlier
    WHERE data_file_id >= files AND begin_snapshot <= ?
    UNION ALL SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_delete_file, earlier
    WHERE delete_file_id >= files AND begin_snapshot <= ?
"""

_FOLDERS = """
    SELECT s.schema_name, t.table_name, s.path, s.path_is_relative, t.path, t.path_is_relative, t.table_id,
        EXISTS (SELECT 1 FROM ducklake_partition_info AS p WHERE p.table_id = t.table_id)
    FROM ducklake_table AS t JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
    WHERE t.end_snapshot IS NULL AND s.end_snapshot IS NULL
"""

_FILES = "SELECT count(*) FROM ducklake_data_file WHERE table_id = ?"

# Files and delete files have one series of ids. These are more than a busy lake commits in a minute or two.
_KNOWN = """
    WITH newest AS (SELECT max(next_file_id) - 1000 AS since FROM ducklake_snapshot)
    SELECT path FROM ducklake_data_file, newest WHERE data_file_id >= since
    UNION ALL SELECT path FROM ducklake_delete_file, newest WHERE delete_file_id >= since
"""


@dataclass(frozen=True)
class AttachedCatalog:
    """The catalog of an attached lake, for an attempt to commit; implements `committer.Catalog`."""

    alias: str
    writer: Connection
    reader: CatalogReader
    reconnect: Callable[[], Connection]  # opens a new connection with the lake attached
    # The statement that waits for commits in progress on a server, or what commits instead of a server.
    barrier: str | Committing
    token: str
    kept: KeptFiles = field(init=False)  # the files that DuckLake has written for the commit

    def __post_init__(self) -> None:
        object.__setattr__(self, "kept", KeptFiles(self.reader.connection))

    def begin(self) -> int:
        self.writer.execute("BEGIN")
        # From here on the transaction reads this snapshot; DuckLake itself detects later changes.
        ((begun,),) = self.writer.rows("FROM ducklake_current_snapshot(?)", [self.alias])
        return int(begun)

    def keep_written(self, tables: Collection[str], created: Collection[str], begun: int) -> None:
        if self.barrier is Committing.THIS_PROCESS or not tables:
            return  # no reply can be lost
        wanted = {folded(table): table for table in sorted(tables)}
        others = {folded(table) for table in created}
        folders: dict[str, str] = {}
        with self.reader.transaction() as transaction:
            for *names, schema, in_root, table, in_schema, table_id, partitioned in transaction.rows(_FOLDERS):
                name = folded(joined_name(*names))
                if name in others or wanted.pop(name, None) is None:
                    continue
                parent = compose_path(transaction.data_path, schema, is_relative=in_root)
                folder = compose_path(parent, table, is_relative=in_schema)
                if not (partitioned and "://" in folder):
                    folders[folder] = ""
                elif transaction.rows(_FILES, [table_id])[0][0] <= _MOST_LISTED:
                    folders[folder] = "**/"
            known = {str(path).rpartition("/")[2] for (path,) in transaction.rows(_KNOWN)}
        for parts in map(split_name, wanted.values()):
            folders |= self._folders_of(*parts) or {table_folder(self.reader, *parts, begun): "**/"}
        self.kept.keep(folders, known)

    def _folders_of(self, schema: str, table: str) -> dict[str, str]:
        """The folders of a table that this transaction creates; none if it renames it, or a column hides the paths."""
        named = "lower(schema_name) = lower(?) AND lower(table_name) = lower(?)"
        exists = f"SELECT 1 FROM duckdb_tables() WHERE database_name = ? AND {named}"
        if not self.writer.rows(exists, [self.alias, schema, table]):
            return {}
        rows = self.writer.rows(f"SELECT DISTINCT filename FROM {qualified(self.alias, schema, table)}")
        found = (re.fullmatch(r"(.*?/)((?:[^/]*=[^/]*/)*)([^/]+)", str(file)) for (file,) in rows)
        return {
            folder[1]: "**/" if folder[2] else ""
            for folder in found
            if folder is not None and _NAME.fullmatch(folder[3]) and folder[1].startswith(self.reader.data_path)
        }

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
            reader = self.reader.on(connection)
            if isinstance(self.barrier, str):
                await_commits(reader, self.barrier)
            found = find_commit(reader, self.token, begun)
        if found is None and self.barrier is Committing.UNKNOWN:
            raise CatalogError("the metadata backend cannot tell whether a commit is still in progress")
        return found

    def check_written(self, snapshot_id: int) -> None:
        with self.reconnect() as connection:
            check_written(self.reader.on(connection), snapshot_id)


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
    """The snapshot of a commit that is not in progress; None if the catalog proves that the commit failed."""
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
    """Waits until no commit is in progress on the catalog's server."""
    with reader.connection.cursor() as cursor:
        cursor.execute("BEGIN")
        try:
            cursor.execute(barrier)
        finally:
            with contextlib.suppress(LakeconfError):
                cursor.execute("ROLLBACK")


def check_written(reader: CatalogReader, snapshot_id: int) -> None:
    """Checks that every file that a snapshot added exists."""
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
        return bool(connection.rows(f"SELECT size FROM {files_sql('read_blob', path)}"))
    except FileMissingError:
        return False
