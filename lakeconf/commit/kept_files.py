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
from collections.abc import Collection, Iterable, Iterator
from heapq import nlargest
from itertools import takewhile
from pathlib import Path

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.logs import EventLogger
from lakeconf.sql import literal

_log = EventLogger("commit")
# DuckLake names files with UUIDs of version 7, which start with the time in milliseconds.
_NAME = re.compile(r"ducklake-([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f-]{21}(-delete)?\.(parquet|puffin)")
_SLACK_SECONDS = 60.0
# The most bytes to read back from object storage: reading more takes too long for such a rare case.
_LARGEST_BYTES = 64 << 20
# The most files to keep open: the usual limit of a process is about a thousand.
_MOST_FILES = 256
_PATTERN = re.compile(r"[*?\[{\\]")


class KeptFiles:
    """The contents of a transaction's new files, kept until the outcome of its commit is known.

    Up to 256 local files are held open, so the operating system keeps their contents. Up to 64 MiB of files in object
    storage are read back, but only files directly in a table's folder: there may be too many partition folders.

    Args:
        connection: A connection that can access the files.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._began, self._started = time.time(), time.monotonic()
        self._open: dict[str, int] = {}
        self._contents: dict[str, bytes] = {}

    def keep(self, folders: Iterable[str], known: Collection[str] = ()) -> None:
        """Keeps the files that DuckLake has written since the transaction began.

        Args:
            folders: The folders of the tables that DuckLake has written to, each with a trailing slash.
            known: The names of new files that other commits have written; reading them back would be a waste.
        """
        try:
            for folder in folders:
                if "://" in folder:
                    self._read_back(folder, known)
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
                if not self._connection.rows("SELECT 1 FROM glob(?)", [f"{path}*"]):
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

    def _read_back(self, folder: str, known: Collection[str]) -> None:
        if _PATTERN.search(folder):
            return
        # The common prefix of names from this period: the server lists few other files.
        period = self._period()
        times = [f"{round(seconds * 1000):012x}" for seconds in period]
        pattern = f"{folder}ducklake-{_common_start(*times)[:8]}*"
        listed = [str(path) for (path,) in self._connection.rows("SELECT file FROM glob(?)", [pattern])]
        names = {path: path.rpartition("/")[2] for path in listed}
        new = [path for path, name in names.items() if name not in known and _is_new(name, period[0])]
        if not new:
            return
        sizes = dict(self._connection.rows(f"SELECT filename, size FROM read_blob({_list(new)})"))
        free = _LARGEST_BYTES - sum(map(len, self._contents.values()))
        wanted: list[str] = []
        for path in sorted(new, key=os.path.basename, reverse=True):
            free -= sizes[path]
            if free < 0:
                break
            wanted.append(path)
        if wanted:
            self._contents.update(self._connection.rows(f"SELECT filename, content FROM read_blob({_list(wanted)})"))


def _list(paths: Iterable[str]) -> str:
    return f"[{', '.join(map(literal, paths))}]"


def _common_start(one: str, other: str) -> str:
    equal = takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=True))
    return "".join(character for character, _ in equal)


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
