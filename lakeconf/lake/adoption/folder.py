"""The files of a folder outside the lake: which there are, their states and their content."""

from __future__ import annotations

import glob
import os
import re
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from lakeconf.catalog.admission import canonical, compose_path
from lakeconf.catalog.data_file import NULL_VALUE
from lakeconf.connection.connection import Connection
from lakeconf.errors import CatalogError, FileMissingError, SchemaError, StorageError, UnsupportedError, listed
from lakeconf.lake.run_journal import FileState
from lakeconf.sql import URL_ENDS, files_sql, literal

_SCHEMES = ("s3://", "s3a://", "s3n://", "gcs://", "gs://", "r2://")
_HINT = "adopt a folder in the file system, or s3://BUCKET/FOLDER/ on the server of the store"
_SHOWN = 3


@dataclass(frozen=True)
class Folder:
    """A folder outside the lake. Nothing is read that is not below it.

    Args:
        connection: Has the secrets of the lake.
        root: The folder, with a trailing slash; without symbolic links, if it is local.
    """

    connection: Connection
    root: str

    @classmethod
    def of(cls, connection: Connection, path: str, data_path: str) -> Folder:
        """A folder that neither is in the data path of the lake nor contains it."""
        if not path:
            raise StorageError(f"{path!r} is not the path of a folder", hint=_HINT)
        if "://" in path:
            if not path.startswith(_SCHEMES):
                raise UnsupportedError(
                    f"files of {path} cannot be adopted: the catalog admits no such paths", hint=_HINT
                )
            root = spelled(path.rstrip("/") + "/", data_path)
        else:
            root = os.path.realpath(path).rstrip("/") + "/"
            if not os.path.isdir(root):
                raise FileMissingError(f"the folder {root} does not exist", hint="check the path")
        own = data_path if "://" in data_path else os.path.realpath(data_path).rstrip("/") + "/"
        if root.startswith(own) or own.startswith(root):
            raise StorageError(
                f"{root} and the data path {own} of the lake overlap: cleanup would take the files for its own",
                hint="adopt a folder outside the data path",
            )
        folder = cls(connection, root)
        folder.admit(root)
        return folder

    def admit(self, path: str) -> str:
        """A path below the folder that a catalog may name."""
        try:
            if not path.startswith(self.root) or re.search(r"[\x00-\x1f\x7f]", path):
                raise CatalogError(path)
            path.encode()
            return compose_path("", path, is_relative=False)
        except (CatalogError, UnicodeError) as error:
            raise StorageError(
                f"the path {path!r} is not one that a lake can name, or not below {self.root}",
                hint="rename the file: nothing outside the folder is read",
            ) from error

    def paths(self) -> list[str]:
        """The paths of all files but hidden ones, sorted."""
        return sorted(map(self.admit, self._remote() if "://" in self.root else self._local(self.root)))

    def direct_paths(self) -> list[str]:
        """The paths of all files directly in the folder, sorted."""
        if "://" in self.root:
            rows = self.connection.rows(f"SELECT file FROM glob({literal(glob.escape(self.root) + '*')})")
            return sorted(self.admit(str(path)) for (path,) in rows)
        return sorted(
            self.admit(self.root + name) for name in os.listdir(self.root) if os.path.isfile(self.root + name)
        )

    def _remote(self) -> Iterator[str]:
        for (path,) in self.connection.rows(f"SELECT file FROM glob({literal(glob.escape(self.root) + '**')})"):
            if re.search(URL_ENDS, path.removeprefix(self.root)):
                raise StorageError(f"{path!r} has a character that ends the path of a URL", hint="rename the object")
            if not path.endswith("/") and not any(map(is_hidden, path.removeprefix(self.root).split("/"))):
                yield path

    def _local(self, folder: str) -> Iterator[str]:
        with os.scandir(folder) as entries:
            visible = [entry for entry in entries if not is_hidden(entry.name)]
        for entry in visible:
            if entry.is_symlink() or not (entry.is_file() or entry.is_dir()):
                hint = "put the file in its place: a link can lead elsewhere"
                raise StorageError(f"{entry.path} is a link or no plain file", hint=hint)
            if entry.is_dir():
                yield from self._local(f"{entry.path}/")
            else:
                yield entry.path

    def has(self, name: str) -> bool:
        """True if there is a file or a folder of this name in the folder."""
        if "://" not in self.root:
            return os.path.lexists(self.root + name)
        pattern = literal(f"{glob.escape(self.root)}{name}/**")
        return bool(self.connection.rows(f"SELECT file FROM glob({pattern}) LIMIT 1"))

    def exists(self, path: str) -> bool:
        """True if a file exists, which need not be in the folder; a local one must not be behind a link."""
        if "://" not in path:
            return os.path.lexists(path) and os.path.realpath(path) == path
        # DuckDB looks only if there is a pattern.
        sql = f"SELECT file FROM glob({literal(glob.escape(path) + '*')}) WHERE file = {literal(path)}"
        return bool(self.connection.rows(sql))

    def states(self, paths: Sequence[str]) -> dict[str, FileState]:
        """The sizes and times of files.

        Raises:
            FileMissingError: One of them does not exist.
            StorageError: One of them is a link, or below one.
        """
        for path in paths:
            self.admit(path)
        if "://" not in self.root:
            return {path: self._state(path) for path in paths}
        if not paths:
            return {}
        # Without their content, DuckDB only asks for their sizes.
        sql = f"SELECT filename, size, epoch_us(last_modified) FROM {files_sql('read_blob', paths)}"
        return {str(path): FileState(size, modified) for path, size, modified in self.connection.rows(sql)}

    def _state(self, path: str) -> FileState:
        try:
            status = os.lstat(path)
        except OSError as error:
            raise FileMissingError(
                f"the file {path} cannot be read: {error.strerror}",
                hint="restore it",
            ) from error
        if not stat.S_ISREG(status.st_mode) or os.path.realpath(path) != path:
            raise StorageError(f"{path} is a link or no plain file", hint="put the file in its place")
        return FileState(status.st_size, status.st_mtime_ns // 1000)

    def content(self, path: str) -> bytes:
        """The content of a file, as the connection of the lake reads it: no other library gets its secrets."""
        self.admit(path)
        if "://" not in self.root:
            self._state(path)
        rows = self.connection.rows(f"SELECT content FROM {files_sql('read_blob', path)}")
        if not rows:
            raise FileMissingError(f"the file {path} does not exist", hint="restore it")
        ((content,),) = rows
        return bytes(content)


def spelled(path: str, like: str) -> str:
    """A path or URI in the form in which those of one file are equal, with the scheme of `like` if that is the same."""
    own, scheme = like.partition("://")[0], path.partition("://")[0]
    if scheme == path:
        return path
    same = canonical(f"{own}://") == canonical(f"{scheme}://")
    return own + path.removeprefix(scheme) if same else canonical(path)


def path_values(root: str, path: str) -> dict[str, str | None]:
    """The values of columns in the names of the folders below `root` that contain a file."""
    values: dict[str, str | None] = {}
    for part in path.removeprefix(root).split("/")[:-1]:
        name, equals, text = part.partition("=")
        if not equals:
            continue
        if name in values:
            raise SchemaError(f"{path} has two folders for the column {name!r}", hint="move the file")
        values[unquote(name)] = None if text == NULL_VALUE else unquote(text)
    return values


def check_parquet_names(root: str, paths: Sequence[str]) -> None:
    """Rejects a folder with other files than Parquet files: perhaps these have rows of the table."""
    others = [path.removeprefix(root) for path in paths if not path.lower().endswith((".parquet", ".parq"))]
    if others:
        raise StorageError(
            f"{root} has files that are not named as Parquet files: {listed(others, _SHOWN)}",
            hint="move them elsewhere, or begin their names with _ if they have no rows",
        )
    if not paths:
        raise FileMissingError(f"{root} has no Parquet files", hint="check the path")


def is_hidden(name: str) -> bool:
    """True if a file or a folder of this name is skipped."""
    # Spark and Hive skip these, too: marks of jobs, temporary folders, checksums. But `_day=1` is a partition.
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
