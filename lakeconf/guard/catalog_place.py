"""Where a catalog is: what tells it from a copy of itself at another place."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from lakeconf.backends.base import StoreNames
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import metadata_database
from lakeconf.errors import LakeconfError
from lakeconf.sql import literal
from lakeconf.store import Store

# A dump that is restored elsewhere gets other numbers, or another server.
_SCHEMA = """
    SELECT concat(d.oid, '/', n.oid) AS place FROM pg_database AS d, pg_namespace AS n
    WHERE d.datname = current_database() AND n.nspname = {}
"""
_SERVER = "SELECT system_identifier::text AS place FROM pg_control_system()"


def reader_of(store: Store, connection: Connection) -> CatalogReader:
    """The way to the metadata of a store's lake.

    Args:
        store: The store.
        connection: Where its lake is attached.
    """
    schema = store.metadata_backend.ducklake_options(StoreNames(store.name, store.alias)).get("metadata_schema")
    return CatalogReader(connection, store.alias, None if schema is None else str(schema))


def places(store: Store, reader: CatalogReader) -> Sequence[str]:
    """The marks of the place of a store's catalog; a catalog is at the same place if one of them is the same.

    Args:
        store: The store.
        reader: The attached lake.

    Returns:
        Texts that differ between a catalog and a copy of it. Empty if the metadata backend tells nothing.
    """
    file = store.metadata_backend.file()
    if file is not None:
        return _of_file(file.resolve())
    if store.metadata_backend.lock_sql(0) is None:
        return ()
    database = metadata_database(store.alias, store.attach_options.get("metadata_catalog"))
    found = [_ask(reader, database, _SCHEMA.format(literal(reader.metadata_schema or "public")))]
    try:
        found.append(_ask(reader, database, _SERVER))
    except LakeconfError:
        found.append("server not known")  # the role may not ask for it
    return (" of ".join(found),)


def neighbours(store: Store) -> Sequence[str]:
    """The marks of the places of the files beside a store's catalog; none if the catalog is no file.

    Args:
        store: The store.
    """
    file = store.metadata_backend.file()
    if file is None:
        return ()
    real = file.resolve()
    beside = (path for path in real.parent.iterdir() if path != real and path.is_file() and not path.is_symlink())
    return [mark for path in beside for mark in _of_file(path)]


def _of_file(path: Path) -> Sequence[str]:
    # A move within a file system keeps the number; a backup that is restored keeps the path. The first files of two
    # new file systems often have the same number, so the id of the file system is a part of it.
    return (f"inode {os.statvfs(path).f_fsid}:{path.stat().st_ino}", f"path {socket.gethostname()}:{path}")


def _ask(reader: CatalogReader, database: str, query: str) -> str:
    with reader.connection.cursor() as cursor:
        rows = cursor.rows(f"FROM postgres_query({literal(database)}, {literal(query)})")
    return str(rows[0][0])
