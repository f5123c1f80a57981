"""What a commit needs if its reply is lost: the files that DuckLake removes then, and proof that the commit succeeded.

If the reply to a commit is lost, DuckLake treats the commit as failed and removes the data and delete files that it
wrote, although the server may have applied the commit.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from collections.abc import Collection, Iterator, Mapping
from heapq import nlargest
from pathlib import Path

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import tables
from lakeconf.connection.connection import Connection
from lakeconf.engines.file_names import written_by_ducklake
from lakeconf.errors import CatalogError, CommitError, FileMissingError, LakeconfError, StorageError, exists
from lakeconf.logs import event_logger
from lakeconf.sql import files_sql, listing_sql, literal

_log = event_logger("commit")
_SLACK_SECONDS = 60.0
# The most bytes to read back from object storage: reading more takes too long for such a rare case.
_LARGEST_BYTES = 64 << 20
# The most files to keep open: the usual limit of a process is about a thousand.
_MOST_FILES = 256
# Select by id: files of compactions and of repeated deletes have the snapshot of the files that they replace.
_WRITTEN = """
    WITH earlier AS (SELECT coalesce(max(next_file_id), 0) AS files FROM ducklake_snapshot WHERE snapshot_id < ?)
    SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_data_file, earlier
    WHERE data_file_id >= files AND begin_snapshot <= ?
    UNION ALL SELECT table_id, path, path_is_relative, begin_snapshot FROM ducklake_delete_file, earlier
    WHERE delete_file_id >= files AND begin_snapshot <= ?
"""


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
                if not exists(path):
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
        rows = self._connection.rows(listing_sql(folder, f"{pattern}ducklake-{start}*"))
        listed = [str(path) for (path,) in rows]
        names = {path: path.rpartition("/")[2] for path in listed}
        new = [path for path, name in names.items() if name not in known and _is_new(name, period[0])]
        if not new:
            return
        sizes = dict(self._connection.rows(f"SELECT filename, size FROM {files_sql('read_blob', new)}"))
        free = _LARGEST_BYTES - sum(map(len, self._contents.values()))
        read: list[str] = []
        for path in sorted(new, key=os.path.basename, reverse=True):
            free -= sizes[path]
            if free < 0:
                break
            read.append(path)
        if read:
            source = files_sql("read_blob", read)
            self._contents.update(self._connection.rows(f"SELECT filename, content FROM {source}"))


def _is_new(name: str, since: float) -> bool:
    named_at = written_by_ducklake(name)
    return named_at is not None and named_at >= since


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


def find_commit(reader: CatalogReader, token: str, begun: int) -> int | None:
    """The snapshot of a commit that is not in progress; None if the catalog proves that the commit failed."""
    with reader.transaction() as transaction:
        commits = transaction.rows(
            "SELECT snapshot_id FROM ducklake_snapshot_changes "
            "WHERE snapshot_id > ? AND contains(commit_extra_info, ?)",
            [begun, token],
        )
        ((known, latest),) = transaction.rows(
            "SELECT count(*) FILTER (snapshot_id > ?), max(snapshot_id) FROM ducklake_snapshot", [begun]
        )
    if commits:
        return int(commits[0][0])
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
            return exists(os.path.realpath(path))  # a link to a file that was removed is no file
        except OSError as error:
            raise StorageError(f"{path} cannot be examined: {error.strerror}") from error
    try:
        return bool(connection.rows(f"SELECT size FROM {files_sql('read_blob', path)}"))
    except FileMissingError:
        return False
