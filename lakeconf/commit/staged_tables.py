"""The temporary tables from which DuckLake's function `ducklake_commit` reads what to commit.

The function is not documented. It reads the columns by position, so a version of the extension with other columns could
read them wrongly: lakeconf calls it only in versions that its tests have run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lakeconf.catalog.file_footers import ColumnStatistics
from lakeconf.connection.connection import Connection
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
    """Creates the tables with their rows.

    Args:
        connection: A connection of its own: the default database becomes DuckDB's memory, because a query with a lake
            as the default begins a transaction of DuckLake.
        rows: The rows by table, without the prefix of its name.
    """
    connection.execute("USE memory")
    for table, columns in COLUMNS.items():
        connection.execute(f"CREATE TEMP TABLE ducklake_staged_{table}({columns})")
    for table, values in rows.items():
        if values:
            listed = ", ".join(f"({', '.join(map(_sql, row))})" for row in values)
            connection.execute(f"INSERT INTO ducklake_staged_{table} VALUES {listed}")


def commit(connection: Connection, metadata_database: str, schema_version: int) -> int:
    """Commits what the tables contain, as the snapshot after that in `commit`, or not at all.

    Args:
        connection: The connection with the tables.
        metadata_database: The name of the metadata database.
        schema_version: The version of the lake's schema.

    Returns:
        The new snapshot.
    """
    # Without retries, the commit fails if there is a newer snapshot.
    arguments = f"{literal(metadata_database)}, {schema_version}, max_retry_count => 0"
    ((snapshot_id, *_),) = connection.rows(f"FROM system.main.ducklake_commit({arguments})")
    return int(snapshot_id)


def is_metadata_of(connection: Connection, metadata_database: str, lake_id: str) -> bool:
    """True if the function finds the metadata of a lake by the name of its database, without a schema.

    Args:
        connection: A connection with the lake attached.
        metadata_database: The name of the metadata database.
        lake_id: The id of the lake.
    """
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
