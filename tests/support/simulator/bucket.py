"""A bucket in memory: complete files by path, as object storage keeps them."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb


@dataclass(frozen=True)
class File:
    """A file."""

    # Text; or the rows of a Parquet file, in order; or the deleted positions with their snapshots, None for the
    # snapshot of the delete file itself.
    content: Any
    written: float  # the time of the write
    write: int | None = None  # the write that the file belongs to, as the simulator counts them; None without one


@dataclass
class Bucket:
    """All files, and those that were lost because DuckLake removed the files of a commit whose reply was lost."""

    files: dict[str, File] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    def read(self, path: str) -> Any:
        """The content of a file."""
        if path not in self.files:
            raise duckdb.IOException(f"IO Error: unable to read {path!r}: HTTP 404 Not Found")
        return self.files[path].content

    def glob(self, pattern: str) -> list[str]:
        """The sorted paths that match a pattern of DuckDB."""
        one = pattern.replace("**/", "*")
        return sorted(path for path in self.files if fnmatch.fnmatchcase(path, one))

    def parquet_files(self, folder: str) -> Mapping[str, File]:
        """The Parquet files below a folder."""
        found = sorted(path for path in self.files if path.startswith(folder) and path.endswith(".parquet"))
        return {path: self.files[path] for path in found}

    def remove(self, paths: Sequence[str]) -> None:
        """Removes files; missing ones are ignored."""
        for path in paths:
            self.files.pop(path, None)
