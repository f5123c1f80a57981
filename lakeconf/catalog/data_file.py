"""Data files, delete files and inlined data of a table at one snapshot."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from lakeconf.catalog.paths import compose_path
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.table import TableInfo
from lakeconf.ducklake import inlined_deletes_table, visible_at
from lakeconf.errors import CatalogError, UnsupportedError
from lakeconf.sql import identifier

# The scanners for Postgres and SQLite push down lists of up to this many ids.
_FEW = 1000
_DELETE_FORMATS = {"parquet", "puffin"}
_NUMBERS = """data_file_id table_id begin_snapshot end_snapshot path_is_relative record_count file_size_bytes
    row_id_start partition_id mapping_id partial_max"""
_COLUMNS = {
    **dict.fromkeys(_NUMBERS.split(), "BIGINT"),
    **dict.fromkeys(("path", "file_format", "encryption_key"), "VARCHAR"),
}
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
        format: `parquet` (columns `file_path`, `pos` and optionally `_ducklake_internal_snapshot_id`) or `puffin`.
        delete_count: The number of its rows, of all snapshots.
        file_size_bytes: Its size in bytes.
        encryption_key: Base64 key of an encrypted file; None if it is not encrypted.
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
        path: Absolute path or URI, as in DuckDB's virtual column `filename`, except that `filename` is relative if the
            lake was attached with a relative data path.
        record_count: The number of rows in the file, including deleted rows.
        file_size_bytes: Its size in bytes.
        row_id_start: Row id of its first row; None if the file contains the row ids.
        begin_snapshot: The snapshot that added it.
        mapping_id: Its name mapping (`add_data_files`); None if columns are matched by field id.
        partition_values: Pairs of `partition_key_index` and value, as text, for the partitioning used to write it.
        snapshot_filter: If set, only rows with `_ducklake_internal_snapshot_id` up to this value are visible.
        delete_file: Its live delete file.
        inlined_deletes: 0-based positions deleted in the catalog, up to this snapshot.
        encryption_key: Base64 key of an encrypted file; None if it is not encrypted.
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
    """Maps a column of a registered file to a column of the table by name.

    Attributes:
        source_name: The name in the file, compared case-insensitively.
        field_id: The column's field id in the table.
        in_path: True if the value comes from the hive part of the path (`p=7/`), even if the file has the column.
        children: Mappings of nested fields; a list has one child for its element, a map has two.
    """

    source_name: str
    field_id: int
    in_path: bool = False
    children: tuple[NameMapping, ...] = ()


def load_data_files(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, data_file_ids: Sequence[int] | None = None
) -> tuple[DataFile, ...]:
    """Loads the table's visible files and their deletes, ordered by `data_file_id`.

    Args:
        transaction: The open metadata transaction.
        table: The table at that snapshot.
        snapshot_id: The snapshot.
        data_file_ids: Load only these files; None for all.

    Raises:
        CatalogError: A data file has two live delete files, so the table's rows are ambiguous.
        UnsupportedError: A file has an unsupported format.
    """
    wanted, parameters = _among("data_file_id", data_file_ids, 3)
    query = _DATA_FILES
    if data_file_ids and not parameters:
        few = transaction.selected("ducklake_data_file", _COLUMNS, f"true{wanted}")
        query = query.replace("FROM ducklake_data_file", f"FROM ({few})")
    rows = transaction.rows(query + wanted + " ORDER BY data_file_id", [snapshot_id, table.table_id, *parameters])
    if not rows:
        return ()
    delete_files = _delete_files(transaction, table, snapshot_id, data_file_ids)
    inlined_deletes = _inlined_deletes(transaction, table, snapshot_id, data_file_ids)
    is_partitioned = any(row[8] is not None for row in rows)
    partition_values = _partition_values(transaction, table, data_file_ids) if is_partitioned else {}
    return tuple(
        to_data_file(
            table,
            row,
            partition_values=tuple(partition_values.get(row[0], ())),
            delete_file=delete_files.get(row[0]),
            inlined_deletes=tuple(inlined_deletes.get(row[0], ())),
        )
        for row in rows
    )


def to_data_file(
    table: TableInfo,
    row: Sequence[Any],
    *,
    partition_values: tuple[tuple[int, str | None], ...] = (),
    delete_file: DeleteFile | None = None,
    inlined_deletes: tuple[int, ...] = (),
) -> DataFile:
    """Converts a row of the catalog, in the order of `_DATA_FILES`, to a data file.

    Raises:
        UnsupportedError: The file has an unsupported format.
    """
    (
        file_id, path, is_relative, file_format, record_count, file_size_bytes, row_id_start, begin_snapshot, _,
        mapping_id, snapshot_filter, encryption_key,
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
    )


def to_delete_file(table: TableInfo, row: Sequence[Any]) -> DeleteFile:
    """Converts a row of the catalog to a delete file.

    Args:
        table: The table.
        row: Path, True if the path is relative, format, row count, size in bytes, and encryption key.

    Raises:
        UnsupportedError: The file has an unsupported format.
    """
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
                f"the data file {data_file_id} of {table.full_name} has two live delete files "
                f"at version {snapshot_id}, {found[data_file_id].path!r} and {file.path!r}: two concurrent deletes "
                "damaged the table",
                hint=f"write the table again, from a version before {begin_snapshot}: only these are intact",
            )
        found[data_file_id] = file
    return found


def _inlined_deletes(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, data_file_ids: Sequence[int] | None
) -> dict[int, list[int]]:
    name = inlined_deletes_table(table.table_id)
    found: dict[int, list[int]] = defaultdict(list)
    if not transaction.has_table(name):  # DuckLake creates it with the first inlined delete
        return found
    wanted, parameters = _among("file_id", data_file_ids, 2)
    # Its `row_id` is the position in the file, not the row id.
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
