"""Data files, delete files and inlined deletes of a table at one snapshot, and the folders of partitions."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from lakeconf.catalog.admission import compose_path
from lakeconf.catalog.column_types import Fact, has
from lakeconf.catalog.reader import CatalogReader, MetadataTransaction
from lakeconf.catalog.tables import NO_ID, Column, TableInfo
from lakeconf.ducklake import inlined_deletes_table, visible_at
from lakeconf.errors import CatalogError, StorageError, UnsupportedError
from lakeconf.sql import folded, identifier

# The scanners for Postgres and SQLite push down lists of up to this many ids.
_FEW = 1000
_DELETE_FORMATS = {"parquet", "puffin"}
_COLUMNS = (
    *("data_file_id", "table_id", "begin_snapshot", "end_snapshot", "path_is_relative", "record_count"),
    *("file_size_bytes", "row_id_start", "partition_id", "mapping_id", "partial_max"),
)
_TEXTS = ("path", "file_format", "encryption_key")
_TYPES = ", ".join((*(f"{name} BIGINT" for name in _COLUMNS), *(f"{name} VARCHAR" for name in _TEXTS)))

_DATA_FILES = f"""
    SELECT table_id, data_file_id, path, path_is_relative, file_format, record_count, file_size_bytes, row_id_start,
        begin_snapshot, partition_id, mapping_id, CASE WHEN partial_max > $1 THEN CAST($1 AS BIGINT) END,
        encryption_key, partial_max IS NOT NULL
    FROM {{files}}
    WHERE {visible_at()}
"""  # noqa: S608

_DELETE_FILES = f"""
    SELECT table_id, data_file_id, path, path_is_relative, format, delete_count, file_size_bytes, encryption_key,
        delete_file_id, begin_snapshot
    FROM ducklake_delete_file
    WHERE {visible_at()}
"""  # noqa: S608

_PARTITION_VALUES = """
    SELECT data_file_id, partition_key_index, partition_value FROM ducklake_file_partition_value WHERE true
"""
_NAME_MAPPINGS = """
    SELECT mapping_id, parent_column, column_id, source_name, target_field_id, is_partition
    FROM ducklake_name_mapping WHERE true
"""
# For each transform besides `identity`, the types for which it has the same meaning in Spark and DuckDB. The parts of
# a TIMESTAMPTZ depend on the session's time zone.
_PARTS = {**dict.fromkeys(("year", "month", "day"), ("date", "timestamp")), "hour": ("timestamp",)}
# DuckLake encodes other characters in the name of a key, but does not decode them.
_KEY_NAME = re.compile(r"[A-Za-z0-9_.~-]+")
# DuckLake stores tables and schemas with other names in folders that it names itself at the commit.
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_-]+")
# The value in a path that stands for NULL.
NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of deleted positions."""

    path: str  # absolute path or URI
    format: str  # `parquet` (columns `file_path`, `pos` and optionally `_ducklake_internal_snapshot_id`) or `puffin`
    delete_count: int  # the number of its rows, of all snapshots
    file_size_bytes: int  # its size in bytes
    # Base64 key of an encrypted file; None if it is not encrypted.
    encryption_key: str | None = field(default=None, repr=False)
    delete_file_id: int = 0
    begin_snapshot: int = 0  # the snapshot of its first delete


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table, visible at the snapshot."""

    data_file_id: int  # `ducklake_data_file.data_file_id`
    # Absolute path or URI, as in DuckDB's virtual column `filename`, except that `filename` is relative if the lake was
    # attached with a relative data path.
    path: str
    record_count: int  # the number of rows in the file, including deleted rows
    file_size_bytes: int  # its size in bytes
    row_id_start: int | None  # row id of its first row; None if the file contains the row ids
    begin_snapshot: int  # the snapshot that added it
    mapping_id: int | None = None  # its name mapping (`add_data_files`); None if columns are matched by field id
    # Pairs of `partition_key_index` and value, as text, for the partitioning used to write it.
    partition_values: tuple[tuple[int, str | None], ...] = ()
    # If set, only rows with `_ducklake_internal_snapshot_id` up to this value are visible.
    snapshot_filter: int | None = None
    delete_file: DeleteFile | None = None  # its live delete file
    inlined_deletes: tuple[int, ...] = ()  # 0-based positions deleted in the catalog, up to this snapshot
    # Base64 key of an encrypted file; None if it is not encrypted.
    encryption_key: str | None = field(default=None, repr=False)
    partition_id: int | None = None  # the partitioning used to write it; None if the table was not partitioned
    is_partial: bool = False  # True if it has rows of several snapshots

    @property
    def deleted(self) -> int:
        """The number of its deleted rows, if its deletes are in one place."""
        return len(self.inlined_deletes) + (self.delete_file.delete_count if self.delete_file else 0)

    @property
    def rows(self) -> int:
        """The number of its other rows."""
        return self.record_count - self.deleted


@dataclass(frozen=True, slots=True)
class NameMapping:
    """Maps a column of a registered file to a column of the table by name."""

    source_name: str  # the name in the file, compared case-insensitively
    field_id: int  # the column's field id in the table
    # True if the value comes from the hive part of the path (`p=7/`), even if the file has the column.
    in_path: bool = False
    # Mappings of nested fields; a list has one child for its element, a map has two.
    children: tuple[NameMapping, ...] = ()


def load_data_files(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, data_file_ids: Sequence[int] | None = None
) -> tuple[DataFile, ...]:
    """Loads the table's visible files and their deletes, ordered by `data_file_id`."""
    return load_files_of(transaction, [table], snapshot_id, data_file_ids)[table.table_id]


