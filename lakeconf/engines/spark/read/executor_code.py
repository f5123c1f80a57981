"""Code for Spark's executors, where DuckDB reads Parquet files that Spark cannot read.

Spark sends the functions by value. Executors do not need lakeconf, because the functions use only its strings.
"""

from __future__ import annotations

import glob
import struct
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle

from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID

cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call, unused-ignore]
# The name of the rows in the query of `summing`.
ROWS = "lakeconf_rows"
# The 0-based position of a row in its file. The name is random: a column with the same name would hide the position.
POSITION = f"__lakeconf_position_{uuid.uuid4().hex}"
_SNAPSHOT_ID = INTERNAL_SNAPSHOT_ID.name
_PUFFIN_MAGIC = b"\xd1\xd3\x39\x64"
_SERIAL_COOKIE, _SERIAL_COOKIE_NO_RUNS = 12347, 12346
# Spark runs a worker for each core, beside its own memory.
_LIMITS: dict[str, str | bool | int | float | list[str]] = {"threads": 1, "memory_limit": "2GB"}
_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class Task:
    """How to read one file.

    Attributes:
        path: Path of the file, for errors.
        select: The SQL of the columns, over `source`.
        source: The FROM clause; its parameters (`?`) are the local file and, for an encrypted file, the key. `select`
            uses its columns and `POSITION`.
        conditions: The conditions of WHERE besides the deleted positions.
        time_zone: The time zone for converting naive timestamps to zoned ones.
        snapshot_id: Deletes of later snapshots are not applied.
        deleted: Positions that the catalog lists as deleted.
        delete_format: `parquet`, `puffin`, or None without a delete file.
        key: The base64 key of the file.
        delete_key: The base64 key of the delete file.
    """

    path: str
    select: str
    source: str
    conditions: tuple[str, ...]
    time_zone: str
    snapshot_id: int
    deleted: tuple[int, ...]
    delete_format: str | None
    key: str | None = field(repr=False)
    delete_key: str | None = field(repr=False)


@dataclass(frozen=True)
class Tasks:
    """Tasks that are sent with the plan, for sessions without broadcasts; they contain no keys.

    Attributes:
        value: The tasks.
    """

    value: Sequence[Task]


