"""Finds tables with a partition that is much larger than the others."""

from __future__ import annotations

import statistics
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.table import TableInfo, key_text, load_table
from lakeconf.ducklake import visible_at
from lakeconf.lake.lake import Lake

# A partition of this many times the usual size is skewed, if there are enough partitions to speak of a usual size.
_TIMES, _PARTITIONS = 5, 4
_LEAST_BYTES = 64 * 2**20
# Files of the current partitioning; files from before it have other keys.
_FILES = f"""
    SELECT f.data_file_id, f.file_size_bytes, f.record_count FROM ducklake_data_file AS f
    WHERE {visible_at(row="f")} AND f.table_id = $2 AND f.partition_id = $3
"""  # noqa: S608 - constants
_VALUES = """
    SELECT data_file_id, partition_value FROM ducklake_file_partition_value WHERE table_id = $1
    ORDER BY data_file_id, partition_key_index
"""


@dataclass(frozen=True)
class Partition:
    """A partition.

    Attributes:
        values: The values of its keys, as text.
        files: The number of its data files.
        bytes: Their size in bytes.
        rows: The number of their rows, including deleted rows.
    """

    values: tuple[str | None, ...]
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True)
class Skew:
    """A table with a partition that is much larger than the others.

    Attributes:
        table: The name of the table.
        keys: The partition keys, such as `month(day)`.
        largest: The largest partition.
        partitions: The number of partitions.
        usual: The median size of a partition, in bytes.
    """

    table: str
    keys: tuple[str, ...]
    largest: Partition
    partitions: int
    usual: float

    @property
    def label(self) -> str:
        """The largest partition, as `month(day) = 1, region = eu`."""
        values = ("NULL" if value is None else value for value in self.largest.values)
        return ", ".join(f"{key} = {value}" for key, value in zip(self.keys, values, strict=False))


def skewed_tables(lake: Lake, *, least_bytes: int = _LEAST_BYTES) -> list[Skew]:
    """Finds the tables with a partition that is at least five times as large as the median one.

    Args:
        lake: The lake.
        least_bytes: The size from which a partition counts; smaller ones cost nothing.
    """
    reader, version = lake._session.reader, lake.snapshot_id  # noqa: SLF001 - the lake does not list partitions
    found = []
    for name in lake.tables():
        table = load_table(reader, name, version)
        if table.partition_id is None:
            continue
        with reader.transaction() as transaction:
            values = transaction.rows(_VALUES, [table.table_id])
            files = transaction.rows(_FILES, [version, table.table_id, table.partition_id])
        partitions = _partitions(files, values)
        usual = statistics.median(one.bytes for one in partitions) if partitions else 0
        largest = max(partitions, key=lambda one: one.bytes, default=None)
        if largest is not None and len(partitions) >= _PARTITIONS and largest.bytes >= max(_TIMES * usual, least_bytes):
            found.append(Skew(name, _keys(table), largest, len(partitions), usual))
    return found


def _partitions(files: list[tuple[Any, ...]], values: list[tuple[Any, ...]]) -> list[Partition]:
    by_file: dict[int, list[str | None]] = defaultdict(list)
    for file_id, value in values:
        by_file[file_id].append(value)
    members: dict[tuple[str | None, ...], list[tuple[int, int]]] = defaultdict(list)
    for file_id, size, rows in files:
        members[tuple(by_file[file_id])].append((size, rows))
    return [
        Partition(key, len(found), sum(size for size, _ in found), sum(rows for _, rows in found))
        for key, found in members.items()
    ]


def _keys(table: TableInfo) -> tuple[str, ...]:
    names = {column.field_id: column.name for column in table.columns}
    return tuple(key_text(field.transform, names.get(field.field_id, "?")) for field in table.partition_fields)