def load_files_of(
    transaction: MetadataTransaction,
    tables: Sequence[TableInfo],
    snapshot_id: int,
    data_file_ids: Sequence[int] | None = None,
) -> dict[int, tuple[DataFile, ...]]:
    """Loads the visible files of one table, or of all tables of the snapshot, by table."""
    by_id = {table.table_id: table for table in tables}
    condition, parameters = _among("data_file_id", data_file_ids, 2)
    condition = _of(tables) + condition
    files = "ducklake_data_file"
    if data_file_ids and not parameters:
        few = f"SELECT {', '.join((*_COLUMNS, *_TEXTS))} FROM {files} WHERE true{condition}"  # noqa: S608
        files = f"({transaction.own_sql(few, _TYPES)})"
    query = _DATA_FILES.format(files=files)
    rows = transaction.rows(query + condition + " ORDER BY data_file_id", [snapshot_id, *parameters])
    visible = [(by_id[table_id], row) for table_id, *row in rows if table_id in by_id]
    if not visible:
        return dict.fromkeys(by_id, ())
    delete_files = _delete_files(transaction, by_id, snapshot_id, data_file_ids)
    with_files = {table.table_id for table, _ in visible}
    inlined_deletes = _inlined_deletes(transaction, with_files, snapshot_id, data_file_ids)
    is_partitioned = any(row[8] is not None for _, row in visible)
    partition_values = _partition_values(transaction, tables, data_file_ids) if is_partitioned else {}
    by_table: dict[int, list[DataFile]] = {table_id: [] for table_id in by_id}
    for table, row in visible:
        file = to_data_file(
            table,
            row,
            partition_values=tuple(partition_values.get(row[0], ())),
            delete_file=delete_files.get(row[0]),
            inlined_deletes=tuple(inlined_deletes.get(row[0], ())),
        )
        by_table[table.table_id].append(file)
    return {table_id: tuple(files) for table_id, files in by_table.items()}


def check_doubled(reader: CatalogReader, table: TableInfo, snapshot_id: int) -> None:
    """Rejects a table of which DuckDB would return rows twice, and deleted ones."""
    if table.table_id in reader.doubled_tables:
        with reader.transaction() as transaction:
            load_data_files(transaction, table, snapshot_id)


def to_data_file(
    table: TableInfo,
    row: Sequence[Any],
    *,
    partition_values: tuple[tuple[int, str | None], ...] = (),
    delete_file: DeleteFile | None = None,
    inlined_deletes: tuple[int, ...] = (),
) -> DataFile:
    """Converts a row of the catalog, in the order of `_DATA_FILES`, to a data file."""
    (
        file_id, path, is_relative, file_format, record_count, file_size_bytes, row_id_start, begin_snapshot,
        partition_id, mapping_id, snapshot_filter, encryption_key, is_partial,
    ) = row  # fmt: skip
    if file_format != "parquet":
        raise UnsupportedError(f"the data file {path!r} has the format {file_format!r}; lakeconf only reads parquet")
    return DataFile(
        file_id,
        compose_path(table.path, path, is_relative=is_relative),
        record_count,
        file_size_bytes,
        row_id_start,
        begin_snapshot,
        mapping_id,
        partition_values,
        snapshot_filter,
        delete_file,
        inlined_deletes,
        encryption_key,
        partition_id,
        is_partial,
    )


def to_delete_file(table: TableInfo, row: Sequence[Any]) -> DeleteFile:
    """Converts a row of the catalog to a delete file."""
    path, is_relative, file_format, *rest = row
    file = DeleteFile(compose_path(table.path, path, is_relative=is_relative), file_format, *rest)
    if file_format not in _DELETE_FORMATS:
        raise UnsupportedError(
            f"the delete file {file.path!r} has the format {file_format!r}; "
            f"lakeconf only reads {' and '.join(sorted(_DELETE_FORMATS))}"
        )
    return file


