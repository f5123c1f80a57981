"""Sizes of tables and partitions, and files below the data path."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from lakeconf.catalog.history import TableFile, stored_rows
from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.tables import TableInfo, key_text, load_table
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import visible_at
from lakeconf.lake.lake import Lake
from lakeconf.sql import listing_sql


@dataclass(frozen=True)
class TableSize:
    """A table and its files.

    Attributes:
        table: Its name.
        files: Its data files.
        inlined_rows: The number of rows inlined in the catalog.
    """

    table: str
    files: tuple[TableFile, ...]
    inlined_rows: int

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


def table_sizes(lake: Lake) -> list[TableSize]:
    """Returns the tables of a lake with their files, at the lake's snapshot."""
    return [table_size(lake, name) for name in lake.tables()]


def table_size(lake: Lake, table: str) -> TableSize:
    """Returns a table with its files, at the lake's snapshot."""
    reader = lake._session.reader  # noqa: SLF001 - `Table.explain` would plan the scan twice more
    files, inlined_rows = stored_rows(reader, table, lake.snapshot_id)
    return TableSize(table, tuple(files), inlined_rows)


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
class DataPathFiles:
    """The files of a lake.

    Attributes:
        root: The data path.
        needed: The files that snapshots need, below the data path.
        outside: The files that snapshots need, elsewhere.
        missing: The needed files that do not exist, sorted.
        unknown: The files below the data path that the catalog does not know, sorted.
        damaged: The needed files on a disk that have another size than the catalog says, sorted.
    """

    root: str
    needed: frozenset[str]
    outside: frozenset[str]
    missing: tuple[str, ...]
    unknown: tuple[str, ...]
    damaged: tuple[str, ...]


def data_path_files(reader: CatalogReader) -> DataPathFiles:
    """Lists the data path of a lake, and reads the files from its catalog."""
    root = reader.data_path
    sizes, scheduled = _known(reader)
    listed, needed = _listed(reader.connection, root), frozenset(sizes)
    below = frozenset(path for path in needed if path.startswith(root))
    unknown = listed - needed - scheduled
    if unknown:
        # Another process may have committed them since the catalog was read.
        unknown -= frozenset().union(*_known(reader))
    missing = tuple(sorted(below - listed))
    # In a bucket, each size would be a request.
    damaged = () if "://" in root else tuple(sorted(path for path in below & listed if _size(path) != sizes[path]))
    return DataPathFiles(root, below, needed - below, missing, tuple(sorted(unknown)), damaged)


def _size(path: str) -> int | None:
    with contextlib.suppress(OSError):
        return os.stat(path).st_size
    return None


def _known(reader: CatalogReader) -> tuple[dict[str, int | None], frozenset[str]]:
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
        found = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
        return frozenset(path.as_posix() for path in found if path.suffix in _SUFFIXES)
    rows = connection.rows(listing_sql(root, "**"))
    return frozenset(str(path) for (path,) in rows if PurePosixPath(path).suffix in _SUFFIXES)


# A partition of this many times the usual size is skewed, if there are enough partitions to speak of a usual size.
_TIMES, _PARTITIONS = 5, 4
_LEAST_BYTES = 64 * 2**20
# Files of the current partitioning; files from before it have other keys.
_FILES = f"""
    SELECT f.data_file_id, f.file_size_bytes, f.record_count FROM ducklake_data_file AS f
    WHERE {visible_at(row="f")} AND f.table_id = $2 AND f.partition_id = $3
"""  # noqa: S608 - constants
_VALUES = """
    SELECT data_file_id, partition_value FROM ducklake_file_partition_value WHERE table_id = $1
    ORDER BY data_file_id, partition_key_index
"""


@dataclass(frozen=True)
class Partition:
    """A partition.

    Attributes:
        values: The values of its keys, as text.
        files: The number of its data files.
        bytes: Their size in bytes.
        rows: The number of their rows, including deleted rows.
    """

    values: tuple[str | None, ...]
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True)
class Skew:
    """A table with a partition that is much larger than the others.

    Attributes:
        table: The name of the table.
        keys: The partition keys, such as `month(day)`.
        largest: The largest partition.
        partitions: The number of partitions.
        usual: The median size of a partition, in bytes.
    """

    table: str
    keys: tuple[str, ...]
    largest: Partition
    partitions: int
    usual: float

    @property
    def label(self) -> str:
        """The largest partition, as `month(day) = 1, region = eu`."""
        values = ("NULL" if value is None else value for value in self.largest.values)
        return ", ".join(f"{key} = {value}" for key, value in zip(self.keys, values, strict=False))


def skewed_tables(lake: Lake, *, least_bytes: int = _LEAST_BYTES) -> list[Skew]:
    """Finds the tables with a partition that is at least five times as large as the median one."""
    reader, version = lake._session.reader, lake.snapshot_id  # noqa: SLF001 - the lake does not list partitions
    found = []
    for name in lake.tables():
        table = load_table(reader, name, version)
        if table.partition_id is None:
            continue
        with reader.transaction() as transaction:
            values = transaction.rows(_VALUES, [table.table_id])
            files = transaction.rows(_FILES, [version, table.table_id, table.partition_id])
        partitions = _partitions(files, values)
        usual = statistics.median(one.bytes for one in partitions) if partitions else 0
        largest = max(partitions, key=lambda one: one.bytes, default=None)
        if largest is not None and len(partitions) >= _PARTITIONS and largest.bytes >= max(_TIMES * usual, least_bytes):
            found.append(Skew(name, _keys(table), largest, len(partitions), usual))
    return found


def _partitions(files: list[tuple[Any, ...]], values: list[tuple[Any, ...]]) -> list[Partition]:
    by_file: dict[int, list[str | None]] = defaultdict(list)
    for file_id, value in values:
        by_file[file_id].append(value)
    members: dict[tuple[str | None, ...], list[tuple[int, int]]] = defaultdict(list)
    for file_id, size, rows in files:
        members[tuple(by_file[file_id])].append((size, rows))
    return [
        Partition(key, len(found), sum(size for size, _ in found), sum(rows for _, rows in found))
        for key, found in members.items()
    ]


def _keys(table: TableInfo) -> tuple[str, ...]:
    names = {column.field_id: column.name for column in table.columns}
    return tuple(key_text(field.transform, names.get(field.field_id, "?")) for field in table.partition_fields)
