"""Finds older snapshots of which DuckLake forgot the deleted rows, or shows rows twice.

When DuckLake extends a deletion vector, it keeps only the longer one, from its own snapshot on. In earlier snapshots,
all rows of the file are visible again, also deleted ones: https://github.com/duckdb/ducklake/issues/1072

A flush can give a delete file to a file that a rewrite has replaced. In snapshots before the rewrite, the file then has
two, and DuckDB returns its rows once for each: https://github.com/duckdb/ducklake/issues/1406
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakeconf.ducklake import visible_at
from lakeconf.errors import CatalogError, UnsupportedError

if TYPE_CHECKING:
    from lakeconf.catalog.reader import MetadataTransaction

# A file that had no delete file yet, though rows of its table had been deleted, and that has a vector later.
_FORGOTTEN = f"""
    SELECT 'vector' AS kind, d.data_file_id AS data_file_id
    FROM ducklake_delete_file AS d JOIN ducklake_data_file AS f ON f.data_file_id = d.data_file_id
    WHERE d.table_id = $2 AND d.format = 'puffin' AND d.begin_snapshot > $1 AND f.begin_snapshot <= $1
        AND NOT EXISTS (SELECT 1 FROM ducklake_delete_file AS o
            WHERE o.data_file_id = d.data_file_id AND {visible_at(row="o")})
        AND EXISTS (SELECT 1 FROM ducklake_snapshot_changes AS c
            WHERE c.snapshot_id > f.begin_snapshot AND c.snapshot_id <= $1
                AND ',' || c.changes_made || ',' LIKE '%,deleted_from_table:' || CAST($2 AS VARCHAR) || ',%')
    LIMIT 1
"""  # noqa: S608
_PAIRS = """
    ducklake_delete_file AS d
    JOIN ducklake_delete_file AS o ON o.data_file_id = d.data_file_id AND o.delete_file_id > d.delete_file_id
    JOIN ducklake_data_file AS f ON f.data_file_id = d.data_file_id
"""
_DOUBLED = f"""
    SELECT 'two' AS kind, d.data_file_id AS data_file_id FROM {_PAIRS}
    WHERE d.table_id = $2 AND {visible_at(row="d")} AND {visible_at(row="o")} AND {visible_at(row="f")}
        AND $1 < (SELECT max(snapshot_id) FROM ducklake_snapshot)
    LIMIT 1
"""  # noqa: S608
_WRONG = f"SELECT * FROM ({_FORGOTTEN}) AS forgotten UNION ALL SELECT * FROM ({_DOUBLED}) AS doubled"  # noqa: S608
_END = "coalesce({}.end_snapshot, 9223372036854775807)"
_MAY_BE_WRONG = f"""
    SELECT DISTINCT t.table_id, s.schema_name, t.table_name
    FROM (
        SELECT table_id FROM ducklake_delete_file WHERE format = 'puffin'
        UNION SELECT d.table_id FROM {_PAIRS}
        WHERE greatest(d.begin_snapshot, o.begin_snapshot, f.begin_snapshot)
            < least({_END.format("d")}, {_END.format("o")}, {_END.format("f")})
    ) AS w
    JOIN ducklake_table AS t ON t.table_id = w.table_id
    JOIN ducklake_schema AS s ON s.schema_id = t.schema_id
"""  # noqa: S608


def check_deletes(transaction: MetadataTransaction, table_id: int, table: str, snapshot_id: int) -> None:
    """Rejects a snapshot at which it is not known which rows of a table had been deleted."""
    for kind, data_file_id in transaction.own_rows(
        _WRONG, "kind VARCHAR, data_file_id BIGINT", [snapshot_id, table_id]
    ):
        if kind == "two":
            raise CatalogError(
                f"the data file {data_file_id} of {table} has two live delete files at version {snapshot_id}: DuckDB "
                "would return its rows twice",
                hint="read another version, such as the latest one",
            )
        raise UnsupportedError(
            f"DuckLake forgot which rows of {table} had been deleted at version {snapshot_id}, when it extended a "
            "deletion vector",
            hint="read the latest snapshot; to keep others, set write_deletion_vectors of the lake to false",
        )


def forgetful_tables(transaction: MetadataTransaction) -> list[tuple[int, str, str]]:
    """The tables, with their names at all times, of which `check_deletes` may reject a snapshot."""
    return [(table_id, schema, name) for table_id, schema, name in transaction.rows(_MAY_BE_WRONG)]
