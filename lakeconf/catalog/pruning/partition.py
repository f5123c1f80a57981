"""What the partition values of a file say about a predicate on the column that they are computed from."""

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
# Their bucket depends on the value alone: not on its sign of zero, nor on the session's time zone.
_HASHED = {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "varchar", "date"}
_PARTS = {"year", "month", "day", "hour"}


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A transform of a column that at least one partitioning of the table, at any time, has as a key.

    Attributes:
        name: What its value is called in SQL: a table with the columns `data_file_id`, `partition_id` and `value`.
        field_id: The column.
        transform: `identity`, `year`, `month`, `day`, `hour` or `bucket(n)`.
        places: Each partitioning that has it, and at which index.
    """

    name: str
    field_id: int
    transform: str
    places: tuple[tuple[int, int], ...]

    def table_sql(self, table_id: int) -> str:
        """The query of its values, by file; a value counts for the partitioning that the file was written with."""
        places = ", ".join(f"({partition_id}, {index})" for partition_id, index in self.places)
        return f"""
            SELECT v.data_file_id, k.partition_id, v.partition_value AS value
            FROM ducklake_file_partition_value AS v
            JOIN (VALUES {places}) AS k(partition_id, index) ON k.index = v.partition_key_index
            WHERE v.table_id = {table_id}"""  # noqa: S608


def usable_keys(
    transaction: MetadataTransaction, table_id: int, columns: Iterable[Column]
) -> dict[int, list[PartitionKey]]:
    """The keys on these columns that can tell which files may match, by field id."""
    by_id = {column.field_id: column for column in columns}
    places: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)
    for partition_id, index, field_id, transform in transaction.rows(_KEYS, [table_id]):
        if field_id in by_id and _tells(by_id[field_id], transform):
            places[field_id, transform].append((partition_id, index))
    keys: dict[int, list[PartitionKey]] = defaultdict(list)
    for number, ((field_id, transform), where) in enumerate(sorted(places.items())):
        keys[field_id].append(PartitionKey(f"key_{number}", field_id, transform, tuple(where)))
    return keys


def condition(key: PartitionKey, column: Column, operator: Operator, values: Sequence[Value]) -> str | None:
    """When a file may hold a row whose column compares with one of the values; None where the key does not say.

    Not for `identity`, whose value bounds the column as statistics do.
    """
    bucket = _BUCKET.fullmatch(key.transform)
    if bucket:
        wanted: list[Any] = [
            f"(murmur3_32({value_sql(value, column.type)}) & 2147483647) % {bucket[1]}" for value in values
        ]
    else:
        wanted = [getattr(value, key.transform) for value in values]
    value = f"TRY_CAST({key.name}.value AS BIGINT)"
    if operator == "=":
        return f"{value} IN ({', '.join(map(str, wanted))})"
    if key.transform == "year" and operator != "!=":
        # A year is ordered as its moments are; the other parts come round again.
        return f"{value} {'<=' if operator in ('<', '<=') else '>='} {wanted[0]}"
    return None


def _tells(column: Column, transform: str) -> bool:
    if transform == "identity":
        return True
    if _BUCKET.fullmatch(transform):
        # A promotion changes the hash of some types.
        is_hashed = column.type in _HASHED or column.type.startswith("decimal(")
        return is_hashed and not column.former_types and not column.later_types
    # The parts of a time with a zone depend on the zone of the session that wrote the file.
    is_local = column.type in _MOMENTS | ({"date"} if transform != "hour" else set())
    return transform in _PARTS and is_local and "timestamptz" not in column.later_types
