"""Finds the data files that may contain matching rows, by statistics and partition values.

DuckDB evaluates an SQL condition on the metadata, so only the remaining files reach Python. A file is skipped only if
none of its rows can match. It is kept if a bound is unknown, cannot be cast to the column's type, or depends on a
session.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakeconf.catalog.predicate.nodes import (
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
from lakeconf.catalog.pruning import partition
from lakeconf.catalog.pruning.bounds import Bounds, bounds_of, comparable_sql, is_float, is_nan
from lakeconf.catalog.pruning.partition import PartitionKey
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.ducklake import visible_at

_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
# For longer lists, only the minimum and maximum are compared with the bounds.
_FEW_VALUES = 50
_STATISTICS = {
    **dict.fromkeys(("data_file_id", "null_count", "value_count", "column_size_bytes"), "BIGINT"),
    **dict.fromkeys(("min_value", "max_value", "contains_nan"), "VARCHAR"),
}


@dataclass(frozen=True, slots=True)
class Survivors:
    """The files of a table that a predicate may match.

    Attributes:
        data_file_ids: The files that may contain matching rows.
        files_skipped: The number of other files visible at the snapshot.
        bytes_skipped: Their size in bytes.
    """

    data_file_ids: tuple[int, ...]
    files_skipped: int
    bytes_skipped: int


def surviving_files(
    transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, predicate: Predicate
) -> Survivors:
    """Finds the files of the table that may contain matching rows.

    Args:
        transaction: The open metadata transaction; reads use its time zone.
        table: The table at the snapshot.
        snapshot_id: The snapshot.
        predicate: A predicate on columns of that table.
    """
    columns = columns_of(predicate)
    keys = partition.usable_keys(transaction, table.table_id, columns)
    condition = _Pruning(keys).condition(predicate, negated=False)
    tables = {f"stats_{column.field_id}": statistics_sql(transaction, table.table_id, column) for column in columns}
    joins = [f"LEFT JOIN {name} ON {name}.data_file_id = f.data_file_id" for name in tables]
    for key in (key for found in keys.values() for key in found):
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
    return f"""
        SELECT data_file_id, {bounds.low} AS low, {bounds.high} AS high, null_count, value_count,
            CAST(contains_nan AS BOOLEAN) AS contains_nan, column_size_bytes
        FROM ({transaction.selected("ducklake_file_column_stats", _STATISTICS, condition)})"""  # noqa: S608


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
        found = []
        for key in self._keys.get(column.field_id, ()):
            bounds = bounds_of(column, f"{key.name}.value", f"{key.name}.value")
            if key.transform != "identity":
                found.append(_key_condition(key, predicate, negated=negated))
            elif bounds is not None:
                evidence.append(Evidence(bounds.low, bounds.high, "NULL"))
        return [may_hold(each, predicate, negated=negated) for each in evidence] + found


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
    wanted = comparable_sql(value, column)
    low, high = evidence.low, evidence.high
    impossible = {
        "=": f"{low} > {wanted} OR {high} < {wanted}",
        "!=": f"{low} = {wanted} AND {high} = {wanted}",
        "<": f"{low} >= {wanted}",
        "<=": f"{low} > {wanted}",
        ">": f"{high} <= {wanted}",
        ">=": f"{high} < {wanted}",
    }[operator]
    if is_float(column) and operator in ("!=", ">", ">="):
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
    wanted = value_sql(prefix, "varchar")
    if negated:
        # All strings between two strings with the prefix have the prefix, too.
        return _unless(f"starts_with({evidence.low}, {wanted}) AND starts_with({evidence.high}, {wanted})")
    above = f"{evidence.low} > {wanted} AND NOT starts_with({evidence.low}, {wanted})"
    return _unless(f"({above}) OR {evidence.high} < {wanted}")


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
    condition = partition.condition(key, predicate.column, operator, values)
    return "true" if condition is None else f"({condition}) IS NOT FALSE"
