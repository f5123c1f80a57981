"""Removes files through DuckDB, which has access to the storage of a lake."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from lakeconf.connection.connection import Connection
from lakeconf.ducklake import metadata_database
from lakeconf.sql import literal


def remove_files(connection: Connection, paths: Sequence[str]) -> None:
    """Removes exactly these files, on this machine or in a bucket; missing files are ignored.

    DuckDB has no statement that removes a file, so an in-memory catalog schedules these files for deletion.

    Args:
        connection: A connection that can access the files.
        paths: Absolute paths or URIs.
    """
    # An interrupted removal may have left its catalog attached, and another thread may remove files at the same time.
    scratch = f"__lakeconf_removal_{uuid.uuid4().hex}"
    with connection.cursor() as cursor:
        try:
            cursor.execute(f"ATTACH 'ducklake::memory:' AS {scratch} (DATA_PATH '/')")
            rows = ", ".join(f"({number}, {literal(path)}, false, now())" for number, path in enumerate(paths))
            scheduled = f"{metadata_database(scratch)}.ducklake_files_scheduled_for_deletion"
            cursor.execute(f"INSERT INTO {scheduled} VALUES {rows}")  # noqa: S608
            cursor.rows(f"CALL ducklake_cleanup_old_files('{scratch}', cleanup_all => true)")
        finally:
            cursor.execute(f"DETACH DATABASE IF EXISTS {scratch}")
