"""Data files, delete files and inlined data of a table at one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.table import TableInfo, compose_path
from lakeconf.ducklake import inlined_deletes_table, visible_at
from lakeconf.errors import CatalogError, UnsupportedError
from lakeconf.sql import identifier

# As many ids as the scanners of Postgres and SQLite push down as a list.
_FEW = 1000
_DELETE_FORMATS = {"parquet", "puffin"}
_DATA_FILES = f"""
    SELECT data_file_id, path, path_is_relative, file_format, record_count, file_size_bytes, row_id_start,
        begin_snapshot, partition_id, mapping_id, CASE WHEN partial_max > $1 THEN CAST($1 AS BIGINT) END, encryption_key
    FROM ducklake_data_file
    WHERE {visible_at()} AND table_id = $2
"""  # noqa: S608
_DELETE_FILES = f"""
    SELECT data_file_id, begin_snapshot, path, path_is_relative, format, delete_count, file_size_bytes, encryption_key
    FROM ducklake_delete_file
    WHERE {visible_at()} AND table_id = $2
"""  # noqa: S608
_PARTITION_VALUES = """
    SELECT data_file_id, partition_key_index, partition_value FROM ducklake_file_partition_value WHERE table_id = $1
"""
_NAME_MAPPINGS = """
    SELECT mapping_id, parent_column, column_id, source_name, target_field_id, is_partition
    FROM ducklake_name_mapping WHERE true
