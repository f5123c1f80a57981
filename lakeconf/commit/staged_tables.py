"""The temporary tables from which DuckLake's function `ducklake_commit` reads what to commit.

The function is not documented. It reads the columns by position, so a version of the extension with other columns could
read them wrongly: lakeconf calls it only in versions that its tests have run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakeconf.catalog.data_file import folder_values, groups_of, inlined_deletes
from lakeconf.catalog.file_footers import ColumnStatistics, Footer, read_footers
from lakeconf.catalog.health import forgotten_bounds, table_bounds
from lakeconf.ducklake import OWN_ROW_IDS, check_placeholders
from lakeconf.errors import CommitConflictError, CommitError
from lakeconf.sql import identifier, literal

if TYPE_CHECKING:
    from lakeconf.catalog.data_file import DataFile, FileGroup
    from lakeconf.catalog.reader import CatalogReader
    from lakeconf.catalog.tables import TableInfo
    from lakeconf.commit.positions import PositionFile
    from lakeconf.connection.connection import Connection

_STATISTICS = (
    "column_size_bytes BIGINT, has_num_values BOOLEAN, num_values BIGINT, has_null_count BOOLEAN, null_count BIGINT, "
    "has_min BOOLEAN, min_value VARCHAR, has_max BOOLEAN, max_value VARCHAR, has_contains_nan BOOLEAN, "
    "contains_nan BOOLEAN, any_valid BOOLEAN, extra_stats VARCHAR"
)

# https://github.com/duckdb/ducklake, src/storage/ducklake_staged_commit.cpp. All tables must exist.
COLUMNS = {
    "commit": "commit_author VARCHAR, commit_message VARCHAR, commit_extra_info VARCHAR, "
    "transaction_snapshot_id BIGINT, data_path VARCHAR, path_separator VARCHAR, transaction_next_catalog_id UBIGINT, "
    "transaction_next_file_id UBIGINT",
    "data_file": "data_file_id BIGINT, table_id BIGINT, file_order BIGINT, path VARCHAR, path_is_relative BOOLEAN, "
    "file_format VARCHAR, record_count BIGINT, file_size_bytes BIGINT, footer_size BIGINT, row_id_start BIGINT, "
    "partition_id BIGINT, encryption_key VARCHAR, mapping_id UBIGINT, partial_max BIGINT, begin_snapshot BIGINT, "
    "compaction_id BIGINT",
    "data_file_column_stats": f"data_file_id BIGINT, table_id BIGINT, column_id BIGINT, {_STATISTICS}",
    "data_file_partition": "local_file_id BIGINT, partition_column_idx BIGINT, partition_value VARCHAR",
    "delete_file": "table_id BIGINT, data_file_path VARCHAR, data_file_id BIGINT, file_name VARCHAR, format VARCHAR, "
    "delete_count BIGINT, file_size_bytes BIGINT, footer_size BIGINT, encryption_key VARCHAR, begin_snapshot BIGINT, "
    "max_snapshot BIGINT, source VARCHAR, overwrites_existing_delete BOOLEAN, overwrite_delete_file_id BIGINT, "
    "overwrite_delete_file_path VARCHAR, attached_local_file_id BIGINT",
    "inlined_data": "table_id BIGINT, has_preserved_row_ids BOOLEAN",
    "inlined_row": "table_id BIGINT, row_order BIGINT, preserved_row_id BIGINT, value_literals VARCHAR",
    "inlined_column_stats": f"table_id BIGINT, column_id BIGINT, {_STATISTICS}",
    "inlined_delete": "table_id BIGINT, inlined_table_name VARCHAR, deleted_row_id BIGINT",
    "inlined_file_delete": "table_id BIGINT, file_id BIGINT, deleted_row_id BIGINT",
    "dropped_file": "path VARCHAR, data_file_id BIGINT",
    "tables_deleted_from": "table_id BIGINT",
    "flushed_inlined": "inlined_table_name VARCHAR, schema_version BIGINT, flush_snapshot_id BIGINT",
    "compaction": "compaction_id BIGINT, table_id BIGINT, compaction_type VARCHAR, row_id_start BIGINT, "
    "output_local_file_id BIGINT",
    "compaction_source": "compaction_id BIGINT, source_order BIGINT, source_data_file_id BIGINT, "
    "source_path VARCHAR, source_row_count BIGINT, source_begin_snapshot BIGINT, "
    "source_max_partial_file_snapshot BIGINT, source_inlined_delete_count BIGINT, last_delete_file_id BIGINT, "
    "last_delete_path VARCHAR, last_delete_row_count BIGINT, last_delete_end_snapshot BIGINT",
    "name_map": "map_id UBIGINT, table_id BIGINT",
    "name_map_entry": "map_id UBIGINT, entry_id BIGINT, parent_entry_id BIGINT, source_name VARCHAR, "
    "target_field_id BIGINT, hive_partition BOOLEAN",
}

_REWRITE = "rewrite_delete"
_AGAIN = "try again, or when fewer writers change this table"
_SNAPSHOT = "SELECT schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot WHERE snapshot_id = ?"


class StagedTables:
    """The rows of the tables, for a commit that builds on a snapshot.

    The names that the function gets for files are below a folder that does not exist. It stores them relative to that
    folder. If the commit fails, or its reply is lost, it tries to remove the files, and finds none.

    Args:
        reader: Reads the catalog of the lake.
        writer: Reads and writes files.
        begun: The snapshot on which the commit builds.
        folder: The folder that does not exist, instead of the lake's data path.
    """

    def __init__(self, reader: CatalogReader, writer: Connection, begun: int, folder: str) -> None:
        self.reader, self.writer, self.begun = reader, writer, begun
        self._folder = folder
        self._rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to commit."""
        return not any(self._rows.values())

    def add_data_files(self, table: TableInfo, paths: Sequence[str], *, own_row_ids: bool) -> None:
        """Adds files with new rows, or with `own_row_ids`, with rows that move to them."""
        # DuckLake records a partitioning for the files of a table only while the table has keys.
        partition_id = table.partition_id if table.partition_fields else None
        ids = (OWN_ROW_IDS if own_row_ids else None, partition_id)
        for footer in read_footers(self.writer, paths, table.columns):
            number = self._add_file(table, footer, *ids, *[None] * 5)
            self._add_statistics(table, number, footer.statistics)
            if table.partition_fields:
                values = zip(table.partition_fields, folder_values(table, footer.path), strict=True)
                self._rows["data_file_partition"] += [(number, key.index, value) for key, value in values]

    def replace_files(self, table: TableInfo, groups: Sequence[tuple[FileGroup, Footer]]) -> None:
        """Replaces groups of files by one file each.

        Columns without values get the bounds of the table: because of a file without bounds, DuckLake would forget them
        in its next rewrite.
        """
        with self.reader.transaction() as transaction:
            bounds = table_bounds(transaction, table.table_id)
        for group, footer in groups:
            # DuckLake takes the ids of the rows from the file.
            number = self._add_file(table, footer, None, group.partition_id, *[None] * 4, len(self._rows["data_file"]))
            self._rows["data_file_partition"] += [(number, index, value) for index, value in group.partition]
            statistics = [with_bounds(column, bounds) for column in footer.statistics]
            for column in statistics:
                for bound in (column.low, column.high):
                    check_placeholders(bound, f"a value of {table.full_name}")
            self._add_statistics(table, number, statistics)
            self._rows["compaction"].append((number, table.table_id, _REWRITE, None, number))
            for order, file in enumerate(group.files):
                # DuckLake would compare the numbers of rows; `_check_replaced` does so. Nor does it need the names of
                # replaced files.
                deleted = file.delete_file
                deletes = (None, None, None, None) if deleted is None else (deleted.delete_file_id, "", 0, None)
                source = (number, order, file.data_file_id, "", 0, file.begin_snapshot, None, 0)
                self._rows["compaction_source"].append((*source, *deletes))
        self._check_replaced(table, groups)

    def delete_rows(
        self,
        table: TableInfo,
        dropped: Sequence[DataFile],
        files: Sequence[PositionFile],
        inlined: Sequence[tuple[str, int]],
    ) -> None:
        """Deletes whole files, positions in files, and rows in the catalog, by table of the catalog and row id."""
        self._rows["dropped_file"] += [(self._hidden(file.path), file.data_file_id) for file in dropped]
        self._rows["tables_deleted_from"] += [(table.table_id,)] if dropped else []
        self._rows["inlined_delete"] += [(table.table_id, name, row_id) for name, row_id in inlined]
        self._rows["delete_file"] += [self._delete_file(table, file) for file in files]

    def describe(self, author: str | None, message: str | None, info: str) -> int:
        """Adds the description of the commit, and returns the schema version of the snapshot on which it builds."""
        with self.reader.transaction() as transaction:
            ((schema_version, *next_ids),) = transaction.rows(_SNAPSHOT, [self.begun])
        self._rows["commit"] = [(author, message, info, self.begun, self._folder, "/", *next_ids)]
        return int(schema_version)

    def fill(self, connection: Connection) -> None:
        """Creates the tables with their rows on a connection of their own.

        Its default database becomes DuckDB's memory: with a lake as the default, a query begins a transaction of
        DuckLake.
        """
        connection.execute("USE memory")
        for table, columns in COLUMNS.items():
            connection.execute(f"CREATE TEMP TABLE ducklake_staged_{table}({columns})")
        for table, rows in self._rows.items():
            if rows:
                listed = ", ".join(f"({', '.join(map(_sql, row))})" for row in rows)
                connection.execute(f"INSERT INTO ducklake_staged_{table} VALUES {listed}")

    def _add_file(self, table: TableInfo, footer: Footer, *rest: object) -> int:
        """Adds a data file, and returns its number in this commit."""
        number = len(self._rows["data_file"])
        sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
        names = (number, table.table_id, number, self._hidden(footer.path), False, "parquet")
        self._rows["data_file"].append((*names, *sizes, *rest))
        return number

    def _add_statistics(self, table: TableInfo, number: int, columns: Iterable[ColumnStatistics]) -> None:
        self._rows["data_file_column_stats"] += [
            (number, table.table_id, column.field_id, *statistics_row(column)) for column in columns
        ]

    def _delete_file(self, table: TableInfo, file: PositionFile) -> tuple[object, ...]:
        (footer,) = read_footers(self.writer, [file.path])
        if footer.row_count != file.row_count:
            raise CommitError(f"{file.path} contains {footer.row_count} positions instead of {file.row_count}")
        sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
        names = (table.table_id, file.data_file.path, file.data_file.data_file_id, self._hidden(file.path), "parquet")
        earlier = file.data_file.delete_file
        if earlier is None:
            return (*names, *sizes, None, None, None, "REGULAR", False, None, None, None)
        replaced = (True, earlier.delete_file_id, self._hidden(earlier.path))
        return (*names, *sizes, None, earlier.begin_snapshot, file.snapshot_id, "REGULAR", *replaced, None)

    def _hidden(self, path: str) -> str:
        """The name of a file for the function."""
        if not path.startswith(self.reader.data_path):
            raise CommitError(f"the file {path} is outside the data path {self.reader.data_path}: nothing was written")
        return self._folder + path.removeprefix(self.reader.data_path)

    def _check_replaced(self, table: TableInfo, groups: Sequence[tuple[FileGroup, Footer]]) -> None:
        """Rejects replacements if another writer has changed rows of the files, or if the new files have other rows."""
        replaced = {file.data_file_id: file for group, _ in groups for file in group.files}
        with self.reader.transaction() as transaction:
            latest = groups_of(transaction, table, self.begun)
            changed = inlined_deletes(transaction, table.table_id, self.begun) & replaced.keys()
            forgotten = forgotten_bounds(transaction, table.table_id, replaced)
        files = {file.data_file_id: file for group in latest for file in group.files}
        changed |= {file_id for file_id, file in replaced.items() if files.get(file_id) != file}
        if changed:
            raise changed_meanwhile(f"rows in {len(changed)} of {len(replaced)} files of {table.full_name}")
        for column in forgotten.values():
            raise CommitConflictError(
                f"another writer added a file without values in the column {column!r} to {table.full_name}, and "
                "DuckLake would forget the bounds of the column: nothing was written",
                hint=_AGAIN,
            )
        for group, footer in groups:
            if footer.row_count != group.rows:
                # A delete that extends a file of deletes counts from the snapshot of that file: the plan has too few.
                raise changed_meanwhile(f"{abs(footer.row_count - group.rows)} rows of {table.full_name}")


