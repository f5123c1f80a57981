"""The names of the files and folders that lakeconf and DuckDB write below the folder of a table."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lakeconf.catalog.admission import canonical
from lakeconf.catalog.tables import TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError, StorageError
from lakeconf.sql import files_sql, literal

PREFIX = "lakeconf-"
# A path of a staged file below the folder of a table.
_STAGED_FILE = re.compile(rf"{PREFIX}[0-9a-f]+/.+\.parquet|(?:[^/]*=[^/]*/)+{PREFIX}[0-9a-f]+-\d+\.parquet", re.DOTALL)
_PLACED = re.compile(rf"(?P<table>.*?/)(?:[^/]*=[^/]*/)+(?P<write>{PREFIX}[0-9a-f]+)-\d+\.parquet", re.DOTALL)
# Below the folder of a table: a staging folder with its manifest, and what is in it.
STAGED_NAME = re.compile(rf"(?P<folder>{PREFIX}[0-9a-f]+)(?:/.*|\.parquet)")
_STAGING_FOLDER = re.compile(rf"{PREFIX}[0-9a-f]+")
_BY_DUCKDB = re.compile(r"(?:[^/]*=[^/]*/)*ducklake-[0-9a-f-]{36}(?:-delete)?\.parquet")
_REGISTERED = re.compile(rf"(?:[^/]*=[^/]*/)*{PREFIX}[0-9a-f]+[^/]*\.parquet")
# DuckLake names files with UUIDs of version 7, which start with the time in milliseconds.
_TIMED = re.compile(r"ducklake-([0-9a-f]{8})-([0-9a-f]{4})-7[0-9a-f-]{21}(-delete)?\.(parquet|puffin)")


@dataclass(frozen=True)
class OwnFiles:
    """The files that belong to a lake: those below its data path, and in the folder of adopted files that it owns."""

    data_path: str
    adopted: str | None = None  # with a trailing slash

    def __contains__(self, path: str) -> bool:
        return real_path(path).startswith(tuple(self.roots())) and ".." not in path.split("/")

    def roots(self) -> list[str]:
        """The folders, without symbolic links, each with a trailing slash."""
        return [real_path(root) for root in (self.data_path, self.adopted) if root is not None]


def is_below(path: str, folder: str) -> bool:
    """True if a file is below a folder, whose path ends with a slash, also after symbolic links to folders."""
    return real_path(path).startswith(real_path(folder)) and ".." not in path.split("/")


def real_path(path: str) -> str:
    """The path of a file in a form in which those of one file are equal; a link to a file itself is not resolved."""
    folder, slash, name = path.rpartition("/")
    if "://" in path:
        return canonical(path)
    return os.path.realpath(folder or "/").rstrip("/") + slash + name


def staging_folder(table: TableInfo, token: str) -> str:
    """The staging folder of one write."""
    return f"{table.path}{PREFIX}{token}/"


def placed_path(table: TableInfo, folder: str, token: str, number: int) -> str:
    """The path of a file of one write in a partition folder."""
    return f"{table.path}{folder}{PREFIX}{token}-{number}.parquet"


def is_staged(table: TableInfo, path: str) -> bool:
    """True if a path is that of a file that lakeconf staged for a table, in a staging folder or beside it."""
    return path.startswith(table.path) and _STAGED_FILE.fullmatch(path, len(table.path)) is not None


def is_announced(path: str, manifests: Iterable[str]) -> bool:
    """True if a path is one of these manifests, or could be a file that one of them announces.

    A manifest announces the files in its staging folder, and files in partition folders beside it, by their names.
    """
    match = _PLACED.fullmatch(path)
    written = {path} if match is None else {path, f"{match['table']}{match['write']}.parquet"}
    return any(
        manifest in written or path.startswith(manifest.removesuffix(".parquet") + "/") for manifest in manifests
    )


def manifest_path(folder: str) -> str:
    """The manifest of a staging folder. It is a Parquet file, because DuckLake's cleanup removes no other files."""
    return f"{folder.rstrip('/')}.parquet"


def announce(writer: Connection, folder: str, lake_id: str) -> None:
    """Writes the manifest of a staging folder before the folder contains files."""
    path = manifest_path(folder)
    if "://" not in path:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"the folder {Path(path).parent} cannot be created: {error.strerror}") from error
    owner = f"SELECT {literal(socket.gethostname())} AS host, {os.getpid()} AS pid, now() AS started_at, "
    owner += f"{literal(lake_id)} AS lake"
    writer.execute(f"COPY ({owner}) TO {literal(path)} (FORMAT parquet)")


def is_manifest_of(reader: Connection, path: str, lake_id: str) -> bool:
    """True if a file is a manifest of a write to a lake; False if it is damaged or missing."""
    try:
        rows = reader.rows(f"SELECT lake FROM {files_sql('read_parquet', path)}")
    except LakeconfError:
        return False
    return rows == [(lake_id,)]


def manifests_among(connection: Connection, paths: Iterable[str], lake_id: str) -> set[str]:
    """The paths that are manifests of writes to a lake."""
    named = (path for path in paths if STAGED_NAME.fullmatch(unique_name(path)))
    return {path for path in named if is_manifest_of(connection, path, lake_id)}


def is_written_name(path: str) -> bool:
    """True if lakeconf or DuckDB could have written a file with this path below the folder of a table."""
    return any(pattern.fullmatch(path) for pattern in (STAGED_NAME, _BY_DUCKDB, _REGISTERED))


def unique_name(path: str) -> str:
    """The name of a file; in a staging folder with the name of the folder, because others have such files too."""
    folder, _, name = path.rpartition("/")
    parent = folder.rpartition("/")[2]
    return f"{parent}/{name}" if _STAGING_FOLDER.fullmatch(parent) else name


def written_by_ducklake(name: str) -> float | None:
    """The time at which DuckLake named a file, in seconds since 1970; None if it has another kind of name."""
    parts = _TIMED.fullmatch(name)
    return None if parts is None else int(parts[1] + parts[2], 16) / 1000
