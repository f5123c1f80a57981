"""The smallest and greatest keys of a staged frame, from the footers of its files, as a condition on a table."""

from __future__ import annotations

from collections.abc import Sequence

from lakeconf.catalog.predicate.literals import Text, compare
from lakeconf.catalog.predicate.nodes import And, Predicate
from lakeconf.catalog.table import Column
from lakeconf.catalog.types import duckdb_name
from lakeconf.connection.connection import Connection
from lakeconf.errors import PredicateError
from lakeconf.sql import literal

# Types whose statistics in Spark's files are exact. Those of floats ignore NaN; those of BLOBs have no text.
_BOUNDED = frozenset(("int8", "int16", "int32", "int64", "date", "timestamp", "timestamptz", "varchar"))


def key_bounds(writer: Connection, files: Sequence[str], keys: Sequence[Column]) -> Predicate | None:
    """The condition that every row of a table satisfies which matches a row of staged files.

    Args:
        writer: A connection that can access the files.
        files: Parquet files that Spark wrote.
        keys: The columns of the table to match on; NULL matches nothing.

    Returns:
        The condition; None if nothing is known.
    """
    bounds = [bound for key in keys for bound in _bounds(writer, files, key)]
    return And(tuple(bounds)) if bounds else None


def _bounds(writer: Connection, files: Sequence[str], key: Column) -> list[Predicate]:
    if not files or not (key.type in _BOUNDED or key.type.startswith("decimal(")):
        return []
    listed = ", ".join(map(literal, files))
    # DuckDB shows moments in UTC, without saying so; a cast would use the time zone of the session.
    zone = " || '+00'" if key.type == "timestamptz" else ""
    low, high = (
        f"TRY_CAST({bound}{zone} AS {duckdb_name(key.type)})" for bound in ("stats_min_value", "stats_max_value")
    )
    is_known = "low IS NOT NULL AND high IS NOT NULL"
    if key.type == "varchar":
        # DuckDB shows bytes that are no text in this form.
        is_known += r" AND NOT contains(low || high, '\x') AND NOT contains(low || high, chr(0))"
    ((unknown, least, greatest),) = writer.rows(f"""
        SELECT count(*) FILTER ((stats_null_count = num_values OR ({is_known})) IS NOT TRUE),
            CAST(min(low) AS VARCHAR), CAST(max(high) AS VARCHAR)
        FROM (
            SELECT {low} AS low, {high} AS high, stats_null_count, num_values FROM parquet_metadata([{listed}])
            WHERE encode(path_in_schema) = encode({literal(key.name)})
        )""")
    if unknown or least is None:
        return []
    try:
        return [compare(key, ">=", Text(least)), compare(key, "<=", Text(greatest))]
    except PredicateError:
        return []  # such as a date after the year 9999
