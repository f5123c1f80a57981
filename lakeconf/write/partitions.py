"""The partitions of a table as conditions on its rows, for an overwrite of the partitions of a frame."""

from __future__ import annotations

from collections import defaultdict

from lakeconf.catalog.column_types import Fact, has
from lakeconf.catalog.pruning.predicates import Or, Predicate
from lakeconf.catalog.pruning.pruned_files import bucket_sql
from lakeconf.catalog.pruning.where import predicate_of
from lakeconf.catalog.tables import Column, TableInfo
from lakeconf.connection.connection import Connection
from lakeconf.errors import PredicateError, SchemaError
from lakeconf.sql import identifier, literal

# More partitions would make the condition, which DuckDB evaluates for every file, too long.
_MOST_PARTITIONS = 400

# Transforms of one column that together are a range of its values, each with the unit of this range.
_RANGES = {
    frozenset(("year",)): "year",
    frozenset(("year", "month")): "month",
    frozenset(("year", "month", "day")): "day",
    frozenset(("year", "month", "day", "hour")): "hour",
}


def check_recurring(info: TableInfo) -> None:
    """Rejects partition keys that recur: `month(day)` alone puts the same month of all years into one partition."""
    larger = {"month": ("year",), "day": ("year", "month"), "hour": ("year", "month", "day")}
    keys = {(part.field_id, part.transform) for part in info.partition_fields}
    names = {column.field_id: column.name for column in info.columns}
    for field_id, transform in sorted(keys):
        lacking = [part for part in larger.get(transform, ()) if (field_id, part) not in keys]
        if lacking and (field_id, "identity") not in keys:
            name = names[field_id]
            keys_of_range = ", ".join(f'"{part}({name})"' for part in (*larger[transform], transform))
            raise SchemaError(
                f"{transform}({name}) recurs: a partition of {info.full_name} contains rows of every {lacking[-1]}, "
                "and all of them would be replaced",
                hint=f"use overwrite(frame, where=…), partition the table by [{keys_of_range}], or pass recurring=True",
            )


def partition_keys(info: TableInfo) -> list[str]:
    """The partition keys of a table, as DuckDB expressions."""
    names = {column.field_id: identifier(column.name) for column in info.columns}
    keys = []
    for part in info.partition_fields:
        column = names[part.field_id]
        if part.transform == "identity":
            keys.append(column)
        else:
            keys.append(bucket_sql(part.transform, column) or f"{part.transform}({column})")
    return keys


def partitions_predicate(writer: Connection, info: TableInfo, source: str) -> Predicate | None:
    """The predicate for the rows of all partitions for which staged rows exist."""
    transforms: dict[int, set[str]] = defaultdict(set)
    for part in info.partition_fields:
        transforms[part.field_id].add(part.transform)
    columns = {column.field_id: column for column in info.columns}
    bounds_sql = {columns[field_id]: _bounds(columns[field_id], kinds) for field_id, kinds in transforms.items()}
    bounds = {column: bound for column, bound in bounds_sql.items() if bound is not None}
    if not bounds or len(bounds) < len(bounds_sql):
        return None
    texts = ", ".join(f"CAST({text} AS VARCHAR)" for bound in bounds.values() for text in bound)
    rows = writer.rows(f"SELECT DISTINCT {texts} FROM ({source}) LIMIT {_MOST_PARTITIONS + 1}")
    if not 0 < len(rows) <= _MOST_PARTITIONS:
        return None
    partitions = []
    for row in rows:
        values = iter(row)
        parts = [_part(column, [next(values) for _ in bound]) for column, bound in bounds.items()]
        if None in parts:
            return None
        partitions.append(f"({' AND '.join(map(str, parts))})")
    try:
        # One by one: the parser is recursive.
        return Or(tuple(predicate_of(partition, info.columns) for partition in partitions))
    except PredicateError:
        return None  # a date that a `where` does not support


def _bounds(column: Column, transforms: set[str]) -> tuple[str, ...] | None:
    """SQL for the value of a column in a partition, or for the first value and the one after the last one."""
    name = identifier(column.name)
    if transforms == {"identity"}:
        # The text of a TIMESTAMPTZ depends on the session's time zone.
        return (name,) if has(column.type, Fact.IN_PATHS) and column.type != "timestamptz" else None
    unit = _RANGES.get(frozenset(transforms))
    if unit is None or column.type not in ("date", "timestamp"):
        return None
    first = f"date_trunc('{unit}', CAST({name} AS TIMESTAMP))"
    return tuple(f"CAST({moment} AS {column.type})" for moment in (first, f"{first} + INTERVAL 1 {unit}"))


def _part(column: Column, values: list[str | None]) -> str | None:
    """The condition on a column; None if it is unknown, because infinite dates have no year."""
    name = identifier(column.name)
    if len(values) == 1:
        return f"{name} IS NULL" if values[0] is None else f"{name} = {literal(values[0])}"
    if None in values:
        return None
    first, after = map(str, values)
    return f"{name} >= {literal(first)} AND {name} < {literal(after)}"
