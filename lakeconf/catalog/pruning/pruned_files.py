"""The files that can have rows of a predicate, found by SQL in the catalog."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from lakeconf.catalog.column_types import TYPES, Fact, has
from lakeconf.catalog.pruning.predicates import (
    And,
    Comparison,
    Expression,
    In,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Value,
    columns_of,
    literal_type,
    value_sql,
)
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.ducklake import visible_at

_ZONED_TEXT = r":[0-9]{2}(\.[0-9]{1,6})?[+-][0-9:]+$|^-?infinity$"
_KEYS = (
    "SELECT partition_id, partition_key_index, column_id, transform FROM ducklake_partition_column WHERE table_id = ?"
)
_BUCKET = re.compile(r"bucket\((\d+)\)")
_PARTS = {"year", "month", "day", "hour"}
_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
# For longer lists, only the minimum and maximum are compared with the bounds.
_FEW_VALUES = 50
_STATISTICS = "data_file_id, null_count, value_count, column_size_bytes, min_value, max_value, contains_nan"
_STATISTICS_TYPES = (
    "data_file_id BIGINT, null_count BIGINT, value_count BIGINT, column_size_bytes BIGINT, min_value VARCHAR, "
    "max_value VARCHAR, contains_nan VARCHAR"
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """SQL expressions for a lower and an upper bound of a file's values."""

    low: str
    high: str


def bounds_of(column: Column, low: str, high: str) -> Bounds | None:
    """Returns the bounds of a column; None if its type has no usable bounds."""
    if not has(column.type, Fact.COMPARED):
        return None
    if column.type == "timestamptz":
        return _zoned(low, high)
    if has(column.type, Fact.NAIVE):
        return _naive(column, low, high)
    if column.type == "float64":
        # A promoted DECIMAL becomes a DOUBLE by division, which rounds differently from parsing its text.
        near = "nextafter(nextafter(TRY_CAST({1} AS DOUBLE), {2}), {2})"
        wide = "{0}(" + near + ", CAST(TRY_CAST({1} AS FLOAT) AS DOUBLE))"
        lowest, greatest = (f"CAST('{sign}inf' AS DOUBLE)" for sign in ("-", ""))
        return Bounds(
            _unless_nan(wide.format("least", low, lowest)), _unless_nan(wide.format("greatest", high, greatest))
        )
    target = literal_type(column.type)
    exact = Bounds(f"TRY_CAST({low} AS {target})", f"TRY_CAST({high} AS {target})")
    if column.type == "float32":
        return Bounds(_unless_nan(exact.low), _unless_nan(exact.high))
    if column.type == "date" and "timestamptz" in column.later_types:
        return Bounds(f"TRY({exact.low} - 1)", f"TRY({exact.high} + 1)")
    return exact


def comparable_sql(value: Value, column: Column) -> str:
    """Renders a value in SQL for the comparison with its column's bounds."""
    return value_sql(value, "timestamp" if has(column.type, Fact.NAIVE) else column.type)


def is_nan(value: Value) -> bool:
    """Returns True if the value is NaN."""
    return isinstance(value, float) and math.isnan(value)


def _unless_nan(expression: str) -> str:
    return f"nullif({expression}, 'nan')"


def _naive(column: Column, low: str, high: str) -> Bounds:
    digits = TYPES[column.type].second_digits or 0
    # The length of a string with the type's precision, and the largest rounding error of a longer one.
    length = 19 + (1 + min(digits, 6) if digits else 0)
    slack = "1 SECOND" if digits < 6 else "1 MICROSECOND"
    if "timestamptz" in column.later_types:
        length, slack = 0, "1 DAY"  # a file compacted after the promotion has strings with an offset

    def widened(text: str, sign: str) -> str:
        moment = f"TRY_CAST({text} AS TIMESTAMP)"
        return f"CASE WHEN length({text}) > {length} THEN TRY({moment} {sign} INTERVAL {slack}) ELSE {moment} END"

    return Bounds(widened(low, "-"), widened(high, "+"))


