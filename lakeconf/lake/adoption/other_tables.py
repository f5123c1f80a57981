"""Tables and lakes whose files are no plain Parquet files: their logs say which of the rows are live."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from posixpath import basename, dirname

from lakeconf.ducklake import MARKER
from lakeconf.errors import UnsupportedError
from lakeconf.lake.adoption.folder import Folder, is_hidden
from lakeconf.sql import literal

LOG = "_delta_log"
METADATA = "metadata"
ENDING = ".metadata.json"
_LOAD = "load the rows with the tool of the table instead"
# For each name in the folder of a table: what the table is, and what to do.
_MARKS = {
    LOG: ("a Delta table", "adopt the folder of the Delta table itself"),
    METADATA: ("an Iceberg table", "adopt the metadata file of the Iceberg table itself"),
    ".hoodie": ("a Hudi table", _LOAD),
    "_spark_metadata": ("the output of a stream of Spark", _LOAD),
    MARKER: ("another lake", "copy its tables: lakeconf copy; or load the rows"),
}


def check_plain(folder: Folder) -> None:
    """Rejects files of a table or of another lake: some of them may have rows that it has removed or replaced."""
    for parent in _parents(folder.root):
        for name, (kind, hint) in _MARKS.items():
            if _is_marked(Folder(folder.connection, parent), name):
                raise UnsupportedError(
                    f"{folder.root} has files of {kind} in {parent}, and only its own log knows which rows are live",
                    hint=hint,
                )
    below = _mark_below(folder)
    if below is not None:
        kind, hint = _MARKS[METADATA if below.endswith(ENDING) else basename(below)]
        raise UnsupportedError(
            f"{folder.root} contains files of {kind}, and only its own log knows which rows are live: {below}",
            hint=hint,
        )


def _parents(root: str) -> list[str]:
    """The folder and all folders that contain it; not the root of the file system, which is no table."""
    scheme = re.match(r"[a-z0-9]+://", root)
    start = scheme.end() if scheme else 1
    return [root[: match.end()] for match in re.compile("/").finditer(root, start)]


def _is_marked(folder: Folder, name: str) -> bool:
    if name == METADATA:
        return _has_metadata(folder)
    return folder.exists(folder.root + name) if name == MARKER else folder.has(name)


def _has_metadata(folder: Folder) -> bool:
    """True if a folder has the metadata files of an Iceberg table."""
    if "://" in folder.root:
        pattern = literal(f"{glob.escape(folder.root)}{METADATA}/*{ENDING}")
        return bool(folder.connection.rows(f"SELECT file FROM glob({pattern}) LIMIT 1"))
    path = f"{folder.root}{METADATA}"
    return os.path.isdir(path) and any(name.endswith(ENDING) for name in os.listdir(path))


def _mark_below(folder: Folder) -> str | None:
    """The path of a mark below a folder."""
    return next((path for path in _entries(folder) if _is_mark(path)), None)


def _is_mark(path: str) -> bool:
    name = basename(path)
    is_metadata = name.endswith(ENDING) and basename(dirname(path)) == METADATA
    return is_metadata or (name in _MARKS and name != METADATA)


def _entries(folder: Folder) -> Iterator[str]:
    """The paths of the files and folders below a folder, without what is in hidden folders: that is not adopted."""
    if "://" not in folder.root:
        for place, folders, files in os.walk(folder.root):
            yield from (f"{place.rstrip('/')}/{name}" for name in (*folders, *files))
            folders[:] = [name for name in folders if not is_hidden(name)]
        return
    for (path,) in folder.connection.rows(f"SELECT file FROM glob({literal(glob.escape(folder.root) + '**')})"):
        parts = path.removeprefix(folder.root).split("/")
        for number, name in enumerate(parts, start=1):
            yield folder.root + "/".join(parts[:number])
            if is_hidden(name):
                break