def reader_of(tasks: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function for executors, over rows with a task number, a file's content and its delete file's content.

    Args:
        tasks: The broadcast list of tasks, or `Tasks`.
    """

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, content, deletes in zip(*batch.columns, strict=True):
                has_deletes = deletes.is_valid
                yield from read_file(
                    tasks.value[number.as_py()], content.as_buffer(), deletes.as_buffer() if has_deletes else None
                )

    return read


def read_file(task: Task, content: Any, deletes: Any) -> Iterator[pa.RecordBatch]:
    """The rows of one file, as Arrow; DuckDB reads them as Spark takes them.

    Args:
        deletes: The bytes of its delete file, or None.
    """
    try:
        import duckdb
    except ImportError:
        raise RuntimeError(
            f"lakeconf: DuckDB must read {task.path} inside Spark's executors, and their Python {sys.executable} has "
            "no package duckdb; install it there, or read the table with DuckDB: store.open()"
        ) from None
    limits = {**_LIMITS, "temp_directory": tempfile.gettempdir()}
    with duckdb.connect(config=limits) as connection, tempfile.NamedTemporaryFile(suffix=".parquet") as local:
        local.write(content)
        local.flush()
        try:
            connection.execute(f"SET TimeZone = '{task.time_zone}'")
            positions = [*task.deleted, *_positions(connection, task, deletes)]
            connection.register("deleted", pa.table({"position": pa.array(positions, pa.int64())}))
            conditions = [*task.conditions, f"{POSITION} NOT IN (SELECT position FROM deleted)"]
            path = glob.escape(local.name)
            parameters = [path] if task.key is None else [path, task.key]
            source = _numbered(connection, task.source, parameters)
            sql = f"SELECT {task.select} FROM {source} WHERE {' AND '.join(conditions)}"
            yield from connection.execute(sql, parameters).to_arrow_reader(_ROWS_AT_ONCE)
        except (duckdb.Error, pa.ArrowException, OSError) as error:
            text = str(error)
            for secret in filter(None, (task.key, task.delete_key)):
                text = text.replace(secret, "***")
            raise RuntimeError(f"lakeconf: DuckDB cannot read {task.path}: {text}") from None


def _numbered(connection: Any, source: str, parameters: Sequence[str]) -> str:
    """The source with the position of each row in the file, even if a column hides DuckDB's `file_row_number`."""
    connection.execute(f"SELECT * FROM {source} LIMIT 0", parameters)
    names = {name.lower() for name, *_ in connection.description}
    # Both count the rows in the order of the file.
    position = "row_number() OVER () - 1" if "file_row_number" in names else "file_row_number"
    return f"(SELECT *, {position} AS {POSITION} FROM {source})"


def _positions(connection: Any, task: Task, deletes: Any) -> Sequence[int]:
    """The positions in a delete file."""
    if task.delete_format is None:
        return ()
    if task.delete_format == "puffin":
        return puffin_positions(bytes(deletes))
    with tempfile.NamedTemporaryFile(suffix=".parquet") as local:
        local.write(deletes)
        local.flush()
        config, parameters = "", [glob.escape(local.name)]
        if task.delete_key is not None:
            config, parameters = (
                ", encryption_config = {footer_key_value: from_base64(?)}",
                [glob.escape(local.name), task.delete_key],
            )
        source = f"read_parquet(?{config})"
        connection.execute(f"SELECT * FROM {source} LIMIT 0", parameters)
        names = [name for name, *_ in connection.description]
        visible = f" WHERE {_SNAPSHOT_ID} <= {task.snapshot_id}" if _SNAPSHOT_ID in names else ""
        rows = connection.execute(f"SELECT pos FROM {source}{visible}", parameters).fetchall()
        return [position for (position,) in rows]


def summing(query: str, time_zone: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The function with which an executor runs DuckDB's SQL over each batch of rows.

    Args:
        time_zone: The time zone for formatting zoned timestamps.
    """

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            import duckdb
        except ImportError:
            raise RuntimeError(
                f"lakeconf: verify needs the package duckdb inside Spark's executors, and their Python "
                f"{sys.executable} has none; install it there"
            ) from None
        with duckdb.connect() as connection:
            connection.execute(f"SET TimeZone = '{time_zone}'")
            for batch in batches:
                connection.register(ROWS, pa.Table.from_batches([batch]))
                yield from connection.execute(query).to_arrow_table().to_batches()

    return run


def puffin_reader(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Converts rows of a number and a deletion vector to rows of the number plus each deleted position."""
    for batch in batches:
        bases, contents = batch.columns
        for base, content in zip(bases.to_pylist(), contents.to_pylist(), strict=True):
            rows = [base + position for position in puffin_positions(content)]
            yield pa.RecordBatch.from_arrays([pa.array(rows, pa.int64())], ["row"])


def puffin_positions(content: bytes) -> list[int]:
    """The positions in a deletion vector: a bare `deletion-vector-v1` blob, as DuckLake writes it.

    https://iceberg.apache.org/puffin-spec/#deletion-vector-v1-blob-type
    """
    (length,) = struct.unpack_from(">I", content)
    if content[4:8] != _PUFFIN_MAGIC or length + 8 > len(content):
        raise RuntimeError("lakeconf: a deletion vector is damaged or has an unknown format")
    (bitmaps,) = struct.unpack_from("<q", content, 8)
    offset, positions = 16, []
    for _ in range(bitmaps):
        (high,) = struct.unpack_from("<i", content, offset)
        low, offset = _roaring(content, offset + 4)
        positions += [(high << 32) | value for value in low]
    return positions


def _roaring(content: bytes, offset: int) -> tuple[list[int], int]:
    """The values of a 32-bit Roaring bitmap, and its end offset; https://github.com/RoaringBitmap/RoaringFormatSpec."""
    (cookie,) = struct.unpack_from("<I", content, offset)
    offset += 4
    runs = b""
    if cookie & 0xFFFF == _SERIAL_COOKIE:
        count = (cookie >> 16) + 1
        runs = content[offset : offset + (count + 7) // 8]
        offset += len(runs)
    elif cookie == _SERIAL_COOKIE_NO_RUNS:
        (count,) = struct.unpack_from("<I", content, offset)
        offset += 4
    else:
        raise RuntimeError("lakeconf: a deletion vector is damaged or has an unknown format")
    headers = [struct.unpack_from("<HH", content, offset + 4 * index) for index in range(count)]
    offset += 4 * count
    if not runs or count >= 4:
        offset += 4 * count
    values: list[int] = []
    for index, (key, size) in enumerate(headers):
        is_run = bool(runs) and bool(runs[index // 8] & (1 << (index % 8)))
        found, offset = _container(content, offset, size + 1, is_run=is_run)
        values += [(key << 16) | value for value in found]
    return values, offset


def _container(content: bytes, offset: int, size: int, *, is_run: bool) -> tuple[list[int], int]:
    if is_run:
        (count,) = struct.unpack_from("<H", content, offset)
        pairs = struct.unpack_from(f"<{2 * count}H", content, offset + 2)
        found = [start + step for start, more in zip(pairs[::2], pairs[1::2], strict=True) for step in range(more + 1)]
        return found, offset + 2 + 4 * count
    if size <= 4096:
        return list(struct.unpack_from(f"<{size}H", content, offset)), offset + 2 * size
    words = struct.unpack_from("<1024Q", content, offset)
    return [64 * at + bit for at, word in enumerate(words) for bit in range(64) if word >> bit & 1], offset + 8192