def _zoned(low: str, high: str) -> Bounds:
    # A string without an offset is from before a promotion. Its meaning depends on the reader's time zone, and around
    # clock changes the order of such strings differs from the order of their times.
    def widened(text: str, sign: str) -> str:
        moment = f"TRY_CAST({text} AS TIMESTAMPTZ)"
        return (
            f"CASE WHEN regexp_matches({text}, '{_ZONED_TEXT}') THEN {moment} "
            f"ELSE TRY({moment} {sign} INTERVAL 1 DAY) END"
        )

    return Bounds(widened(low, "-"), widened(high, "+"))


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A partition key of any current or former partitioning of the table."""

    name: str  # the name in SQL of its values: a table with the columns `data_file_id`, `partition_id` and `value`
    field_id: int  # the field id of its column
    transform: str  # `identity`, `year`, `month`, `day`, `hour` or `bucket(n)`
    # Pairs of `partition_id` and `partition_key_index`, for each partitioning that contains it.
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


def partition_condition(key: PartitionKey, column: Column, operator: Operator, values: Sequence[Value]) -> str | None:
    """Returns the condition for a file that may contain matching rows; None if the key cannot exclude files.

    Not for `identity`: its values are bounds, like statistics.
    """
    transformed: list[Any] = [
        bucket_sql(key.transform, value_sql(value, column.type)) or getattr(value, key.transform) for value in values
    ]
    value = f"TRY_CAST({key.name}.value AS BIGINT)"
    if operator == "=":
        return f"{value} IN ({', '.join(map(str, transformed))})"
    if key.transform == "year" and operator != "!=":
        # Years have the order of their times; months, days and hours repeat.
        return f"{value} {'<=' if operator in ('<', '<=') else '>='} {transformed[0]}"
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
        return has(column.type, Fact.HASHED) and not column.former_types and not column.later_types
    # The parts of a TIMESTAMPTZ depend on the time zone of the session that wrote the file.
    is_local = has(column.type, Fact.NAIVE) or (column.type == "date" and transform != "hour")
    return transform in _PARTS and is_local and "timestamptz" not in column.later_types


@dataclass(frozen=True, slots=True)
class Survivors:
    """The files of a table that a predicate may match."""

    data_file_ids: tuple[int, ...]  # the files that may contain matching rows
    files_skipped: int  # the number of other files visible at the snapshot
    bytes_skipped: int  # their size in bytes


def surviving_files(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, predicate: Predicate
) -> Survivors:
    """Finds the files of the table that may contain matching rows."""
    columns = columns_of(predicate)
    keys = usable_keys(transaction, table.table_id, columns)
    condition = _Pruning(keys).condition(predicate, negated=False)
    tables = {f"stats_{column.field_id}": statistics_sql(transaction, table.table_id, column) for column in columns}
    joins = [f"LEFT JOIN {name} ON {name}.data_file_id = f.data_file_id" for name in tables]
    for key in (key for column_keys in keys.values() for key in column_keys):
        tables[key.name] = key.table_sql(table.table_id)
        joins.append(
            f"LEFT JOIN {key.name} "
            f"ON {key.name}.data_file_id = f.data_file_id AND {key.name}.partition_id = f.partition_id"
        )
    definitions = ", ".join(f"{name} AS ({sql})" for name, sql in tables.items())
    sql = f"""
        WITH {definitions}, marked AS (
            SELECT f.data_file_id, f.file_size_bytes, {condition} AS survives
            FROM ducklake_data_file AS f {" ".join(joins)}
            WHERE f.table_id = $2 AND {visible_at(row="f")}
        )
        SELECT list(DISTINCT data_file_id) FILTER (survives), count(*) FILTER (NOT survives),
            coalesce(sum(file_size_bytes) FILTER (NOT survives), 0)
        FROM marked"""  # noqa: S608
    ((survivors, files_skipped, bytes_skipped),) = transaction.rows(sql, [snapshot_id, table.table_id])
    return Survivors(tuple(sorted(survivors or ())), files_skipped, int(bytes_skipped))


def statistics_sql(transaction: MetadataTransaction, table_id: int, column: Column) -> str:
    """The query for the statistics of a column by file: bounds, which are NULL if unknown, and numbers of values."""
    bounds = bounds_of(column, "min_value", "max_value") or Bounds("NULL", "NULL")
    condition = f"table_id = {table_id} AND column_id = {column.field_id}"
    rows = f"SELECT {_STATISTICS} FROM ducklake_file_column_stats WHERE {condition}"  # noqa: S608
    return f"""
        SELECT data_file_id, {bounds.low} AS low, {bounds.high} AS high, null_count, value_count,
            CAST(contains_nan AS BOOLEAN) AS contains_nan, column_size_bytes
        FROM ({transaction.own_sql(rows, _STATISTICS_TYPES)})"""  # noqa: S608


class _Pruning:
    """Converts a predicate to a condition on a file: true if the file may contain matching rows, never NULL."""

    def __init__(self, keys: dict[int, list[PartitionKey]]) -> None:
        self._keys = keys

    def condition(self, predicate: Predicate, *, negated: bool) -> str:
        if isinstance(predicate, Not):
            return self.condition(predicate.operand, negated=not negated)
        if isinstance(predicate, And | Or):
            # NOT distributes over AND and OR, with NULLs too.
            all_of_them = isinstance(predicate, And) != negated
            parts = (self.condition(operand, negated=negated) for operand in predicate.operands)
            return "(" + (" AND " if all_of_them else " OR ").join(parts) + ")"
        if isinstance(predicate, Expression) or literal_type(predicate.column.type) is None:
            return "true"  # statistics of nested columns and variants count their parts
        name = f"stats_{predicate.column.field_id}"
        all_null = f"({name}.value_count = 0 AND {name}.null_count > 0)"
        if isinstance(predicate, IsNull):
            # Some types have neither count, so NULLs are possible.
            none_null = f"({name}.null_count = 0 AND {name}.value_count > 0)"
            return _unless(all_null if negated else none_null)
        return f"({_unless(all_null)} AND {' AND '.join(self._leaf(predicate, name, negated=negated))})"

    def _leaf(self, predicate: Comparison | In | StartsWith, name: str, *, negated: bool) -> list[str]:
        column = predicate.column
        evidence = [Evidence(f"{name}.low", f"{name}.high", f"{name}.contains_nan")]
        conditions = []
        for key in self._keys.get(column.field_id, ()):
            bounds = bounds_of(column, f"{key.name}.value", f"{key.name}.value")
            if key.transform != "identity":
                conditions.append(_key_condition(key, predicate, negated=negated))
            elif bounds is not None:
                evidence.append(Evidence(bounds.low, bounds.high, "NULL"))
        return [may_hold(each, predicate, negated=negated) for each in evidence] + conditions


@dataclass(frozen=True, slots=True)
class Evidence:
    """SQL expressions for known facts about the values of a column in a file; NULL means unknown."""

    low: str
    high: str
    contains_nan: str


def _unless(impossible: str) -> str:
    """Returns a condition that is true unless `impossible` is true."""
    return f"({impossible}) IS NOT TRUE"


def may_hold(evidence: Evidence, predicate: Comparison | In | StartsWith, *, negated: bool) -> str:
    """The condition that a predicate may be true, or false if `negated`, for a value that is not NULL."""
    if isinstance(predicate, StartsWith):
        return _may_start(evidence, predicate.prefix, negated=negated)
    if isinstance(predicate, In):
        return _may_be_one_of(evidence, predicate, negated=negated)
    operator = _OPPOSITE[predicate.operator] if negated else predicate.operator
    return _may_compare(evidence, predicate.column, operator, predicate.value)


def _may_compare(evidence: Evidence, column: Column, operator: Operator, value: Value) -> str:
    if is_nan(value):
        return _may_compare_with_nan(evidence, operator)
    constant = comparable_sql(value, column)
    low, high = evidence.low, evidence.high
    impossible = {
        "=": f"{low} > {constant} OR {high} < {constant}",
        "!=": f"{low} = {constant} AND {high} = {constant}",
        "<": f"{low} >= {constant}",
        "<=": f"{low} > {constant}",
        ">": f"{high} <= {constant}",
        ">=": f"{high} < {constant}",
    }[operator]
    if has(column.type, Fact.FLOAT) and operator in ("!=", ">", ">="):
        # NaN is greater than every bound, and bounds do not cover it.
        impossible = f"({impossible}) AND {evidence.contains_nan} = false"
    return _unless(impossible)


def _may_compare_with_nan(evidence: Evidence, operator: Operator) -> str:
    if operator == ">":
        return "false"
    return _unless(f"{evidence.contains_nan} = false") if operator in ("=", ">=") else "true"


def _may_be_one_of(evidence: Evidence, predicate: In, *, negated: bool) -> str:
    column, values = predicate.column, predicate.values
    if any(is_nan(value) for value in values):
        return "true"
    if negated:
        differ = [f"({_may_compare(evidence, column, '!=', value)})" for value in values[:_FEW_VALUES]]
        return "(" + " AND ".join(differ) + ")"
    if len(values) > _FEW_VALUES:
        least, greatest = min(values), max(values)
        return f"({_may_compare(evidence, column, '>=', least)} AND {_may_compare(evidence, column, '<=', greatest)})"
    return "(" + " OR ".join(_may_compare(evidence, column, "=", value) for value in values) + ")"


def _may_start(evidence: Evidence, prefix: str, *, negated: bool) -> str:
    start = value_sql(prefix, "varchar")
    if negated:
        # All strings between two strings with the prefix have the prefix, too.
        return _unless(f"starts_with({evidence.low}, {start}) AND starts_with({evidence.high}, {start})")
    above = f"{evidence.low} > {start} AND NOT starts_with({evidence.low}, {start})"
    return _unless(f"({above}) OR {evidence.high} < {start}")


def _key_condition(key: PartitionKey, predicate: Comparison | In | StartsWith, *, negated: bool) -> str:
    operator: Operator
    values: Sequence[Value]
    if isinstance(predicate, Comparison):
        operator, values = predicate.operator, [predicate.value]
        operator = _OPPOSITE[operator] if negated else operator
    elif isinstance(predicate, In) and not negated and len(predicate.values) <= _FEW_VALUES:
        operator, values = "=", predicate.values
    else:
        return "true"
    condition = partition_condition(key, predicate.column, operator, values)
    return "true" if condition is None else f"({condition}) IS NOT FALSE"
