"""Data files whose rows DuckDB writes again, in the order of their table."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lakeconf.catalog.column_types import NESTED, Fact, duckdb_name, has
from lakeconf.catalog.data_file import FileGroup
from lakeconf.catalog.file_footers import WIDEST_TEXT, ColumnStatistics, Footer
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.sort_keys import SortKey
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.connection import Connection, remove_files
from lakeconf.ducklake import INTERNAL_ROW_ID
from lakeconf.engines.engine import Staged
from lakeconf.engines.file_names import announce, manifest_path, placed_path, staging_folder
from lakeconf.engines.spark.write.parquet_options import lake_options
from lakeconf.errors import LakeconfError, StorageError, UnsupportedError
from lakeconf.sql import folded, identifier, literal, qualified

_PARTITION_FOLDER = re.compile(r"(?:[^/]*=[^/]*/)+", re.DOTALL)
# In the FIELD_IDS of COPY, the id of a nested column beside those of its fields.
_FIELD_ID = "__duckdb_field_id"
# The options of a lake, and those of COPY with the same meaning.
_OPTIONS = {
    "parquet_compression": "COMPRESSION",
    "parquet_compression_level": "COMPRESSION_LEVEL",
    "parquet_version": "PARQUET_VERSION",
    "parquet_row_group_size": "ROW_GROUP_SIZE",
    "parquet_row_group_size_bytes": "ROW_GROUP_SIZE_BYTES",
}
_NUMBERS = frozenset(("parquet_compression_level", "parquet_row_group_size"))
_NUMBER = re.compile(r"[0-9]{1,18}")


@dataclass(frozen=True)
class SortRequest:
    """A group of data files whose rows are written again to one file."""

    table: TableInfo
    snapshot_id: int  # the snapshot at which the rows are read; the catalog contains no rows of the table itself
    group: FileGroup
    keys: tuple[SortKey, ...]  # the order of the rows; empty for any order
    token: str  # the ID of this write

    @property
    def folder(self) -> str:
        """The staging folder, which has the manifest of the files."""
        return staging_folder(self.table, self.token)

    @property
    def path(self) -> str:
        """The path of the new file: in the staging folder, or in the folder of its partition."""
        group = self.group
        if group.partition_id is None:
            return f"{self.folder}0.parquet"
        folder = (group.folder or "").removeprefix(self.table.path)
        if not _PARTITION_FOLDER.fullmatch(folder):
            raise UnsupportedError(
                f"the files of a partition of {self.table.full_name} are not in a folder of their own",
                hint="write the rows again: lake.table(…).overwrite(…)",
            )
        return placed_path(self.table, folder, self.token, 0)


@dataclass(frozen=True)
class SortedFile:
    """A new file with the rows of a `SortRequest`, and the ids of these rows."""

    staged: Staged
    footer: Footer  # what its footer says, with bounds that DuckLake can keep


def stage_sorted(writer: Connection, reader: CatalogReader, request: SortRequest) -> SortedFile:
    """Writes the rows of data files to a new file, in an order and with their row ids."""
    path = request.path
    announce(writer, request.folder, reader.lake_id)
    try:
        footer = write_sorted(writer, reader.alias, request, path)
    except BaseException:
        with contextlib.suppress(LakeconfError):
            remove_files(writer, [path, manifest_path(request.folder)])
        raise
    return SortedFile(Staged("", (path,), folder=request.folder, row_count=0), footer)


def write_sorted(writer: Connection, alias: str, request: SortRequest, path: str) -> Footer:
    """Writes the file of a request."""
    table = request.table
    for column in table.columns:
        _check(column, column.name)
    settings = _copy_options(lake_options(writer, table), table)
    if "://" not in path:
        try:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(f"the folder {Path(path).parent} cannot be created: {error.strerror}") from error
    numbers = {column.name for column in table.columns if has(column.type, Fact.FLOAT)}
    order = ", ".join(key.sql_of_number if key.column in numbers else key.sql for key in request.keys)
    rows = _rows(alias, request) + (f" ORDER BY {order}" if order else "")
    with writer.cursor() as cursor:
        return _copied(cursor, rows, path, table, settings)


def _check(column: Column, name: str) -> None:
    # DuckDB's COPY writes opaque values in another way than DuckLake does, and unknown ones differently or not at all.
    is_known = column.type in NESTED or duckdb_name(column.type) is not None
    if not is_known or has(column.type, Fact.OPAQUE) or folded(column.name) == _FIELD_ID:
        raise UnsupportedError(
            f"the column {name!r} of type {column.type} cannot be written again exactly",
            hint="let DuckLake sort new files: lake.create_table(…, sorted_by=…)",
        )
    for child in column.children:
        _check(child, f"{name}.{child.name}")


def _rows(alias: str, request: SortRequest) -> str:
    table = request.table
    name = qualified(alias, table.schema_name, table.name)
    columns = ", ".join(identifier(column.name) for column in table.columns)
    where = f" WHERE filename IN ({', '.join(literal(file.path) for file in request.group.files)})"
    row_id = identifier(INTERNAL_ROW_ID.name)
    return f"SELECT {columns}, rowid AS {row_id} FROM {name} AT (VERSION => {request.snapshot_id}){where}"


def _copy_options(options: Mapping[str, object], table: TableInfo) -> str:
    if str(options.get("encrypted", "false")).lower() == "true":
        raise UnsupportedError(f"the files of {table.full_name} are encrypted, and would be written unencrypted")
    clauses = []
    for name, option in _OPTIONS.items():
        if name in options:
            text = str(options[name])
            text = f"V{text.lstrip('Vv')}" if name == "parquet_version" else text
            if name in _NUMBERS and not _NUMBER.fullmatch(text):
                raise UnsupportedError(f"the lake's option {name} is {text!r}, which is not a number")
            clauses.append(f", {option} {text if name in _NUMBERS else literal(text)}")
    ids = [*map(_field_id, table.columns), f"{literal(INTERNAL_ROW_ID.name)}: {INTERNAL_ROW_ID.field_id}"]
    return f"FORMAT parquet, RETURN_STATS, FIELD_IDS {{{', '.join(ids)}}}{''.join(clauses)}"


def _field_id(column: Column) -> str:
    if not column.children:
        return f"{literal(column.name)}: {column.field_id}"
    parts = [f"{_FIELD_ID}: {column.field_id}", *map(_field_id, column.children)]
    return f"{literal(column.name)}: {{{', '.join(parts)}}}"


def _copied(connection: Connection, query: str, path: str, table: TableInfo, settings: str) -> Footer:
    copied = connection.rows(f"COPY ({query}) TO {literal(path)} ({settings})")
    if len(copied) != 1:
        raise LakeconfError(f"DuckDB reported {len(copied)} files instead of one")
    (_, count, size, footer_size, by_column, *_) = copied[0]
    leaves = dict(_leaves(table.columns))
    if leaves.keys() - by_column.keys():
        raise StorageError(f"DuckDB reported no statistics of {min(leaves.keys() - by_column.keys())} in {path}")
    statistics = tuple(_statistics(column, by_column[name]) for name, column in leaves.items())
    return Footer(path, int(count), int(size), int(footer_size), statistics)


def _leaves(columns: Sequence[Column], parent: str = "") -> Iterator[tuple[str, Column]]:
    """The columns that a file stores, by their names in the statistics of COPY."""
    for column in columns:
        name = f"{parent}{identifier(column.name)}"
        if column.children:
            yield from _leaves(column.children, f"{name}.")
        else:
            yield name, column


def _statistics(column: Column, reported: Mapping[str, str]) -> ColumnStatistics:
    low, high, has_nan = reported.get("min"), reported.get("max"), reported.get("has_nan")
    if "\0" in f"{low}{high}":  # no bound of a catalog can contain it
        low, high = WIDEST_TEXT
    return ColumnStatistics(
        column.field_id,
        int(reported.get("column_size_bytes", 0)),
        int(reported.get("num_values", 0)),
        int(reported["null_count"]) if "null_count" in reported else None,
        low,
        high,
        None if has_nan is None else has_nan == "true",
    )
