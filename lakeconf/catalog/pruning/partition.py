"""Uses partition values of a file to evaluate a predicate on the partition column."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.predicate.nodes import Operator, Value, value_sql
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.table import Column

_KEYS = (
    "SELECT partition_id, partition_key_index, column_id, transform FROM ducklake_partition_column WHERE table_id = ?"
)
_BUCKET = re.compile(r"bucket\((\d+)\)")
_MOMENTS = {"timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
# Types for which the bucket depends only on the value, not on the sign of zero or the session's time zone.
_HASHED = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "varchar", "date"}
_PARTS = {"year", "month", "day", "hour"}


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A partition key of any current or former partitioning of the table.

    Attributes:
        name: The name in SQL of its values: a table with the columns `data_file_id`, `partition_id` and `value`.
        field_id: The field id of its column.
        transform: `identity`, `year`, `month`, `day`, `hour` or `bucket(n)`.
        partitionings: Pairs of `partition_id` and `partition_key_index`, for each partitioning that contains it.
    """

    name: str
    field_id: int
    transform: str
    partitionings: tuple[tuple[int, int], ...]

    def table_sql(self, table_id: int) -> str:
        """Returns the query for its values by file and partitioning."""
        pairs = ", ".join(f"({partition_id}, {index})" for partition_id, index in self.partitionings)
        return f"""
            SELECT v.data_file_id, k.partition_id, v.partition_value AS value
            FROM ducklake_file_partition_value AS v
            JOIN (VALUES {pairs}) AS k(partition_id, index) ON k.index = v.partition_key_index
            WHERE v.table_id = {table_id}"""  # noqa: S608


def usable_keys(
    transaction: MetadataTransaction, table_id: int, columns: Iterable[Column]
) -> dict[int, list[PartitionKey]]:
    """Returns the keys on these columns that can exclude files, by field id."""
    by_id = {column.field_id: column for column in columns}
    partitionings: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for partition_id, index, field_id, transform in transaction.rows(_KEYS, [table_id]):
        if field_id in by_id and _is_usable(by_id[field_id], transform):
            partitionings[field_id, transform].append((partition_id, index))
    keys: dict[int, list[PartitionKey]] = defaultdict(list)
    for number, ((field_id, transform), where) in enumerate(sorted(partitionings.items())):
        keys[field_id].append(PartitionKey(f"key_{number}", field_id, transform, tuple(where)))
    return keys


def condition(key: PartitionKey, column: Column, operator: Operator, values: Sequence[Value]) -> str | None:
    """Returns the condition for a file that may contain matching rows; None if the key cannot exclude files.

    Not for `identity`: its values are bounds, like statistics.
    """
    wanted: list[Any] = [
        bucket_sql(key.transform, value_sql(value, column.type)) or getattr(value, key.transform) for value in values
    ]
    value = f"TRY_CAST({key.name}.value AS BIGINT)"
    if operator == "=":
        return f"{value} IN ({', '.join(map(str, wanted))})"
    if key.transform == "year" and operator != "!=":
        # Years have the order of their times; months, days and hours repeat.
        return f"{value} {'<=' if operator in ('<', '<=') else '>='} {wanted[0]}"
    return None


def bucket_sql(transform: str, value: str) -> str | None:
    """Returns the bucket of a value, as DuckLake computes it; None for a transform other than `bucket(n)`."""
    bucket = _BUCKET.fullmatch(transform)
    return f"(murmur3_32({value}) & 2147483647) % {bucket[1]}" if bucket else None


def _is_usable(column: Column, transform: str) -> bool:
    if transform == "identity":
        return True
    if _BUCKET.fullmatch(transform):
        # A promotion changes the hash of some types.
        is_hashed = column.type in _HASHED or column.type.startswith("decimal(")
        return is_hashed and not column.former_types and not column.later_types
    # The parts of a TIMESTAMPTZ depend on the time zone of the session that wrote the file.
    is_local = column.type in _MOMENTS | ({"date"} if transform != "hour" else set())
    return transform in _PARTS and is_local and "timestamptz" not in column.later_types