def load_name_mappings(
    transaction: MetadataTransaction, mapping_ids: Iterable[int]
) -> dict[int, tuple[NameMapping, ...]]:
    """Loads name mappings by id; each contains the mappings of the top-level columns."""
    ids = sorted(set(mapping_ids))
    if not ids:
        return {}
    where, parameters = _among("mapping_id", ids, 1)
    children: dict[tuple[int, int | None], list[tuple[Any, ...]]] = defaultdict(list)
    for mapping_id, parent, *entry in transaction.rows(_NAME_MAPPINGS + where + " ORDER BY column_id", parameters):
        children[mapping_id, parent].append(tuple(entry))

    def below(mapping_id: int, parent: int | None) -> tuple[NameMapping, ...]:
        return tuple(
            NameMapping(source_name, field_id, bool(in_path), below(mapping_id, column_id))
            for column_id, source_name, field_id, in_path in children[mapping_id, parent]
        )

    return {mapping_id: below(mapping_id, None) for mapping_id in ids}


def _delete_files(
    transaction: MetadataTransaction,
    tables: Mapping[int, TableInfo],
    snapshot_id: int,
    data_file_ids: Sequence[int] | None,
) -> dict[int, DeleteFile]:
    condition, parameters = _among("data_file_id", data_file_ids, 2)
    query = _DELETE_FILES + _of(tables.values()) + condition + " ORDER BY delete_file_id"
    delete_files: dict[int, DeleteFile] = {}
    for table_id, data_file_id, *row in transaction.rows(query, [snapshot_id, *parameters]):
        if table_id not in tables:
            continue
        table = tables[table_id]
        file = to_delete_file(table, row)
        if data_file_id in delete_files:
            raise CatalogError(
                f"the data file {data_file_id} of {table.full_name} has two live delete files "
                f"at version {snapshot_id}, {delete_files[data_file_id].path!r} and {file.path!r}: two concurrent "
                "deletes damaged the table",
                hint=f"write the table again, from a version before {file.begin_snapshot}: only these are intact",
            )
        delete_files[data_file_id] = file
    return delete_files


def _inlined_deletes(
    transaction: MetadataTransaction, table_ids: Iterable[int], snapshot_id: int, data_file_ids: Sequence[int] | None
) -> dict[int, list[int]]:
    condition, parameters = _among("file_id", data_file_ids, 2)
    positions: dict[int, list[int]] = defaultdict(list)
    # DuckLake creates such a table with the first inlined delete.
    for name in transaction.existing_tables([inlined_deletes_table(table_id) for table_id in table_ids]):
        # Its `row_id` is the position in the file, not the row id.
        sql = f"SELECT DISTINCT file_id, row_id FROM {identifier(name)} WHERE begin_snapshot <= $1{condition}"  # noqa: S608
        for data_file_id, position in transaction.rows(f"{sql} ORDER BY ALL", [snapshot_id, *parameters]):
            positions[data_file_id].append(position)
    return positions


def _partition_values(
    transaction: MetadataTransaction, tables: Iterable[TableInfo], data_file_ids: Sequence[int] | None
) -> dict[int, list[tuple[int, str | None]]]:
    condition, parameters = _among("data_file_id", data_file_ids, 1)
    values: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    query = _PARTITION_VALUES + _of(tables) + condition + " ORDER BY partition_key_index"
    for data_file_id, *value in transaction.rows(query, parameters):
        values[data_file_id].append((value[0], value[1]))
    return values


def _of(tables: Iterable[TableInfo]) -> str:
    """An AND condition for the rows of one table; empty if there are several, which are then all."""
    first, *others = [table.table_id for table in tables] or [NO_ID]
    return "" if others else f" AND table_id = {first:d}"


def _among(column: str, ids: Sequence[int] | None, parameter: int) -> tuple[str, list[object]]:
    """Returns an AND condition that `column` is one of `ids`, and its parameters, numbered from `parameter`."""
    if ids is None:
        return "", []
    if not ids:
        return " AND false", []
    # The metadata database can use an index for the range; DuckDB applies a long list afterwards.
    reach = f" AND {column} BETWEEN {min(ids)} AND {max(ids)}"
    if len(ids) <= _FEW:
        return f"{reach} AND {column} IN ({', '.join(map(str, ids))})", []
    return f"{reach} AND {column} IN (SELECT unnest(${parameter}))", [list(ids)]


