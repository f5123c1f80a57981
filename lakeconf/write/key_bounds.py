"""The keys of a staged frame as a condition on a table: all values if they are few, else the smallest and greatest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakeconf.catalog.predicate.literals import Text, compare, one_of
from lakeconf.catalog.predicate.nodes import And, Predicate
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import duckdb_name
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError, PredicateError
from lakeconf.sql import identifier, literal

# As many values as planning compares one by one with the statistics of files.
_FEW = 50
# Types whose statistics in Spark's files are exact. Those of floats ignore NaN; those of BLOBs have no text.
_BOUNDED = frozenset(("int8", "int16", "int32", "int64", "date", "timestamp", "timestamptz", "varchar"))


def key_bounds(
    writer: Connection, files: Sequence[str], keys: Sequence[Column], listed: Collection[Column] = ()
) -> Predicate | None:
    """The condition that every row of a table satisfies which matches a row of staged files.

    Args:
        writer: A connection that can access the files.
        files: Parquet files that Spark wrote.
        keys: The columns of the table to match on; NULL matches nothing.
        listed: The keys whose values are read, because few of them may lie far apart; the others only need footers.

    Returns:
        The condition; None if nothing is known.
    """
    known = [key for key in keys if key.type in _BOUNDED or key.type.startswith("decimal(")] if files else []
    bounds = [
        bound
        for key in known
        for bound in ((_values(writer, files, key) if key in listed else []) or _bounds(writer, files, key))
    ]
    return And(tuple(bounds)) if bounds else None


def _values(writer: Connection, files: Sequence[str], key: Column) -> list[Predicate]:
    """The condition that a key has one of the values in the files; none if there are many."""
    read = f"read_parquet([{', '.join(map(literal, files))}], hive_partitioning = false)"
    name = identifier(key.name)
    try:
        found = writer.rows(
            f"SELECT DISTINCT CAST({name} AS VARCHAR) FROM {read} WHERE {name} IS NOT NULL LIMIT {_FEW + 1}"
        )
        values = [Text(value) for (value,) in found]
        if not values or len(values) > _FEW or any("\0" in value.value for value in values):
            return []
        return [one_of(key, list(values))]
    except LakeconfError:
        return []  # such as a date after the year 9999, or bytes that are no text


def _bounds(writer: Connection, files: Sequence[str], key: Column) -> list[Predicate]:
    listed = ", ".join(map(literal, files))
    low, high = (f"TRY_CAST({bound} AS {duckdb_name(key.type)})" for bound in ("stats_min_value", "stats_max_value"))
    is_known = "low IS NOT NULL AND high IS NOT NULL"
    if key.type == "varchar":
        # DuckDB shows bytes that are no text in this form.
        is_known += r" AND NOT contains(low || high, '\x') AND NOT contains(low || high, chr(0))"
    if key.type == "timestamptz":
        # Without an offset, the cast would use the time zone of the session.
        is_known += " AND stats_min_value LIKE '%+00' AND stats_max_value LIKE '%+00'"
    ((unknown, least, greatest),) = writer.rows(f"""
        SELECT count(*) FILTER ((stats_null_count = num_values OR ({is_known})) IS NOT TRUE),
            CAST(min(low) AS VARCHAR), CAST(max(high) AS VARCHAR)
        FROM (
            SELECT {low} AS low, {high} AS high, * FROM parquet_metadata([{listed}])
            WHERE encode(path_in_schema) = encode({literal(key.name)})
        )""")
    if unknown or least is None:
        return []
    try:
        return [compare(key, ">=", Text(least)), compare(key, "<=", Text(greatest))]
    except PredicateError:
        return []  # such as a date after the year 9999
