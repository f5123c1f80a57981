"""Sizes of tables, and files below the data path."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.history import TableFile, stored_rows, stored_rows_of_all
from lakeconf.catalog.reader import CatalogReader
from lakeconf.connection.connection import Connection
from lakeconf.lake.lake import Lake
from lakeconf.sql import listing_sql

# The paths of the schema, the table and the file, each with a flag whether it is relative to the previous one.
_NEEDED = " UNION ALL ".join(
    f"""
    SELECT f.file_size_bytes, s.path, s.path_is_relative, t.path, t.path_is_relative, f.path, f.path_is_relative
    FROM {files} AS f
    JOIN (SELECT DISTINCT table_id, schema_id, path, path_is_relative FROM ducklake_table) AS t USING (table_id)
    JOIN (SELECT DISTINCT schema_id, path, path_is_relative FROM ducklake_schema) AS s USING (schema_id)
    """  # noqa: S608 - constants
    for files in ("ducklake_data_file", "ducklake_delete_file")
)
_SCHEDULED = "SELECT path, path_is_relative FROM ducklake_files_scheduled_for_deletion"
_SUFFIXES = (".parquet", ".puffin")


@dataclass(frozen=True)
class TableSize:
    """A table and its files."""

    table: str
    files: tuple[TableFile, ...]  # its data files
    inlined_rows: int  # the number of rows inlined in the catalog

    @property
    def deleted_rows(self) -> int:
        """The number of deleted rows in the data files."""
        return sum(file.deleted_rows for file in self.files)

    @property
    def delete_files(self) -> int:
        """The number of data files with a delete file."""
        return sum(file.delete_file is not None for file in self.files)

    @property
    def rows(self) -> int:
        """The number of rows in the table."""
        return sum(file.rows for file in self.files) - self.deleted_rows + self.inlined_rows

    @property
    def bytes(self) -> int:
        """The size of the data files, in bytes."""
        return sum(file.bytes for file in self.files)


def table_sizes(lake: Lake, *, own: bool = False) -> list[TableSize]:
    """Returns the tables of a lake with their files, at the lake's snapshot; the `own` ones of a branch, or all."""
    scope = lake._scope  # noqa: SLF001 - as below
    sizes = stored_rows_of_all(scope.session.reader, scope.snapshot_id)
    named = {name: TableSize(name, tuple(files), inlined_rows) for name, (files, inlined_rows) in sizes.items()}
    names = [name for name in lake.tables() if name in named or not own]
    return [named[name] if name in named else table_size(lake, name) for name in names]


def table_size(lake: Lake, table: str) -> TableSize:
    """Returns a table with its files, at the lake's snapshot."""
    session, name, snapshot_id = lake._scope.source(table)  # noqa: SLF001 - `Table.explain` would plan the scan twice more
    files, inlined_rows = stored_rows(session.reader, name, snapshot_id)
    return TableSize(table, tuple(files), inlined_rows)


@dataclass(frozen=True)
class DataPathFiles:
    """The files of a lake."""

    root: str  # the data path
    needed: frozenset[str]  # the files that snapshots need, below the data path
    outside: Mapping[str, int | None]  # the sizes of the files that snapshots need, elsewhere
    missing: tuple[str, ...]  # the needed files that do not exist, sorted
    unknown: tuple[str, ...]  # the files below the data path that the catalog does not know, sorted
    damaged: tuple[str, ...]  # the needed files on a disk that have another size than the catalog says, sorted


def data_path_files(reader: CatalogReader) -> DataPathFiles:
    """Lists the data path of a lake, and reads the files from its catalog."""
    root = reader.data_path
    sizes, scheduled = registered_files(reader)
    listed, needed = _listed(reader.connection, root), frozenset(sizes)
    below = frozenset(path for path in needed if path.startswith(root))
    unknown = listed - needed - scheduled
    if unknown:
        # Another process may have committed them since the catalog was read.
        unknown -= frozenset().union(*registered_files(reader))
    if "://" in root:  # each size would be a request
        there = dict[str, int | None](dict.fromkeys(below & listed))
        damaged: tuple[str, ...] = ()
    else:  # files behind links to folders are not listed
        there = {path: size for path in below if (size := _size(path)) is not None}
        damaged = tuple(sorted(path for path, size in there.items() if size != sizes[path]))
    missing = tuple(sorted(below - there.keys()))
    outside = {path: size for path, size in sizes.items() if path not in below}
    return DataPathFiles(root, below, outside, missing, tuple(sorted(unknown)), damaged)


def _size(path: str) -> int | None:
    with contextlib.suppress(OSError):
        return os.stat(path).st_size
    return None


def registered_files(reader: CatalogReader) -> tuple[dict[str, int | None], frozenset[str]]:
    """The files that snapshots need with their sizes, and those that no snapshot needs and that a cleanup removes."""
    root = reader.data_path
    with reader.transaction() as transaction:
        needed = {_path(root, row): size for size, *row in transaction.rows(_NEEDED)}
        return needed, frozenset(_path(root, row) for row in transaction.rows(_SCHEDULED))


def _path(root: str, row: Sequence[Any]) -> str:
    for path, is_relative in zip(row[::2], row[1::2], strict=True):
        root = compose_path(root, path, is_relative=bool(is_relative))
    return root


def _listed(connection: Connection, root: str) -> frozenset[str]:
    if "://" not in root:
        # DuckDB reads some characters of the path as a pattern.
        paths = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
        return frozenset(path.as_posix() for path in paths if path.suffix in _SUFFIXES)
    rows = connection.rows(listing_sql(root, "**"))
    return frozenset(str(path) for (path,) in rows if PurePosixPath(path).suffix in _SUFFIXES)
