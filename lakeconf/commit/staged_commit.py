"""The temporary tables from which DuckLake's function `ducklake_commit` reads what to commit.

The function is not documented. It reads the columns by position, so a version of the extension with other columns could
read them wrongly: lakeconf calls it only in versions that its tests have run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lakeconf.catalog.data_file import folder_values, groups_of, inlined_deletes
from lakeconf.catalog.file_footers import ColumnStatistics, Footer, read_footers
from lakeconf.catalog.health import forgotten_bounds, table_bounds
from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import latest
from lakeconf.catalog.tables import TableInfo, load_table
from lakeconf.commit import journal
from lakeconf.commit.change import Body, Files, Replacement
from lakeconf.commit.deletions import Outcome, PositionFile
from lakeconf.commit.recovery import AttachedCatalog
from lakeconf.connection.connection import Connection
from lakeconf.connection.duckdb_errors import failed_before_commit
from lakeconf.ducklake import check_placeholders
from lakeconf.errors import CommitConflictError, CommitError, LakeconfError, TableNotFoundError
from lakeconf.sql import identifier, literal

Rows = Mapping[str, Sequence[Sequence[object]]]

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


def fill(connection: Connection, rows: Rows) -> None:
    """Creates the tables with their rows, by name without prefix, on a connection of their own.

    Its default database becomes DuckDB's memory: with a lake as the default, a query begins a transaction of DuckLake.
    """
    connection.execute("USE memory")
    for table, columns in COLUMNS.items():
        connection.execute(f"CREATE TEMP TABLE ducklake_staged_{table}({columns})")
    for table, values in rows.items():
        if values:
            listed = ", ".join(f"({', '.join(map(_sql, row))})" for row in values)
            connection.execute(f"INSERT INTO ducklake_staged_{table} VALUES {listed}")


def commit(connection: Connection, metadata_database: str, schema_version: int) -> int:
    """Commits what the tables contain, as the snapshot after that in `commit`, or not at all."""
    # Without retries, the commit fails if there is a newer snapshot.
    arguments = f"{literal(metadata_database)}, {schema_version}, max_retry_count => 0"
    ((snapshot_id, *_),) = connection.rows(f"FROM system.main.ducklake_commit({arguments})")
    return int(snapshot_id)


def is_metadata_of(connection: Connection, metadata_database: str, lake_id: str) -> bool:
    """True if the function finds the metadata of a lake by the name of its database, without a schema."""
    tables = f"{identifier(metadata_database)}.ducklake_schema"
    found = connection.rows(f"SELECT schema_uuid FROM {tables} ORDER BY schema_id, begin_snapshot LIMIT 1")
    return [str(uuid) for (uuid,) in found] == [lake_id]


def statistics_row(column: ColumnStatistics) -> Iterator[object]:
    """Yields the statistics of a column in a file, as the temporary table of statistics has them after the ids."""
    has_null_count, has_nan = column.null_count is not None, column.contains_nan is not None
    yield from (column.size, True, column.value_count, has_null_count, column.null_count)
    for bound in (column.low, column.high):
        yield from (bound is not None, bound)
    yield from (has_nan, column.contains_nan, column.has_ordered_values, None)


def _sql(value: object) -> str:
    if value is None or isinstance(value, bool | int):
        return "NULL" if value is None else str(value)
    return literal(str(value))


_KIND = "rewrite_delete"
_AGAIN = "try again, or when fewer writers change this table"
ReplacedRows = Mapping[str, list[tuple[object, ...]]]


def check_replaced(reader: CatalogReader, table: TableInfo, replacements: Sequence[Replacement], begun: int) -> None:
    """Rejects replacements if another writer has changed rows of the files, or if the new files have other rows."""
    wanted = {file.data_file_id: file for replacement in replacements for file in replacement.group.files}
    with reader.transaction() as transaction:
        groups = groups_of(transaction, table, begun)
        changed = inlined_deletes(transaction, table.table_id, begun) & wanted.keys()
        forgotten = forgotten_bounds(transaction, table.table_id, wanted)
    found = {file.data_file_id: file for group in groups for file in group.files}
    changed |= {file_id for file_id, file in wanted.items() if found.get(file_id) != file}
    if changed:
        raise changed_meanwhile(f"rows in {len(changed)} of {len(wanted)} files of {table.full_name}")
    for column in forgotten.values():
        raise CommitConflictError(
            f"another writer added a file without values in the column {column!r} to {table.full_name}, and DuckLake "
            "would forget the bounds of the column: nothing was written",
            hint=_AGAIN,
        )
    for replacement in replacements:
        written = replacement.footer.row_count
        if written != replacement.group.rows:
            # A delete that extends a file of deletes counts from the snapshot of that file: the plan then has too few.
            raise changed_meanwhile(f"{abs(written - replacement.group.rows)} rows of {table.full_name}")


def changed_meanwhile(what: str) -> CommitConflictError:
    """The error if another writer has changed what was written again."""
    message = f"another writer changed {what} while they were rewritten: nothing was written"
    return CommitConflictError(message, hint=_AGAIN)


def add_replacement(
    rows: ReplacedRows, replacement: Replacement, hidden: Callable[[str], str], bounds: Mapping[int, tuple[str, str]]
) -> None:
    """Adds a replacement to the temporary tables of a staged commit.

    Columns without values get the `bounds` of the table: because of a file without bounds, DuckLake would forget them
    in its next rewrite.
    """
    table, group, footer, number = replacement.table, replacement.group, replacement.footer, len(rows["data_file"])
    sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
    names = (number, table.table_id, number, hidden(footer.path), False, "parquet")
    # DuckLake takes the ids of the rows from the file.
    rows["data_file"].append((*names, *sizes, None, group.partition_id, *[None] * 4, number))
    rows["data_file_partition"] += [(number, index, value) for index, value in group.partition]
    for found in footer.statistics:
        column = _bounded(found, bounds)
        for bound in (column.low, column.high):
            check_placeholders(bound, f"a value of {table.full_name}")
        rows["data_file_column_stats"].append((number, table.table_id, column.field_id, *statistics_row(column)))
    rows["compaction"].append((number, table.table_id, _KIND, None, number))
    for order, file in enumerate(group.files):
        # DuckLake would compare the numbers of rows; `check_replaced` has done so.
        deletes: Sequence[object] = (None, None, None, None)
        # Nor does it need the names of replaced files.
        if file.delete_file is not None:
            deletes = (file.delete_file.delete_file_id, "", 0, None)
        source = (number, order, file.data_file_id, "", 0, file.begin_snapshot, None, 0)
        rows["compaction_source"].append((*source, *deletes))


def _bounded(column: ColumnStatistics, bounds: Mapping[int, tuple[str, str]]) -> ColumnStatistics:
    if column.has_ordered_values or column.field_id not in bounds:
        return column
    low, high = bounds[column.field_id]
    return replace(column, low=low, high=high)


# The first row id that the catalog records for a file with its own row ids; readers ignore it. DuckLake loses the ids
# when it merges files whose recorded ids are consecutive, so this is far from those of other files.
_OWN_ROW_IDS = 10**15
_SNAPSHOT = "SELECT schema_version, next_catalog_id, next_file_id FROM ducklake_snapshot WHERE snapshot_id = ?"


def table_of_keys(reader: CatalogReader, snapshot_id: int) -> TableInfo | None:
    """The table of idempotency keys, if it has the columns of the current version of lakeconf."""
    try:
        info = load_table(reader, journal.TABLE, snapshot_id)
    except TableNotFoundError:
        return None
    found = {column.name: column.type for column in info.columns}
    return info if found == journal.STORED_TYPES and all(column.nullable for column in info.columns) else None


def write_key(writer: Connection, keys: TableInfo, row: str, path: str) -> None:
    """Writes a file of the table of idempotency keys."""
    if "://" not in path:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
    ids = ", ".join(f"{identifier(column.name)}: {column.field_id}" for column in keys.columns)
    writer.execute(f"COPY ({row}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")


@dataclass(frozen=True)
class StagedCatalog(AttachedCatalog):
    """Like `AttachedCatalog`, but commits with `ducklake_commit` instead of the transaction, which only reads.

    The names that the function gets for files are below a folder that does not exist. It stores them relative to that
    folder. If the commit fails, or its reply is lost, it tries to remove the files, and finds none.
    """

    _staged: list[tuple[Rows, int]] = field(default_factory=list)
    _used: list[Connection] = field(default_factory=list)
    _committed: list[int] = field(default_factory=list)

    @property
    def data_path(self) -> str:
        """The folder that does not exist, instead of the lake's data path."""
        return f"/lakeconf-{self.token}/"

    def stage(self, bodies: Sequence[Body], begun: int, info: tuple[str | None, str | None, str]) -> bool:
        """Prepares the commit inside the transaction, which has read the snapshot `begun`."""
        with self.reader.transaction() as transaction:
            ((schema_version, *next_ids),) = transaction.rows(_SNAPSHOT, [begun])
            replaced = next((body.table for body in bodies if isinstance(body, Replacement)), None)
            bounds = {} if replaced is None else table_bounds(transaction, replaced.table_id)
        rows: dict[str, list[tuple[object, ...]]] = defaultdict(list)
        for body in bodies:
            if isinstance(body, Files):
                if body.staged.row_count != 0 and not body.staged.files:
                    raise AssertionError("a staged commit inserts no rows")
                for footer in read_footers(self.writer, body.staged.files, body.table.columns):
                    self._add_data_file(rows, body, footer)
            elif isinstance(body, Outcome):
                self._add_deleted(rows, body, begun)
            elif isinstance(body, Replacement):
                add_replacement(rows, body, self._hidden, bounds)
            else:
                raise AssertionError("a staged commit runs no statements")
        if replaced is not None:
            check_replaced(self.reader, replaced, [one for one in bodies if isinstance(one, Replacement)], begun)
        is_empty = not any(rows.values())
        rows["commit"].append((*info, begun, self.data_path, "/", *next_ids))
        self._staged[:] = [(rows, int(schema_version))]
        return not is_empty

    def commit(self) -> None:
        ((rows, schema_version),) = self._staged
        super().roll_back()
        cursor = self.writer.cursor()
        self._used.append(cursor)
        fill(cursor, rows)
        try:
            self._committed.append(commit(cursor, self.reader.metadata_database, schema_version))
        except CommitError as error:
            # Without the table, for example, DuckLake makes invalid SQL before it finds the newer snapshot.
            begun = rows["commit"][0][3]
            error.overtaken |= failed_before_commit(error) and latest(self.reader).snapshot_id != begun
            raise

    def roll_back(self) -> None:
        super().roll_back()
        # After Ctrl-C, the function may still be running: a statement on its connection waits for it.
        for cursor in self._used:
            try:
                cursor.rows("SELECT 1")
            except LakeconfError:
                continue

    def last_committed(self, begun: int) -> int:
        return max(begun, *self._committed)

    def release_written(self) -> None:
        super().release_written()
        while self._used:
            self._used.pop().close()

    def _hidden(self, path: str) -> str:
        """The name of a file for the function."""
        if not path.startswith(self.reader.data_path):
            raise CommitError(f"the file {path} is outside the data path {self.reader.data_path}: nothing was written")
        return self.data_path + path.removeprefix(self.reader.data_path)

    def _add_data_file(self, rows: dict[str, list[tuple[object, ...]]], body: Files, footer: Footer) -> None:
        number, table = len(rows["data_file"]), body.table
        first = _OWN_ROW_IDS if body.own_row_ids else None
        sizes = (footer.row_count, footer.file_size_bytes, footer.footer_size)
        path = self._hidden(footer.path)
        # DuckLake records a partitioning for the files of a table only while the table has keys.
        partition_id = table.partition_id if table.partition_fields else None
        ids = (first, partition_id)
        rows["data_file"].append((number, table.table_id, number, path, False, "parquet", *sizes, *ids, *[None] * 5))
        rows["data_file_column_stats"] += [
            (number, table.table_id, column.field_id, *statistics_row(column)) for column in footer.statistics
        ]
        if table.partition_fields:
            values = zip(table.partition_fields, folder_values(table, footer.path), strict=True)
            rows["data_file_partition"] += [(number, key.index, value) for key, value in values]

    def _add_deleted(self, rows: dict[str, list[tuple[object, ...]]], outcome: Outcome, begun: int) -> None:
        table, (dropped, files, inlined) = outcome.table, outcome.deleted(self.reader, self.writer, begun)
        found: dict[str, list[tuple[object, ...]]] = {
            "dropped_file": [(self._hidden(file.path), file.data_file_id) for file in dropped],
            "tables_deleted_from": [(table.table_id,)] if dropped else [],
            "inlined_delete": [(table.table_id, name, row_id) for name, row_id in inlined],
            "delete_file": [self._delete_file(table, file) for file in files],
        }
        for name, listed in found.items():
            rows[name] += listed

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
