"""The names of staged files, and their manifest: it identifies their lake, even if the catalog lacks their table."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from pathlib import Path

from lakeconf.catalog.table import TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError, StorageError
from lakeconf.sql import literal

PREFIX = "lakeconf-"
# A path below the folder of a table.
_STAGED = re.compile(rf"{PREFIX}[0-9a-f]+/.+\.parquet|(?:[^/]*=[^/]*/)+{PREFIX}[0-9a-f]+-\d+\.parquet", re.DOTALL)
_PLACED = re.compile(rf"(?P<table>.*?/)(?:[^/]*=[^/]*/)+(?P<write>{PREFIX}[0-9a-f]+)-\d+\.parquet", re.DOTALL)


def staging_folder(table: TableInfo, token: str) -> str:
    """The staging folder of one write."""
    return f"{table.path}{PREFIX}{token}/"


def placed_path(table: TableInfo, folder: str, token: str, number: int) -> str:
    """The path of a file of one write in a partition folder.

    Args:
        table: The table.
        folder: The folder below the table's folder, with a trailing slash.
        token: The id of the write.
        number: Distinguishes the files of the write.
    """
    return f"{table.path}{folder}{PREFIX}{token}-{number}.parquet"


def is_staged(table: TableInfo, path: str) -> bool:
    """True if a path is that of a file that lakeconf staged for a table, in a staging folder or beside it."""
    return path.startswith(table.path) and _STAGED.fullmatch(path, len(table.path)) is not None


def is_announced(path: str, manifests: Iterable[str]) -> bool:
    """True if a path is one of these manifests, or could be a file that one of them announces.

    A manifest announces the files in its staging folder, and files in partition folders beside it, by their names.
    """
    found = _PLACED.fullmatch(path)
    written = {path} if found is None else {path, f"{found['table']}{found['write']}.parquet"}
    return any(
        manifest in written or path.startswith(manifest.removesuffix(".parquet") + "/") for manifest in manifests
    )


def manifest_path(folder: str) -> str:
    """The manifest of a staging folder. It is a Parquet file, because DuckLake's cleanup removes no other files."""
    return f"{folder.rstrip('/')}.parquet"


def announce(writer: Connection, folder: str, lake_id: str) -> None:
    """Writes the manifest of a staging folder before the folder contains files.

    Args:
        writer: A connection with access to the storage.
        folder: The staging folder.
        lake_id: The id of the lake that the files are staged for.

    Raises:
        StorageError: The folder of the table is not writable.
    """
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
    """True if a file is a manifest of a write to a lake; False if it is damaged or missing.

    Args:
        reader: A connection with access to the storage.
        path: The file.
        lake_id: The id of the lake.
    """
    try:
        found = reader.rows(f"SELECT lake FROM read_parquet({literal(path)})")
    except LakeconfError:
        return False
    return found == [(lake_id,)]