@dataclass(frozen=True)
class FileGroup:
    """Files with rows of one partition."""

    files: tuple[DataFile, ...]
    # The partitioning that they were written for; None if the table was not partitioned.
    partition_id: int | None = None
    partition: tuple[tuple[int, str | None], ...] = ()  # the partition values, as text, by the index of their key

    @property
    def encrypted(self) -> bool:
        """True if a file is encrypted."""
        return any(file.encryption_key is not None for file in self.files)

    @property
    def rows(self) -> int:
        """The number of rows that are not deleted."""
        return sum(file.rows for file in self.files)

    @property
    def size(self) -> int:
        """The size of the files in bytes."""
        return sum(file.file_size_bytes for file in self.files)

    @property
    def folder(self) -> str | None:
        """The folder of all files, with a trailing slash; None if they are in several folders."""
        folders = {file.path.rpartition("/")[0] for file in self.files}
        return f"{folders.pop()}/" if len(folders) == 1 else None


def groups_of(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int) -> tuple[FileGroup, ...]:
    """The groups of a table's files at a snapshot; those with most files come first."""
    by_partition: dict[tuple[object, ...], list[DataFile]] = defaultdict(list)
    for file in load_data_files(transaction, table, snapshot_id):
        by_partition[file.partition_id, file.partition_values].append(file)
    groups = [
        FileGroup(tuple(files), files[0].partition_id, files[0].partition_values) for files in by_partition.values()
    ]
    return tuple(sorted(groups, key=lambda group: (-len(group.files), group.files[0].data_file_id)))


def inlined_deletes(transaction: MetadataTransaction, table_id: int, snapshot_id: int) -> set[int]:
    """The ids of the live data files of a table from which the catalog itself deletes rows."""
    name = inlined_deletes_table(table_id)
    if not transaction.has_table(name):
        return set()
    live = f"SELECT data_file_id FROM ducklake_data_file WHERE table_id = $2 AND {visible_at()}"  # noqa: S608
    query = f"SELECT DISTINCT file_id FROM {identifier(name)} WHERE begin_snapshot <= $1 AND file_id IN ({live})"  # noqa: S608
    return {int(file_id) for (file_id,) in transaction.rows(query, [snapshot_id, table_id])}


@dataclass(frozen=True, slots=True)
class FolderKey:
    """A partition key as a part of the path of a file: `name=value/`."""

    name: str  # the name in the path, before it is encoded
    column: Column
    transform: str  # `identity`, `year`, `month`, `day` or `hour`


def folder_keys(table: TableInfo, *, registered: bool = True) -> tuple[FolderKey, ...]:
    """The parts of the paths of a table's files, in order; empty if files in such folders cannot be committed.

    If DuckLake reads the values of `registered` files from their paths, it confuses two keys on one column, a column
    with the name of another key's transform, and folders above the table that look like keys.
    """
    columns = {column.field_id: column for column in table.columns}
    fields = table.partition_fields
    if registered and (len({field.field_id for field in fields}) < len(fields) or "=" in table.path):
        return ()
    if table.table_id == NO_ID and not all(map(_FOLDER_NAME.fullmatch, (table.schema_name, table.name))):
        return ()
    keys: list[FolderKey] = []
    taken = {folded(column.name) for column in table.columns}
    for part in fields:
        column = columns.get(part.field_id)
        if column is None or not _is_supported(column, part.transform):
            return ()
        name = column.name
        if registered and part.transform == "identity" and folded(name) in {field.transform for field in fields}:
            return ()
        if part.transform != "identity":
            # The second key with a transform also has the name of its column.
            is_first = all(part.transform != key.name for key in keys)
            name = part.transform if is_first else f"{part.transform}_{column.name}"
            if folded(name) in taken:
                return ()
        if not _KEY_NAME.fullmatch(name):
            return ()
        keys.append(FolderKey(name, column, part.transform))
    return tuple(keys)


def folder_values(table: TableInfo, path: str) -> tuple[str | None, ...]:
    """The partition values of a file in the folder of its partition, in the order of the keys."""
    names = [key.name for key in folder_keys(table, registered=False)]
    *folders, _ = path.removeprefix(table.path).split("/")
    parts = [folder.partition("=") for folder in folders]
    if not path.startswith(table.path) or [unquote(name) for name, _, _ in parts] != names:
        raise StorageError(f"{path} is not in the folder of a partition of {table.full_name}")
    return tuple(None if value == NULL_VALUE else unquote(value, errors="strict") for _, _, value in parts)


def _is_supported(column: Column, transform: str) -> bool:
    if transform == "identity":
        return has(column.type, Fact.IN_PATHS)
    return column.type in _PARTS.get(transform, ())
