"""Writes files of deleted positions in limited memory, each sorted and with the earlier deletes of its data file."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lakeconf.commit.position_files import (
    DELETED_ROWS,
    DeletedPositions,
    EarlierDeletes,
    LiveFiles,
    LocatedRows,
    PositionFile,
)
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_FILE, DELETED_POSITION, INTERNAL_SNAPSHOT_ID
from lakeconf.sql import literal

# DuckDB needs about 50 bytes of memory for each position that it sorts.
SORTED_IN_MEMORY = 500_000
_POSITION, _SNAPSHOT = DELETED_POSITION.name, INTERNAL_SNAPSHOT_ID.name


def write_position_files(writer: Connection, located: LocatedRows, folder: str) -> DeletedPositions:
    """Writes a file for each data file that loses rows, and drops `DELETED_ROWS`.

    Args:
        writer: The connection with the temporary table.
        located: The rows to delete.
        folder: The folder of the new files.
    """
    data_files = located.live.data_files
    files = []
    for path in sorted(located.counts.keys() & data_files.keys()):
        rows = f"SELECT position AS {_POSITION} FROM {DELETED_ROWS} WHERE file = {located.numbers[path]}"
        files.append(write_positions(writer, located.live, path, rows, located.counts[path], folder))
    inlined = {located.numbers[name]: name for name in located.counts.keys() - data_files.keys()}
    numbers = ", ".join(map(str, inlined)) or "NULL"
    found = writer.rows(f"SELECT file, row_id FROM {DELETED_ROWS} WHERE file IN ({numbers}) ORDER BY ALL")
    writer.execute(f"DROP TABLE {DELETED_ROWS}")
    return DeletedPositions(tuple(files), tuple((inlined[number], row_id) for number, row_id in found))


def write_positions(
    writer: Connection,
    live: LiveFiles,
    data_file: str,
    positions: str,
    count: int,
    folder: str,
    *,
    is_sorted: bool = False,
) -> PositionFile:
    """Writes the file of deleted positions of a data file.

    Args:
        writer: A connection to the lake.
        live: The files of the table.
        data_file: The path of the data file.
        positions: SQL that returns the positions of visible rows, each once, in a column named like that of the file.
        count: The number of these positions.
        folder: The folder of the file.
        is_sorted: True if they are in ascending order.
    """
    data_file_id = live.data_files[data_file]
    snapshot_id, earlier = live.begun + 1, live.earlier.get(data_file_id)
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    # DuckDB could read an earlier file of this name, of an overtaken attempt of the commit, from its cache.
    path = f"{folder}{data_file_id}-{snapshot_id}.parquet"
    columns = [DELETED_FILE, DELETED_POSITION]
    if earlier is not None:
        columns.append(INTERNAL_SNAPSHOT_ID)
        positions, before = _with_earlier(writer, earlier, positions, snapshot_id)
        count += before
    is_ordered = is_sorted and earlier is None
    with _ordered(writer, positions, len(columns) - 1, count, is_ordered=is_ordered) as rows:
        # The name is added after the sort, which would need ten times the memory for it.
        named = f"SELECT {literal(data_file)} AS {DELETED_FILE.name}, * FROM ({rows})"
        ids = ", ".join(f"{column.name}: {column.field_id}" for column in columns)
        writer.execute(f"COPY ({named}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
    return PositionFile(path, data_file, data_file_id, count, snapshot_id, earlier)


def _with_earlier(writer: Connection, earlier: EarlierDeletes, positions: str, snapshot_id: int) -> tuple[str, int]:
    """SQL for the positions and those of earlier deletes, with their snapshots; and the number of the earlier ones."""
    old = f"read_parquet({literal(earlier.path)}, hive_partitioning = false)"
    names = {name for name, *_ in writer.rows(f"DESCRIBE FROM {old}")}
    ((before,),) = writer.rows(f"SELECT count(*) FROM {old}")
    since = _SNAPSHOT if _SNAPSHOT in names else f"{earlier.begin_snapshot}::BIGINT"
    rows = (
        f"SELECT {_POSITION}, {snapshot_id}::BIGINT AS {_SNAPSHOT} FROM ({positions}) UNION ALL "
        f"SELECT {_POSITION}::BIGINT AS {_POSITION}, {since} AS {_SNAPSHOT} FROM {old}"
    )
    return rows, int(before)


@contextmanager
def _ordered(writer: Connection, rows: str, columns: int, count: int, *, is_ordered: bool) -> Iterator[str]:
    """SQL that returns rows in the order of their positions."""
    if is_ordered:
        yield _in_order(rows, columns)
        return
    if count <= SORTED_IN_MEMORY:
        yield f"FROM ({rows}) ORDER BY {_POSITION}"
        return
    # Ranges of positions are sorted one after the other; each is in a local file, to spare a bucket.
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as local:
        everything = literal(str(Path(local) / "all.parquet"))
        writer.execute(f"COPY ({_in_order(rows, columns)}) TO {everything} (FORMAT parquet)")
        found = f"read_parquet({everything}, hive_partitioning = false)"
        ((low, high),) = writer.rows(f"SELECT min({_POSITION}), max({_POSITION}) FROM {found}")
        parts = []
        for start in range(low, high + 1, SORTED_IN_MEMORY):
            part = literal(str(Path(local) / f"{start}.parquet"))
            within = f"{_POSITION} BETWEEN {start} AND {start + SORTED_IN_MEMORY - 1}"
            ordered = f"FROM {found} WHERE {within} ORDER BY {_POSITION}"
            writer.execute(f"COPY ({ordered}) TO {part} (FORMAT parquet)")
            parts.append(part)
        yield _in_order(f"FROM read_parquet([{', '.join(parts)}], hive_partitioning = false)", columns)


def _in_order(rows: str, columns: int) -> str:
    """SQL that returns rows in their order, so that COPY needs no memory for them.

    COPY would keep each row group of a source in memory until its turn: 500 MB for three million positions. It does not
    if a source cannot tell its row groups apart, such as `range`.
    """
    none = ", ".join(["range"] * columns)
    return f"FROM ({rows}) UNION ALL SELECT {none} FROM system.main.range(0)"
