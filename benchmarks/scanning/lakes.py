"""The benchmark lakes: one with 10 M rows, and one whose catalog lists files that do not exist."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lakeconf

FILES = 20
DAYS = 365
ALIAS = "bench"
# Tables with the same rows, in files with equal numbers of rows, and the condition of their deleted rows.
DELETES = {"whole": None, "deleted_1": "hash(id * 11) % 100 = 0", "deleted_20": "hash(id * 11) % 5 = 0"}
_COLUMNS = """(id BIGINT, user_id INTEGER, amount DOUBLE, price DECIMAL(10, 2), day DATE, moment TIMESTAMP,
    kind VARCHAR, note VARCHAR)"""


def configuration(folder: Path, *, read_only: bool = False, metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """The argument of `lakeconf.init`: local files, and a SQLite catalog unless there is another metadata backend."""
    store: dict[str, Any] = {
        "metadata_backend": metadata or {"type": "sqlite", "uri": str(folder / "catalog.sqlite")},
        "storage_backend": {"type": "local", "path": str(folder / "data")},
    }
    if read_only:
        store["attach_options"] = {"read_only": True}
    return {"stores": {ALIAS: store}}


def make_lake(folder: Path, rows: int) -> lakeconf.Store:
    """Eight columns, ordered by day: in 20 files with 0 %, 1 % and 20 % of rows deleted, and in one file per day."""
    store = lakeconf.init(configuration(folder)).get_store(ALIAS)
    with store.connect() as con:
        for table, deleted in DELETES.items():
            con.execute(f"CREATE TABLE {table} {_COLUMNS}")
            for part in range(FILES):
                con.execute(f"INSERT INTO {table} {_rows(rows, rows * part // FILES, rows * (part + 1) // FILES)}")
            if deleted is not None:
                con.execute(f"DELETE FROM {table} WHERE {deleted}")
        con.execute(f"CREATE TABLE days {_COLUMNS}")
        con.execute("ALTER TABLE days SET PARTITIONED BY (day)")
        for month in range(12):
            con.execute(f"INSERT INTO days {_rows(rows, _first(rows, month), _first(rows, month + 1))}")
        # Few rows, which DuckLake inlines in the catalog.
        con.execute("CREATE TABLE few (id BIGINT)")
        con.execute("INSERT INTO few VALUES (1), (2), (3)")
    return store


def _first(rows: int, month: int) -> int:
    """The first row of a month; months end with a day, so that no day is split across two files."""
    return -(-rows * (DAYS * month // 12) // DAYS)


def _rows(rows: int, start: int, end: int) -> str:
    return f"""SELECT i, hash(i) % 1000000, (hash(i * 3) % 100000) / 7, (hash(i * 5) % 100000) / 100,
        DATE '2024-01-01' + (i * {DAYS} // {rows})::INTEGER,
        TIMESTAMP '2024-01-01' + to_seconds(i * {DAYS * 86400} // {rows}),
        'kind_' || hash(i * 7) % 20, md5(i::VARCHAR) FROM range({start}, {end}) AS r(i)"""


def make_catalog(folder: Path, files: int, metadata: dict[str, Any] | None = None) -> lakeconf.Store:
    """A table of ten columns whose catalog lists this number of files, of 1000 ids each; only the first one exists."""
    store = lakeconf.init(configuration(folder, metadata=metadata)).get_store(ALIAS)
    tables = f"__ducklake_metadata_{ALIAS}"
    with store.connect() as con:
        others = ", ".join(f"c{index} BIGINT" for index in range(9))
        con.execute(f"CREATE TABLE t (id BIGINT, {others})")
        con.execute(f"INSERT INTO t SELECT i, {', '.join('i' for _ in range(9))} FROM range(1000) r(i)")
    # In a second instance, because the first one caches the table's metadata.
    with store.connect() as con:
        con.execute("BEGIN")
        con.execute(f"""INSERT INTO {tables}.ducklake_data_file BY NAME
            SELECT * EXCLUDE (i) REPLACE (1000 + i AS data_file_id, 'file-' || i || '.parquet' AS path,
                i * 1000 AS row_id_start)
            FROM {tables}.ducklake_data_file, range(1, {files}) r(i)""")
        con.execute(f"""INSERT INTO {tables}.ducklake_file_column_stats BY NAME
            SELECT * EXCLUDE (i) REPLACE (1000 + i AS data_file_id, (i * 1000)::VARCHAR AS min_value,
                (i * 1000 + 999)::VARCHAR AS max_value)
            FROM {tables}.ducklake_file_column_stats, range(1, {files}) r(i)""")
        con.execute(f"UPDATE {tables}.ducklake_table_stats SET record_count = {files * 1000}")
        con.execute(f"UPDATE {tables}.ducklake_table_column_stats SET max_value = '{files * 1000 - 1}'")
        con.execute("COMMIT")
    return store
