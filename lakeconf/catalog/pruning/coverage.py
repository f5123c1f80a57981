"""Finds the data files of which every row satisfies a predicate, by statistics.

A wrong answer here deletes rows, so the evidence must be stronger than for skipping files: it comes from the footers of
the files, never from partition values, which DuckLake takes from a path without checking the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakeconf.catalog.predicate.nodes import And, Expression, IsNull, Not, Or, Predicate, columns_of, literal_type
from lakeconf.catalog.pruning.files import Evidence, may_hold, statistics_sql
from lakeconf.catalog.reader import MetadataTransaction
from lakeconf.catalog.table import Column, TableInfo
from lakeconf.ducklake import visible_at

# The value of each `key=value` in a path.
_IN_PATH = "list_transform(string_split(f.path, '/'), lambda part: url_decode(regexp_extract(part, '^[^=]+=(.+)$', 1)))"


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a predicate means for the files of a table.

    Attributes:
        covered: The ids of files of which every row satisfies it, including deleted rows; others may be covered too.
        column_bytes: The size of its columns in each file, by id of the file.
    """

    covered: frozenset[int]
    column_bytes: Mapping[int, int]


def coverage(transaction: MetadataTransaction, table: TableInfo, snapshot_id: int, predicate: Predicate) -> Coverage:
    """Evaluates a predicate on the statistics of files.

    Args:
        transaction: The open metadata transaction.
        table: The table at the snapshot.
        snapshot_id: The snapshot.
        predicate: A predicate on columns of that table.
    """
    statistics = {
        f"stats_{column.field_id}": statistics_sql(transaction, table.table_id, column)
        for column in columns_of(predicate)
    }
    definitions = ", ".join(f"{name} AS ({sql})" for name, sql in statistics.items())
    joins = " ".join(f"LEFT JOIN {name} ON {name}.data_file_id = f.data_file_id" for name in statistics)
    size = " + ".join(f"coalesce({name}.column_size_bytes, 0)" for name in statistics)
    sql = f"""
        WITH {definitions}
        SELECT f.data_file_id, {_covers(predicate, negated=False)}, {size} FROM ducklake_data_file AS f {joins}
        WHERE f.table_id = $2 AND {visible_at(row="f")}"""  # noqa: S608
    rows = transaction.rows(sql, [snapshot_id, table.table_id])
    return Coverage(
        frozenset(file_id for file_id, covers, _ in rows if covers), {file_id: int(size) for file_id, _, size in rows}
    )


def _covers(predicate: Predicate, *, negated: bool) -> str:
    """The condition that a predicate is true, or false if `negated`, for every row of a file; never NULL."""
    if isinstance(predicate, Not):
        return _covers(predicate.operand, negated=not negated)
    if isinstance(predicate, And | Or):
        all_of_them = isinstance(predicate, And) != negated
        parts = (_covers(operand, negated=negated) for operand in predicate.operands)
        return "(" + (" AND " if all_of_them else " OR ").join(parts) + ")"
    if isinstance(predicate, Expression) or literal_type(predicate.column.type) is None:
        return "false"  # statistics of nested columns and variants count their parts
    name = f"stats_{predicate.column.field_id}"
    # Some types have no counts, and a file without the column has no statistics.
    counted = f"{name}.value_count + {name}.null_count = f.record_count AND f.record_count > 0"
    no_null = f"({counted} AND {name}.null_count = 0) IS TRUE"
    if isinstance(predicate, IsNull):
        return f"({no_null})" if negated else f"(({counted} AND {name}.value_count = 0) IS TRUE)"
    in_order = f"({name}.low <= {name}.high) IS TRUE"
    return f"({no_null} AND {in_order} AND NOT {may_hold(_evidence(predicate.column), predicate, negated=not negated)})"


def _evidence(column: Column) -> Evidence:
    name = f"stats_{column.field_id}"
    low, high = f"{name}.low", f"{name}.high"
    if column.type == "varchar":
        # DuckLake may replace placeholders in such bounds, so the path must confirm them: the value of a partition.
        confirmed = f"{low} = {high} AND list_contains({_IN_PATH}, {low}) AND {low} != ''"
        confirmed += " AND NOT regexp_matches(f.path, '\\{|%7B', 'i')"
        low, high = (f"CASE WHEN {confirmed} THEN {bound} END" for bound in (low, high))
    return Evidence(low, high, f"{name}.contains_nan")