def commit_tables(connection: Connection, metadata_database: str, schema_version: int) -> int:
    """Commits what the tables contain, as the snapshot after the one on which they build, or not at all."""
    # Without retries, the commit fails if there is a newer snapshot.
    arguments = f"{literal(metadata_database)}, {schema_version}, max_retry_count => 0"
    ((snapshot_id, *_),) = connection.rows(f"FROM system.main.ducklake_commit({arguments})")
    return int(snapshot_id)


def is_metadata_of(connection: Connection, metadata_database: str, lake_id: str) -> bool:
    """True if the function finds the metadata of a lake by the name of its database, without a schema."""
    tables = f"{identifier(metadata_database)}.ducklake_schema"
    rows = connection.rows(f"SELECT schema_uuid FROM {tables} ORDER BY schema_id, begin_snapshot LIMIT 1")
    return [str(uuid) for (uuid,) in rows] == [lake_id]


def changed_meanwhile(what: str) -> CommitConflictError:
    """The error if another writer has changed what was written again."""
    message = f"another writer changed {what} while they were rewritten: nothing was written"
    return CommitConflictError(message, hint=_AGAIN)


def statistics_row(column: ColumnStatistics) -> Iterator[object]:
    """Yields the statistics of a column in a file, as the temporary table of statistics has them after the ids."""
    has_null_count, has_nan = column.null_count is not None, column.contains_nan is not None
    yield from (column.size, True, column.value_count, has_null_count, column.null_count)
    for bound in (column.low, column.high):
        yield from (bound is not None, bound)
    yield from (has_nan, column.contains_nan, column.has_ordered_values, None)


def with_bounds(column: ColumnStatistics, bounds: Mapping[int, tuple[str, str]]) -> ColumnStatistics:
    """The statistics of a column; without ordered values, those of the table take the place of its bounds."""
    if column.has_ordered_values or column.field_id not in bounds:
        return column
    low, high = bounds[column.field_id]
    return replace(column, low=low, high=high)


def _sql(value: object) -> str:
    if value is None or isinstance(value, bool | int):
        return "NULL" if value is None else str(value)
    return literal(str(value))
