"""Files of positions in data files: the positions that executors have sorted, and DuckLake's delete files."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lakeconf.catalog.data_file import DataFile, DeleteFile
from lakeconf.catalog.file_footers import files_with
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import DELETED_FILE, DELETED_POSITION, INTERNAL_ROW_ID, INTERNAL_SNAPSHOT_ID
from lakeconf.engines.engine import FILE_ROW_NUMBER, ROW_ID
from lakeconf.errors import CommitConflictError
from lakeconf.sql import files_sql, identifier, literal

# DuckDB needs about 50 bytes of memory for each position that it sorts.
SORTED_IN_MEMORY = 500_000
_POSITION, _SNAPSHOT = DELETED_POSITION.name, INTERNAL_SNAPSHOT_ID.name


class Positions(NamedTuple):
    """The positions of rows in data files."""

    # The file with the positions in each data file, by the id of the data file. Its only column is `FILE_ROW_NUMBER`,
    # in ascending order.
    paths: Mapping[int, str]
    counts: Mapping[int, int]  # the numbers of these positions


@dataclass(frozen=True, slots=True)
class PositionFile:
    """A new file of deleted positions."""

    path: str
    data_file: DataFile  # its live delete file is replaced and contained
    row_count: int
    snapshot_id: int  # the snapshot of the new positions


def counted_positions(writer: Connection, paths: Mapping[int, str]) -> Positions | None:
    """Positions that an engine has sorted; None if a position is repeated."""
    counts: dict[int, int] = {}
    for data_file_id, path in paths.items():
        source = files_sql("read_parquet", path)
        # DuckDB reads a file in its order on one thread, and keeps only the row before.
        numbered = f"SELECT {FILE_ROW_NUMBER} AS this, lag({FILE_ROW_NUMBER}) OVER () AS before FROM {source}"
        query = f"SELECT count(*), count(*) FILTER (this <= before) FROM ({numbered})"
        ((counts[data_file_id], repeated_count),) = writer.rows(query)
        if repeated_count:
            return None
    return Positions(paths, counts)


def write_positions(
    writer: Connection, data_file: DataFile, positions: str, count: int, folder: str, begun: int
) -> PositionFile:
    """Writes the file of deleted positions of a data file, with those of its live delete file.

    `positions` is SQL for the positions of visible rows in ascending order, each once.
    """
    snapshot_id, earlier = begun + 1, data_file.delete_file
    if "://" not in folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
    # DuckDB could read an earlier file of this name, of an overtaken attempt of the commit, from its cache.
    path = f"{folder}{data_file.data_file_id}-{snapshot_id}.parquet"
    columns = [DELETED_FILE, DELETED_POSITION]
    if earlier is not None:
        columns.append(INTERNAL_SNAPSHOT_ID)
        positions = _with_earlier(writer, earlier, positions, snapshot_id)
        count += earlier.delete_count
    with _ordered(writer, positions, len(columns) - 1, count, is_ordered=earlier is None) as rows:
        # The name is added after the sort, which would need ten times the memory for it.
        named = f"SELECT {literal(data_file.path)} AS {DELETED_FILE.name}, * FROM ({rows})"
        ids = ", ".join(f"{column.name}: {column.field_id}" for column in columns)
        writer.execute(f"COPY ({named}) TO {literal(path)} (FORMAT parquet, FIELD_IDS {{{ids}}})")
    return PositionFile(path, data_file, count, snapshot_id)


def _with_earlier(writer: Connection, earlier: DeleteFile, positions: str, snapshot_id: int) -> str:
    """SQL for the positions and those of earlier deletes, with their snapshots."""
    if earlier.format != "parquet":
        raise CommitConflictError(f"the deletes in {earlier.path} cannot be extended")
    since = _SNAPSHOT if files_with(writer, [earlier.path], _SNAPSHOT) else f"{earlier.begin_snapshot}::BIGINT"
    return (
        f"SELECT {_POSITION}, {snapshot_id}::BIGINT AS {_SNAPSHOT} FROM ({positions}) UNION ALL "
        f"SELECT {_POSITION}::BIGINT AS {_POSITION}, {since} AS {_SNAPSHOT} "
        f"FROM {files_sql('read_parquet', earlier.path)}"
    )


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
        everything = str(Path(local) / "all.parquet")
        writer.execute(f"COPY ({_in_order(rows, columns)}) TO {literal(everything)} (FORMAT parquet)")
        unordered = files_sql("read_parquet", everything)
        ((low, high),) = writer.rows(f"SELECT min({_POSITION}), max({_POSITION}) FROM {unordered}")
        parts = []
        for start in range(low, high + 1, SORTED_IN_MEMORY):
            part = str(Path(local) / f"{start}.parquet")
            within = f"{_POSITION} BETWEEN {start} AND {start + SORTED_IN_MEMORY - 1}"
            ordered = f"FROM {unordered} WHERE {within} ORDER BY {_POSITION}"
            writer.execute(f"COPY ({ordered}) TO {literal(part)} (FORMAT parquet)")
            parts.append(part)
        yield _in_order(f"FROM {files_sql('read_parquet', parts)}", columns)


def _in_order(rows: str, columns: int) -> str:
    """SQL that returns rows in their order, so that COPY needs no memory for them.

    COPY would keep each row group of a source in memory until its turn: 500 MB for three million positions. It does not
    if a source cannot tell its row groups apart, such as `range`.
    """
    none = ", ".join(["range"] * columns)
    return f"FROM ({rows}) UNION ALL SELECT {none} FROM system.main.range(0)"


def have_row_ids(connection: Connection, files: Sequence[str], rows: str) -> bool:
    """True if files contain exactly the ids of rows; compared are the count, a sum of hashes, and the bounds."""
    written = f"FROM {files_sql('read_parquet', files)}"
    return _summary(connection, written, INTERNAL_ROW_ID.name) == _summary(connection, f"FROM ({rows})", ROW_ID)


def repeated_id(connection: Connection, rows: str) -> tuple[int, int] | None:
    """An id that several rows have, and their number; None if all ids differ."""
    grouped = f"SELECT {ROW_ID}, count(*) FROM ({rows}) GROUP BY {ROW_ID} HAVING count(*) > 1"
    repeats = connection.rows(f"{grouped} ORDER BY {ROW_ID} LIMIT 1")
    return (int(repeats[0][0]), int(repeats[0][1])) if repeats else None


def _summary(connection: Connection, source: str, column: str) -> tuple[int, ...]:
    name = identifier(column)
    query = f"SELECT count({name}), coalesce(sum(hash({name})::HUGEINT), 0), min({name}), max({name}) {source}"
    (summary,) = connection.rows(query)
    return summary
