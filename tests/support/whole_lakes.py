"""A lake with every kind of change in its history, and all that can be read from a lake, to compare two as wholes."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from lakeconf.backends.registry import metadata_backend
from lakeconf.guard.backups import Backup
from lakeconf.transfer.catalog_tables import TABLES, own_tables
from lakeconf.transfer.opened import opened_backup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakeconf import Store

HISTORY: Sequence[str] = (
    "CREATE SCHEMA raw",
    "CREATE TABLE raw.events (id BIGINT NOT NULL, name VARCHAR DEFAULT 'none', day DATE, "
    "p STRUCT(x INTEGER, y VARCHAR))",
    "INSERT INTO raw.events SELECT range, 'n' || range, DATE '2024-01-01' + CAST(range % 3 AS INTEGER), {{'x': range, "
    "'y': 'a'}} FROM range(30)",
    "DELETE FROM raw.events WHERE id IN (3, 4)",
    "INSERT INTO raw.events VALUES (100, NULL, NULL, NULL), (101, 'ü \"q\"', '0001-01-01', {{'x': NULL, 'y': 'b'}})",
    "UPDATE raw.events SET name = 'changed' WHERE id < 3 OR id = 101",
    "ALTER TABLE raw.events ADD COLUMN score DOUBLE DEFAULT 0.1",
    "INSERT INTO raw.events VALUES (102, 'later', '2024-02-01', NULL, 'nan')",
    "ALTER TABLE raw.events RENAME COLUMN name TO title",
    "ALTER TABLE raw.events ALTER COLUMN id SET DATA TYPE HUGEINT",
    "ALTER TABLE raw.events ADD COLUMN p.z BOOLEAN",
    "ALTER TABLE raw.events DROP COLUMN score",
    "CALL {alias}.set_option('parquet_compression', 'zstd')",
    "CALL {alias}.set_option('target_file_size', '10MB', schema => 'raw', table_name => 'events')",
    "COMMENT ON TABLE raw.events IS 'what ''happened'''",
    "COMMENT ON COLUMN raw.events.title IS 'a title'",
    "CREATE TABLE parted (k INTEGER, ts TIMESTAMP)",
    "ALTER TABLE parted SET PARTITIONED BY (k, month(ts))",
    "ALTER TABLE parted SET SORTED BY (ts DESC)",
    "INSERT INTO parted SELECT range % 2, TIMESTAMP '2024-01-15' + INTERVAL (range) DAY FROM range(40)",
    "MERGE INTO raw.events USING (SELECT 5 AS id, 'merged' AS title UNION ALL SELECT 500, 'new') AS s USING (id) "
    "WHEN MATCHED THEN UPDATE SET title = s.title WHEN NOT MATCHED THEN INSERT (id, title) VALUES (s.id, s.title)",
    "CREATE TABLE gone (a INTEGER)",
    "INSERT INTO gone SELECT range FROM range(20)",
    "INSERT INTO gone VALUES (99)",
    "DROP TABLE gone",
    "CREATE TABLE gone (b VARCHAR)",
    "INSERT INTO gone VALUES ('of the second table')",
    'ALTER TABLE gone RENAME TO "odd ""name"""',
    "CREATE VIEW raw.titles AS SELECT id, title FROM raw.events WHERE id > 10",
    "CREATE MACRO raw.twice(a) AS a * 2",
    "CALL ducklake_merge_adjacent_files('{alias}')",
    "CALL ducklake_rewrite_data_files('{alias}', 'events', schema => 'raw', delete_threshold => 0)",
    "INSERT INTO raw.events (id) VALUES (600)",
    "DELETE FROM raw.events WHERE id = 7",
    "CALL ducklake_expire_snapshots('{alias}', versions => [2])",
)
# Paths differ after a move: the data path, and files that are scheduled for deletion.
_APART = ("ducklake_files_scheduled_for_deletion",)


