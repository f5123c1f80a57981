"""Makes the lake of DuckLake 0.3 in this folder, and writes down what DuckDB 1.4 reads of it at each snapshot.

It was made by DuckDB 1.4.4 and is never made anew by the tests. To make it again, in an environment of its own:

    pip install duckdb==1.4.4 duckdb-extension-ducklake==1.4.4 duckdb-extension-sqlite-scanner==1.4.4 pytz
    cd tests/data/ducklake_0_3 && python make_lake.py
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import duckdb

CATALOG, DATA, EXPECTED = Path("catalog.sqlite"), Path("data"), Path("expected.json")
# The catalog while it still had the snapshots within the merged file.
WITH_ALL_SNAPSHOTS = Path("all_snapshots.sqlite")
PAINTS = "range::BIGINT, {'hue': 'h' || range, 'shade': range::INT}, [range::INT, NULL], MAP {'k' || range: range / 4}"
# Each is one snapshot, but for the BEGIN … COMMIT.
STATEMENTS = [
    # Files with all that a table's columns may go through.
    "CREATE TABLE events (id BIGINT, name VARCHAR, price DECIMAL(9,2), moment TIMESTAMP, seen TIMESTAMPTZ)",
    "INSERT INTO events SELECT range, 'n' || range, range / 8, "
    "TIMESTAMP '2024-03-10 02:30:00' + INTERVAL (range) HOUR, TIMESTAMPTZ '2024-03-10 02:30:00+02' FROM range(16)",
    "DELETE FROM events WHERE id % 10 = 3",
    "UPDATE events SET name = 'changed' WHERE id IN (5, 15)",
    "DELETE FROM events WHERE id = 7",
    "ALTER TABLE events ADD COLUMN kind VARCHAR DEFAULT 'none'",
    "INSERT INTO events VALUES (100, 'it''s', NULL, NULL, NULL, 'new'), (101, NULL, 1.5, 'infinity', NULL, NULL)",
    "ALTER TABLE events RENAME COLUMN name TO title",
    "ALTER TABLE events DROP COLUMN price",
    "ALTER TABLE events ADD COLUMN name INTEGER DEFAULT 7",
    "INSERT INTO events SELECT 200 + range, 't' || range, NULL, NULL, 'late', range FROM range(12)",
    "ALTER TABLE events ALTER COLUMN name TYPE BIGINT",
    "DELETE FROM events WHERE id BETWEEN 204 AND 206",
    # Nested columns, and fields that come, go and get another name.
    "CREATE TABLE paints (id BIGINT, paint STRUCT(hue VARCHAR, shade INTEGER), a INTEGER[], m MAP(VARCHAR, DOUBLE))",
    f"INSERT INTO paints SELECT {PAINTS} FROM range(6)",
    "ALTER TABLE paints ADD COLUMN paint.gloss BOOLEAN",
    "ALTER TABLE paints RENAME COLUMN paint.shade TO depth",
    "INSERT INTO paints VALUES (50, {'hue': NULL, 'depth': 5, 'gloss': true}, [], MAP {}), (51, NULL, NULL, NULL)",
    "ALTER TABLE paints DROP COLUMN paint.hue",
    "ALTER TABLE paints RENAME TO pictures",
    # Partitions, under two layouts; a NULL among them is more than 0.3 can do.
    "CREATE TABLE sales (region VARCHAR, day DATE, amount INTEGER)",
    "ALTER TABLE sales SET PARTITIONED BY (region)",
    "INSERT INTO sales VALUES ('north', '2024-01-01', 1), ('south', '2024-01-02', 2), ('east', '2024-02-01', 3)",
    "ALTER TABLE sales SET PARTITIONED BY (year(day), month(day))",
    "INSERT INTO sales VALUES ('north', '2024-02-03', 4), ('south', '2025-02-04', 5)",
    "DELETE FROM sales WHERE amount = 2",
    # Small files that become one; its rows remember their snapshots.
    "CREATE TABLE small (n INTEGER, word VARCHAR)",
    "INSERT INTO small SELECT range, 'one' FROM range(5)",
    "INSERT INTO small SELECT 10 + range, 'two' FROM range(5)",
    "INSERT INTO small SELECT 20 + range, 'three' FROM range(5)",
    "CALL ducklake_merge_adjacent_files('lake')",
    "DELETE FROM small WHERE n IN (0, 11, 22)",
    # A file that was registered, with columns by name.
    "COPY (SELECT 'x' AS word, 77 AS N) TO 'data/main/small/registered.parquet'",
    "CALL ducklake_add_data_files('lake', 'small', 'data/main/small/registered.parquet')",
    "CREATE VIEW words AS SELECT DISTINCT word FROM small",
    "DROP TABLE sales",
    # Rows in the catalog, last: what else changes the schema later makes DuckDB 1.4 read them wrongly.
    "CALL lake.set_option('data_inlining_row_limit', 10)",
    "CREATE TABLE notes (id INTEGER, body VARCHAR, score DOUBLE, made DATE, cost DECIMAL(5,1))",
    "INSERT INTO notes VALUES (1, 'a', 0.1, '2024-01-01', 1.5), (2, NULL, NULL, NULL, NULL), (3, 'ü \"q', 3, NULL, 9)",
    "DELETE FROM notes WHERE id = 1",
    "UPDATE notes SET body = 'again' WHERE id = 2",
    "ALTER TABLE notes ADD COLUMN flag INTEGER DEFAULT 42",
    "INSERT INTO notes VALUES (4, 'four', 4, '2024-04-04', 4, 0)",
    "CALL ducklake_flush_inlined_data('lake')",
    "INSERT INTO notes VALUES (5, 'five', 'inf', '2024-05-05', 5, NULL), (6, 'six', 6, '2024-06-06', 6, 6)",
    "DELETE FROM notes WHERE id IN (3, 5)",
    # Several changes in one snapshot.
    "BEGIN",
    "INSERT INTO small SELECT 30 + range, 'both' FROM range(12)",
    "DELETE FROM events WHERE id = 100",
    "COMMIT",
]


def attached() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    for name in ("ducklake", "sqlite_scanner"):
        found = importlib.util.find_spec(f"duckdb_extension_{name}")
        (folder,) = (found and found.submodule_search_locations) or [""]
        connection.execute(f"LOAD '{folder}/extensions/v{duckdb.__version__}/{name}.duckdb_extension'")
    connection.execute(f"ATTACH 'ducklake:sqlite:{CATALOG}' AS lake (DATA_PATH '{DATA}/')")
    connection.execute("USE lake; SET TimeZone = 'UTC'")
    return connection


def expected() -> dict[int, dict[str, list[str] | None]]:
    """The rows of tables as JSON, with their row ids, sorted; of each snapshot the tables that it has changed."""
    with attached() as connection:
        versions = connection.execute("SELECT snapshot_id FROM ducklake_snapshots('lake') ORDER BY ALL").fetchall()
    found: dict[int, dict[str, list[str] | None]] = {}
    before: dict[str, list[str]] = {}
    for (version,) in versions:
        # DuckDB 1.4 reads a later snapshot with the columns of an earlier one that the same instance has read.
        with attached() as connection:
            rows = {table: rows_of(connection, table, version) for table in tables(connection, version)}
        found[version] = {table: rows[table] for table in rows if rows[table] != before.get(table)}
        found[version] |= dict.fromkeys(before.keys() - rows.keys())
        before = rows
    return found


def tables(connection: duckdb.DuckDBPyConnection, version: int) -> list[str]:
    listed = (
        "SELECT table_name FROM __ducklake_metadata_lake.ducklake_table "
        "WHERE begin_snapshot <= $1 AND (end_snapshot IS NULL OR end_snapshot > $1) ORDER BY ALL"
    )
    return [name for (name,) in connection.execute(listed, [version]).fetchall()]


def rows_of(connection: duckdb.DuckDBPyConnection, table: str, version: int) -> list[str]:
    rows = f"SELECT rowid AS row_id, * FROM {table} AT (VERSION => {version})"
    found = connection.execute(f"SELECT CAST(to_json(x) AS VARCHAR) FROM ({rows}) AS x").fetchall()
    return sorted(text for (text,) in found)


def main() -> None:
    for path in (CATALOG, WITH_ALL_SNAPSHOTS, EXPECTED):
        path.unlink(missing_ok=True)
    shutil.rmtree(DATA, ignore_errors=True)
    with attached() as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
    shutil.copy(CATALOG, WITH_ALL_SNAPSHOTS)
    with attached() as connection:
        connection.execute("CALL ducklake_expire_snapshots('lake', versions => [28, 29])")
    EXPECTED.write_text(json.dumps(expected(), indent=0, ensure_ascii=False) + "\n")
    for path in (CATALOG, WITH_ALL_SNAPSHOTS):
        with closing(sqlite3.connect(path)) as catalog:
            catalog.executescript("PRAGMA page_size = 512; VACUUM")


if __name__ == "__main__":
    main()
