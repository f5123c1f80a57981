"""Checks of a table that DuckDB's statistics and partition values fit its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lake_parts import catalog_of
from merge_cases import KEYS, OTHERS, fetched

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.tables import load_table
from lakeconf.sql import literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from lakeconf import Lake

_PARTITIONS = """
    SELECT f.path, v.partition_key_index, v.partition_value
    FROM __ducklake_metadata_dev.ducklake_data_file AS f
    LEFT JOIN __ducklake_metadata_dev.ducklake_file_partition_value AS v ON v.data_file_id = f.data_file_id
    WHERE f.table_id = {table_id} AND f.partition_id = {partition_id} AND f.end_snapshot IS NULL
"""


def filtered(connection: duckdb.DuckDBPyConnection, name: str, columns: Mapping[str, str]) -> dict[str, object]:
    """The number of rows for conditions that DuckDB answers with statistics; a new connection has read none."""
    counts: dict[str, object] = {}
    # In a table of their own, because statistics of the lake may make DuckDB skip a filter anywhere in a query.
    connection.execute(f"CREATE OR REPLACE TEMP TABLE copied AS FROM dev.{name}")
    for column, found in columns.items():
        # DuckDB's Bloom filters of BLOB, and DuckLake's bounds of FLOAT, lose rows however they were committed.
        listed = [] if found in ("BLOB", "FLOAT") else OTHERS[found]
        # DuckDB's dictionaries of Parquet files contain one of 0.0 and -0.0 for both.
        values = [f"CAST({text} AS {found})" for text in listed if "0.0" not in text]
        asked = [f"{column} IS NULL", f"{column} IS NOT NULL", *(f"{column} = {value}" for value in values)]
        asked += [f"{column} {sign} {value}" for value in values if found in KEYS for sign in ("<=", ">")]
        pruned = ", ".join(f"(SELECT count(*) FROM dev.{name} WHERE {condition})" for condition in asked)
        whole = ", ".join(f"count(*) FILTER ({condition})" for condition in asked)
        (by_statistics,) = connection.execute(f"SELECT {pruned}").fetchall()
        (by_rows,) = connection.execute(f"SELECT {whole} FROM temp.main.copied").fetchall()
        assert by_statistics == by_rows, dict(zip(asked, zip(by_statistics, by_rows, strict=True), strict=True))
        counts |= dict(zip(asked, by_rows, strict=True))
    return counts


def check_partitions(lake: Lake, name: str) -> int:
    """Compares the values of the current partitioning with the rows; returns the number of files with values."""
    info = load_table(catalog_of(lake), name, lake.snapshot_id)
    if not info.partition_fields:
        return 0
    query = _PARTITIONS.format(table_id=info.table_id, partition_id=info.partition_id)
    found = [(path.rpartition("/")[2], index, value) for path, index, value in fetched(lake, query)]
    columns = {column.field_id: column for column in info.columns}
    for key in info.partition_fields:
        values = [(file, value) for file, index, value in found if index == key.index]
        assert len(values) == len({file for file, _, _ in found})
        if not values or key.transform.startswith("bucket"):
            continue
        column = columns[key.field_id]
        expression = column.name if key.transform == "identity" else f"{key.transform}({column.name})"
        wanted = duckdb_name(column.type) if key.transform == "identity" else "BIGINT"
        listed = ", ".join(
            f"({literal(file)}, {'NULL' if value is None else literal(value)})" for file, value in values
        )
        rows = f"""
            SELECT m.file, m.value, {expression} FROM dev.{name}
            JOIN (VALUES {listed}) AS m(file, value) ON parse_filename(filename) = m.file
            WHERE TRY_CAST(m.value AS {wanted}) IS DISTINCT FROM {expression}
        """
        assert fetched(lake, rows) == [], key
    return len({file for file, _, _ in found})