def fill(store: Store, statements: Sequence[str] = HISTORY) -> None:
    """Makes this history in a new lake with plain DuckDB, which inlines few rows."""
    options = {**store.attach_options, "data_inlining_row_limit": 5}
    with store.replace(attach_options=options).connect() as connection:
        for statement in statements:
            connection.execute(statement.format(alias=store.alias))


@contextlib.contextmanager
def backed_up(store: Store, backup: Backup) -> Iterator[Store]:
    """A store with the catalog of a backup."""
    with opened_backup(store, backup.path) as (place, _), place.catalog(backup) as catalog:
        backend = metadata_backend("duckdb").model_validate({"type": "duckdb", "uri": str(catalog)})
        yield store.replace(metadata_backend=backend, attach_options={"read_only": True})


def everything(store: Store) -> dict[str, Any]:
    """All that DuckDB reads from a lake: its catalog, each table at each snapshot, its changes, views and macros."""
    with store.connect() as connection:
        return {**_catalog(connection, store.alias), **_states(connection, store.alias), **_changes(connection, store)}


def _rows(connection: Any, query: str) -> list[str]:
    return sorted(map(repr, connection.sql(query).fetchall()))


def _catalog(connection: Any, alias: str) -> dict[str, Any]:
    """The tables of the catalog itself, in the types of DuckDB."""
    database, read = f"__ducklake_metadata_{alias}", dict[str, Any]()
    for name in TABLES.keys() - set(_APART):
        columns = ", ".join(f'CAST("{column.name}" AS {column.type})' for column in own_tables()[name])
        where = "WHERE key <> 'data_path'" if name == "ducklake_metadata" else ""
        read[name] = _rows(connection, f"SELECT {columns} FROM {database}.{name} {where}")
    return read


def _states(connection: Any, alias: str) -> dict[str, Any]:
    database, read = f"__ducklake_metadata_{alias}", dict[str, Any]()
    visible = "{0}.begin_snapshot <= n.snapshot_id AND ({0}.end_snapshot IS NULL OR {0}.end_snapshot > n.snapshot_id)"
    query = (
        f"SELECT n.snapshot_id, s.schema_name, t.table_name FROM {database}.ducklake_snapshot AS n, "
        f"{database}.ducklake_table AS t, {database}.ducklake_schema AS s WHERE t.schema_id = s.schema_id "
        f"AND {visible.format('t')} AND {visible.format('s')}"
    )
    for snapshot_id, schema, table in connection.sql(query).fetchall():
        quoted = f'{alias}.{schema}."' + table.replace('"', '""') + f'" AT (VERSION => {snapshot_id})'
        rows = connection.sql(f"SELECT rowid, snapshot_id, * FROM {quoted}")
        columns = list(zip(rows.columns, map(str, rows.types), strict=True))
        read[f"{schema}.{table} at {snapshot_id}"] = [columns, *sorted(map(repr, rows.fetchall()))]
    assert read
    return read


def _changes(connection: Any, store: Store) -> dict[str, Any]:
    alias = store.alias
    read: dict[str, Any] = {
        "options": _rows(connection, f"FROM ducklake_options('{alias}') WHERE option_name <> 'data_path'")
    }
    ((first, last),) = connection.sql(
        f"SELECT min(snapshot_id), max(snapshot_id) FROM ducklake_snapshots('{alias}')"
    ).fetchall()
    tables = "SELECT schema_name, table_name FROM duckdb_tables() WHERE database_name = ?"
    for schema, table in connection.execute(tables, [alias]).fetchall():
        name = table.replace("'", "''")
        feed = f"FROM ducklake_table_changes('{alias}', '{schema}', '{name}', {first}, {last})"
        read[f"changes of {schema}.{table}"] = _rows(connection, feed)
    read["view"] = _rows(connection, f"FROM {alias}.raw.titles")
    read["macro"] = _rows(connection, f"SELECT {alias}.raw.twice(21)")
    return read
