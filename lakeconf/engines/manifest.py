"""The manifest of staged files: who is writing them, so that nobody takes them for what a killed write left."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from lakeconf.catalog.table import TableInfo
from lakeconf.connection import Connection
from lakeconf.errors import StorageError
from lakeconf.sql import literal

PREFIX = "lakeconf-"


def staging_folder(table: TableInfo, token: str) -> str:
    """The folder of the staged files of one write."""
    return f"{table.path}{PREFIX}{token}/"


def manifest_path(folder: str) -> str:
    """The manifest of a staging folder: a Parquet file, as that is all that DuckLake removes where nobody needs it."""
    return f"{folder.rstrip('/')}.parquet"


def announce(writer: Connection, folder: str) -> None:
    """Writes the manifest of a staging folder, before there is anything in it.

    Raises:
        StorageError: The folder of the table cannot be written.
    """
    path = manifest_path(folder)
    if "://" not in path:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"the folder {Path(path).parent} cannot be made: {error.strerror}") from error
    owner = f"SELECT {literal(socket.gethostname())} AS host, {os.getpid()} AS pid, now() AS started_at"
    writer.execute(f"COPY ({owner}) TO {literal(path)} (FORMAT parquet)")


def is_alive(reader: Connection, folder: str) -> bool:
    """True where the process that stages into a folder runs on this machine; of another machine nothing is known.

    Args:
        reader: Any connection that reaches the storage.
        folder: A staging folder that has a manifest.
    """
    ((host, pid),) = reader.rows(f"SELECT host, pid FROM read_parquet({literal(manifest_path(folder))})")
    if host != socket.gethostname():
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
