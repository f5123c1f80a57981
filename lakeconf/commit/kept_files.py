"""Keeps the files of a commit that a lost reply would cost.

DuckLake takes a commit whose reply is lost for failed, and removes the data and delete files that it wrote for it,
though the server may have applied the commit.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import takewhile
from pathlib import Path

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError
from lakeconf.logs import EventLogger
from lakeconf.sql import literal

_log = EventLogger("commit")
# DuckLake names files by UUIDs of version 7, which begin with the time in milliseconds.
_NAME = re.compile(r"ducklake-([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f-]{21}(-delete)?\.(parquet|puffin)")
# The clock may have been set back meanwhile.
_SLACK_SECONDS = 60.0
# What is read back from object storage at most: more would cost more time than the rare loss is worth.
_LARGEST_BYTES = 64 << 20
# Files that are kept open at most: a process may open about a thousand.
_MOST_FILES = 256
_PATTERN = re.compile(r"[*?\[{\\]")


class KeptFiles:
    """What the new files of one transaction hold, until it is known what became of its commit.

    Up to 256 files on this machine are kept open: the system keeps what they hold. Up to 64 MiB of files in object
    storage are read back, those directly in the folder of the table: there may be too many folders of partitions.

    Args:
        connection: A connection that reaches the files.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._since = time.time()
        self._open: dict[str, int] = {}
        self._contents: dict[str, bytes] = {}

    def keep(self, folders: Iterable[str]) -> None:
        """Keeps the files that DuckLake has written since the transaction began.

        Args:
            folders: The folders of the tables that it has written to, each with a slash at its end.
        """
        try:
            for folder in folders:
                if "://" in folder:
                    self._read_back(folder)
                else:
                    new = _new_files(folder, self._since - _SLACK_SECONDS)
                    # The transaction's own files are the newest; other writers may have made many.
                    for path in nlargest(_MOST_FILES - len(self._open), new, key=os.path.basename):
                        self._open[path] = os.open(path, os.O_RDONLY)
        except (LakeconfError, OSError) as error:
            # The commit does not need them unless its reply is lost; then it is found that they are missing.
            _log.warning("files of a commit cannot be kept until its reply: %s", type(error).__name__)

    def restore(self) -> None:
        """Puts back files that were removed. What cannot be put back is logged."""
        for path, descriptor in self._open.items():
            with _logged(path):
                if not os.path.lexists(path):
                    _write_back(path, descriptor)
                    _log.warning("%s was removed when the reply to its commit was lost, and is restored", path)
        for path, content in self._contents.items():
            with _logged(path):
                # Without a pattern nothing is listed.
                if not self._connection.rows("SELECT 1 FROM glob(?)", [f"{path}*"]):
                    self._connection.execute(f"COPY (SELECT ?::BLOB) TO {literal(path)} (FORMAT blob)", [content])
                    _log.warning("%s was removed when the reply to its commit was lost, and is restored", path)

    def close(self) -> None:
        """Forgets the files."""
        descriptors, self._open, self._contents = list(self._open.values()), {}, {}
        for descriptor in descriptors:
            os.close(descriptor)

    def _read_back(self, folder: str) -> None:
        if _PATTERN.search(folder):
            return
        # What the names of this time have in common: the server lists few others.
        times = [f"{round(seconds * 1000):012x}" for seconds in (self._since - _SLACK_SECONDS, time.time())]
        pattern = f"{folder}ducklake-{_common_start(*times)[:8]}*"
        listed = [str(path) for (path,) in self._connection.rows("SELECT file FROM glob(?)", [pattern])]
        new = [path for path in listed if _is_new(path.rpartition("/")[2], self._since - _SLACK_SECONDS)]
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
        _log.error("%s cannot be restored: %s", path, type(error).__name__)
