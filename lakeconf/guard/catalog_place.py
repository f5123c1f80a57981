"""The location of a catalog, to distinguish it from copies at other locations."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from lakeconf.backends.base import MetadataBackend, StoreNames
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.errors import ConnectionFailed, LakeconfError


def reader_of(backend: MetadataBackend, names: StoreNames, connection: Connection) -> CatalogReader:
    """A reader of the metadata of a store's lake.

    Args:
        backend: The store's metadata backend.
        names: The store's names.
        connection: A connection with the attached lake.
    """
    return CatalogReader(connection, names.alias, backend.catalog_schema(names))


def places(backend: MetadataBackend, reader: CatalogReader) -> Sequence[str]:
    """Identifiers of the location of a catalog; the location is the same if one identifier is equal.

    Args:
        backend: The metadata backend.
        reader: The attached lake.

    Returns:
        Strings that differ between a catalog and a copy of it. Empty if the metadata backend has no identifiers.
    """
    file, server = backend.file(), backend.server()
    if file is not None:
        return _of_file(file.resolve())
    if server is None:
        return ()
    database = reader.metadata_database
    found = [_ask(reader, server.catalog_id(database, reader.metadata_schema))]
    try:
        found.append(_ask(reader, server.server_id(database)))
    except ConnectionFailed:
        raise  # otherwise the marker would name another place
    except LakeconfError:
        found.append("server not known")  # the role lacks the privilege
    return (" of ".join(found),)


def neighbours(backend: MetadataBackend) -> Sequence[str]:
    """Location identifiers of the files next to a catalog; empty if the catalog is not a file.

    Args:
        backend: The metadata backend.
    """
    file = backend.file()
    if file is None:
        return ()
    real = file.resolve()
    beside = (path for path in real.parent.iterdir() if path != real and path.is_file() and not path.is_symlink())
    return [mark for path in beside for mark in _of_file(path)]


def _of_file(path: Path) -> Sequence[str]:
    # A move within a file system keeps the inode number; a restored backup keeps the path. The first files of two new
    # file systems often have the same number, so the identifier includes the id of the file system.
    return (f"inode {os.statvfs(path).f_fsid}:{path.stat().st_ino}", f"path {socket.gethostname()}:{path}")


def _ask(reader: CatalogReader, query: str) -> str:
    with reader.connection.cursor() as cursor:
        rows = cursor.rows(query)
    return str(rows[0][0])
