"""The folders in which DuckLake stores the files of a partitioned table, as far as other writers can register files."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

from lakeconf.catalog.table import NO_ID, Column, TableInfo
from lakeconf.errors import StorageError
from lakeconf.sql import folded

# For each transform, the types for which it has the same meaning in Spark and DuckDB. The parts of a TIMESTAMPTZ depend
# on the session's time zone; DuckDB treats -0.0 and 0.0 as one partition; it cannot write each BLOB into a path.
_DATES = frozenset(("date", "timestamp"))
_TYPES = {
    "identity": frozenset(("boolean", "int8", "int16", "int32", "int64", "varchar", "timestamptz", *_DATES)),
    **dict.fromkeys(("year", "month", "day"), _DATES),
    "hour": frozenset(("timestamp",)),
}
# DuckLake encodes other characters in the name of a key, but does not decode them.
_KEY_NAME = re.compile(r"[A-Za-z0-9_.~-]+")
# DuckLake stores tables and schemas with other names in folders that it names itself at the commit.
_FOLDER_NAME = re.compile(r"[A-Za-z0-9_-]+")
# The value in a path that stands for NULL.
NULL_VALUE = "__HIVE_DEFAULT_PARTITION__"


@dataclass(frozen=True, slots=True)
class FolderKey:
    """A partition key as a part of the path of a file: `name=value/`.

    Attributes:
        name: The name in the path, before it is encoded.
        column: The column.
        transform: `identity`, `year`, `month`, `day` or `hour`.
    """

    name: str
    column: Column
    transform: str


def folder_keys(table: TableInfo, *, registered: bool = True) -> tuple[FolderKey, ...]:
    """The parts of the paths of a table's files, in order; empty if files in such folders cannot be committed.

    Args:
        table: The table.
        registered: True if DuckLake reads the values of the files from their paths. It confuses two keys on one column,
            and folders above the table that look like keys.
    """
    columns = {column.field_id: column for column in table.columns}
    fields = table.partition_fields
    if registered and (len({field.field_id for field in fields}) < len(fields) or "=" in table.path):
        return ()
    if not _is_folder_known(table):
        return ()
    keys: list[FolderKey] = []
    taken = {folded(column.name) for column in table.columns}
    for field in fields:
        column = columns.get(field.field_id)
        if column is None or not _is_supported(column, field.transform):
            return ()
        name = column.name
        if field.transform != "identity":
            # The second key with a transform also has the name of its column.
            is_first = all(field.transform != key.name for key in keys)
            name = field.transform if is_first else f"{field.transform}_{column.name}"
            if folded(name) in taken:
                return ()
        if not _KEY_NAME.fullmatch(name):
            return ()
        keys.append(FolderKey(name, column, field.transform))
    return tuple(keys)


def folder_values(table: TableInfo, path: str) -> tuple[str | None, ...]:
    """The partition values of a file in the folder of its partition, in the order of the keys.

    Args:
        table: The table.
        path: The path of the file.

    Raises:
        StorageError: The file is not in such a folder.
    """
    names = [key.name for key in folder_keys(table, registered=False)]
    *folders, _ = path.removeprefix(table.path).split("/")
    parts = [folder.partition("=") for folder in folders]
    if not path.startswith(table.path) or [unquote(name) for name, _, _ in parts] != names:
        raise StorageError(f"{path} is not in the folder of a partition of {table.full_name}")
    return tuple(None if value == NULL_VALUE else unquote(value, errors="strict") for _, _, value in parts)


def _is_folder_known(table: TableInfo) -> bool:
    names = (table.schema_name, table.name)
    return table.table_id != NO_ID or all(_FOLDER_NAME.fullmatch(name) for name in names)


def _is_supported(column: Column, transform: str) -> bool:
    is_decimal = transform == "identity" and column.type.startswith("decimal(")
    return is_decimal or column.type in _TYPES.get(transform, ())
