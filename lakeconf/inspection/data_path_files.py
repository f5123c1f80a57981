"""Compares the files that a catalog knows with those below its data path."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection

# The paths of the schema, the table and the file, each with a flag whether it is relative to the previous one.
_NEEDED = " UNION ALL ".join(
    f"""
    SELECT s.path, s.path_is_relative, t.path, t.path_is_relative, f.path, f.path_is_relative
    FROM {files} AS f
    JOIN (SELECT DISTINCT table_id, schema_id, path, path_is_relative FROM ducklake_table) AS t USING (table_id)
    JOIN (SELECT DISTINCT schema_id, path, path_is_relative FROM ducklake_schema) AS s USING (schema_id)
    """  # noqa: S608 - constants
    for files in ("ducklake_data_file", "ducklake_delete_file")
)
_SCHEDULED = "SELECT path, path_is_relative FROM ducklake_files_scheduled_for_deletion"
_SUFFIXES = (".parquet", ".puffin")


@dataclass(frozen=True)
class DataPathFiles:
    """The files of a lake.

    Attributes:
        root: The data path.
        needed: The files that snapshots need, below the data path.
        outside: The files that snapshots need, elsewhere.
        missing: The needed files that do not exist, sorted.
        unknown: The files below the data path that the catalog does not know, sorted.
    """

    root: str
    needed: frozenset[str]
    outside: frozenset[str]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]


def data_path_files(reader: CatalogReader) -> DataPathFiles:
    """Lists the data path of a lake, and reads the files from its catalog.

    Args:
        reader: Reads the catalog.

    Raises:
        StorageError: The data path cannot be listed.
    """
    root = reader.data_path
    needed, scheduled = _known(reader)
    listed = _listed(reader.connection, root)
    below = frozenset(path for path in needed if path.startswith(root))
    unknown = listed - needed - scheduled
    if unknown:
        # Another process may have committed them since the catalog was read.
        unknown -= frozenset().union(*_known(reader))
    return DataPathFiles(root, below, needed - below, tuple(sorted(below - listed)), tuple(sorted(unknown)))


def _known(reader: CatalogReader) -> tuple[frozenset[str], frozenset[str]]:
    """The files that snapshots need, and those that no snapshot needs and that a cleanup removes."""
    root = reader.data_path
    with reader.transaction() as transaction:
        needed = frozenset(_path(root, row) for row in transaction.rows(_NEEDED))
        return needed, frozenset(_path(root, row) for row in transaction.rows(_SCHEDULED))


def _path(root: str, row: tuple[Any, ...]) -> str:
    for path, is_relative in zip(row[::2], row[1::2], strict=True):
        root = compose_path(root, path, is_relative=bool(is_relative))
    return root


def _listed(connection: Connection, root: str) -> frozenset[str]:
    if "://" not in root:
        # DuckDB reads some characters of the path as a pattern.
        found = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
        return frozenset(path.as_posix() for path in found if path.suffix in _SUFFIXES)
    rows = connection.rows("SELECT file FROM glob(?)", [f"{root}**"])
    return frozenset(str(path) for (path,) in rows if PurePosixPath(path).suffix in _SUFFIXES)