"""


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """A file of deleted positions.

    Attributes:
        path: Absolute path or URI.
        format: `parquet` (columns `file_path`, `pos` and perhaps `_ducklake_internal_snapshot_id`) or `puffin`.
        delete_count: Rows in it, of all snapshots.
        file_size_bytes: Its size.
        encryption_key: Base64 key of an encrypted file; None where it is not.
    """

    path: str
    format: str
    delete_count: int
    file_size_bytes: int
    encryption_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class DataFile:
    """A Parquet file of the table, visible at the snapshot.

    Attributes:
        data_file_id: `ducklake_data_file.data_file_id`.
        path: Absolute path or URI, exactly as DuckDB's virtual column `filename` shows it (which is relative where the
            lake was attached with a relative data path; this one never is).
        record_count: Rows in the file, deleted ones included.
        file_size_bytes: Its size.
        row_id_start: Row id of its first row; None where the row ids are in the file.
        begin_snapshot: The snapshot that it belongs to.
        mapping_id: Its name mapping (`add_data_files`), or None where columns are matched by field id.
        partition_values: Values by `partition_key_index`, as text, of the partitioning that it was written with.
        snapshot_filter: Where set, only rows whose `_ducklake_internal_snapshot_id` is not above this are visible.
        delete_file: Its live delete file.
        inlined_deletes: 0-based positions deleted in the catalog, of this snapshot and earlier ones.
        encryption_key: Base64 key of an encrypted file; None where it is not.
    """

    data_file_id: int
    path: str
    record_count: int
    file_size_bytes: int
    row_id_start: int | None
    begin_snapshot: int
    mapping_id: int | None = None
    partition_values: tuple[tuple[int, str | None], ...] = ()
    snapshot_filter: int | None = None
    delete_file: DeleteFile | None = None
    inlined_deletes: tuple[int, ...] = ()
    encryption_key: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NameMapping:
    """How a column of the table is found in a file that was registered by name.

    Attributes:
        source_name: The name in the file, compared case-insensitively.
        field_id: The column's field id in the table.
        in_path: True where the value comes from the hive part of the path (`p=7/`), even if the file has the column.
        children: Mappings of the nested fields; a list has one child for its element, a map two.
    """

    source_name: str
    field_id: int
    in_path: bool = False
    children: tuple[NameMapping, ...] = ()


def load_data_files(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, data_file_ids: Sequence[int] | None = None
) -> tuple[DataFile, ...]:
    """The table's files that are visible at the snapshot, with what is deleted from them, by `data_file_id`.

    Args:
        transaction: The open transaction on the metadata.
        table: The table at that snapshot.
        snapshot_id: The snapshot.
        data_file_ids: Only these files, of those that are visible; all where None.

    Raises:
        CatalogError: A data file has two live delete files, so that the table's rows are not determined.
        UnsupportedError: A file has a format that lakeconf does not know.
    """
    wanted, parameters = _among("data_file_id", data_file_ids, 3)
    rows = transaction.rows(_DATA_FILES + wanted + " ORDER BY data_file_id", [snapshot_id, table.table_id, *parameters])
    files = [to_data_file(table, row) for row in rows]
    if not files:
        return ()
    delete_files = _delete_files(transaction, table, snapshot_id, data_file_ids)
    inlined_deletes = _inlined_deletes(transaction, table, snapshot_id, data_file_ids)
    is_partitioned = any(row[8] is not None for row in rows)
    partition_values = _partition_values(transaction, table, data_file_ids) if is_partitioned else {}
    return tuple(
        replace(
            file,
            partition_values=tuple(partition_values.get(file.data_file_id, ())),
            delete_file=delete_files.get(file.data_file_id),
            inlined_deletes=tuple(inlined_deletes.get(file.data_file_id, ())),
        )
        for file in files
    )


def to_data_file(table: TableInfo, row: Sequence[Any]) -> DataFile:
    """A data file as a row of the catalog has it: in the order of `_DATA_FILES`, and without what is deleted from it.

    Raises:
        UnsupportedError: It has a format that lakeconf does not know.
    """
    (
        file_id, path, is_relative, file_format, record_count, file_size_bytes, row_id_start, begin_snapshot, _,
        mapping_id, snapshot_filter, encryption_key,
    ) = row  # fmt: skip
    if file_format != "parquet":
        raise UnsupportedError(f"the data file {path!r} has the format {file_format!r}; lakeconf reads parquet")
    return DataFile(
        data_file_id=file_id,
        path=compose_path(table.path, path, is_relative=is_relative),
        record_count=record_count,
        file_size_bytes=file_size_bytes,
        row_id_start=row_id_start,
        begin_snapshot=begin_snapshot,
        mapping_id=mapping_id,
        snapshot_filter=snapshot_filter,
        encryption_key=encryption_key,
    )


def to_delete_file(table: TableInfo, row: Sequence[Any]) -> DeleteFile:
    """A delete file as a row of the catalog has it.

    Args:
        table: The table.
        row: Path, whether that is relative, format, row count, size and key.

    Raises:
        UnsupportedError: It has a format that lakeconf does not know.
    """
    path, is_relative, file_format, *rest = row
    file = DeleteFile(compose_path(table.path, path, is_relative=is_relative), file_format, *rest)
    if file_format not in _DELETE_FORMATS:
        raise UnsupportedError(
            f"the delete file {file.path!r} has the format {file_format!r}; "
            f"lakeconf knows {' and '.join(sorted(_DELETE_FORMATS))}"
        )
    return file


def load_name_mappings(
    transaction: MetadataTransaction, mapping_ids: Iterable[int]
) -> dict[int, tuple[NameMapping, ...]]:
    """The name mappings with these ids: of each, the mappings of the top-level columns."""
    wanted = sorted(set(mapping_ids))
    if not wanted:
        return {}
    where, parameters = _among("mapping_id", wanted, 1)
    children: dict[tuple[int, int | None], list[tuple[Any, ...]]] = defaultdict(list)
    for mapping_id, parent, *entry in transaction.rows(_NAME_MAPPINGS + where + " ORDER BY column_id", parameters):
        children[mapping_id, parent].append(tuple(entry))

    def below(mapping_id: int, parent: int | None) -> tuple[NameMapping, ...]:
        return tuple(
            NameMapping(source_name, field_id, bool(in_path), below(mapping_id, column_id))
            for column_id, source_name, field_id, in_path in children[mapping_id, parent]
        )

    return {mapping_id: below(mapping_id, None) for mapping_id in wanted}


def _delete_files(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, data_file_ids: Sequence[int] | None
) -> dict[int, DeleteFile]:
    wanted, parameters = _among("data_file_id", data_file_ids, 3)
    rows = transaction.rows(
        _DELETE_FILES + wanted + " ORDER BY delete_file_id", [snapshot_id, table.table_id, *parameters]
    )
    found: dict[int, DeleteFile] = {}
    for data_file_id, begin_snapshot, *row in rows:
        file = to_delete_file(table, row)
        if data_file_id in found:
            raise CatalogError(
                f"two delete files are live for the data file {data_file_id} of {table.schema_name}.{table.name} "
                f"at version {snapshot_id}: {found[data_file_id].path!r} and {file.path!r}; two deletes that ran "
                "at the same time have damaged the table",
                hint=f"only versions before {begin_snapshot} are whole; write the table anew",
            )
        found[data_file_id] = file
    return found


def _inlined_deletes(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, data_file_ids: Sequence[int] | None
) -> dict[int, list[int]]:
    name = inlined_deletes_table(table.table_id)
    found: dict[int, list[int]] = defaultdict(list)
    if not transaction.has_table(name):  # made when the first row is deleted that way
        return found
    wanted, parameters = _among("file_id", data_file_ids, 2)
    # Its `row_id` is the position in the file, whatever the row's id is.
    sql = f"SELECT DISTINCT file_id, row_id FROM {identifier(name)} WHERE begin_snapshot <= $1{wanted} ORDER BY ALL"  # noqa: S608
    for data_file_id, position in transaction.rows(sql, [snapshot_id, *parameters]):
        found[data_file_id].append(position)
    return found


def _partition_values(
    transaction: MetadataTransaction, table: TableInfo, data_file_ids: Sequence[int] | None
) -> dict[int, list[tuple[int, str | None]]]:
    wanted, parameters = _among("data_file_id", data_file_ids, 2)
    found: dict[int, list[tuple[int, str | None]]] = defaultdict(list)
    for data_file_id, *value in transaction.rows(
        _PARTITION_VALUES + wanted + " ORDER BY partition_key_index", [table.table_id, *parameters]
    ):
        found[data_file_id].append((value[0], value[1]))
    return found


def _among(column: str, ids: Sequence[int] | None, parameter: int) -> tuple[str, list[object]]:
    """The condition that `column` is one of `ids`, to be appended, and its parameters, the first with this number."""
    if ids is None:
        return "", []
    if not ids:
        return " AND false", []
    # The range reaches the metadata database's own index; what a long list excludes within it is left to DuckDB.
    reach = f" AND {column} BETWEEN {min(ids)} AND {max(ids)}"
    if len(ids) <= _FEW:
        return f"{reach} AND {column} IN ({', '.join(map(str, ids))})", []
    return f"{reach} AND {column} IN (SELECT unnest(${parameter}))", [list(ids)]
