"""The keys of a staged frame as a condition on a table: all values if they are few, else the smallest and greatest."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from lakeconf.catalog.column_types import Fact, duckdb_name, has
from lakeconf.catalog.file_footers import are_text_sql, chunks_sql, is_path_sql
from lakeconf.catalog.pruning.literals import Text, compare, one_of
from lakeconf.catalog.pruning.predicates import And, Predicate
from lakeconf.catalog.tables import Column
from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError, PredicateError
from lakeconf.sql import files_sql, identifier

# As many values as planning compares one by one with the statistics of files.
_FEW = 50


def key_bounds(
    writer: Connection, files: Sequence[str], keys: Sequence[Column], listed: Collection[Column] = ()
) -> Predicate | None:
    """The condition that every row of a table satisfies which matches a row of staged files."""
    known = [key for key in keys if has(key.type, Fact.IN_FOOTERS)] if files else []
    bounds = [
        bound
        for key in known
        for bound in ((_values(writer, files, key) if key in listed else []) or _key_bounds(writer, files, key))
    ]
    return And(tuple(bounds)) if bounds else None


def _values(writer: Connection, files: Sequence[str], key: Column) -> list[Predicate]:
    """The condition that a key has one of the values in the files; none if there are many."""
    read = files_sql("read_parquet", files)
    name = identifier(key.name)
    try:
        rows = writer.rows(
            f"SELECT DISTINCT CAST({name} AS VARCHAR) FROM {read} WHERE {name} IS NOT NULL LIMIT {_FEW + 1}"
        )
        values = [Text(value) for (value,) in rows]
        if not values or len(values) > _FEW or any("\0" in value.value for value in values):
            return []
        return [one_of(key, list(values))]
    except LakeconfError:
        return []  # such as a date after the year 9999, or bytes that are not a string


def _key_bounds(writer: Connection, files: Sequence[str], key: Column) -> list[Predicate]:
    low, high = (f"TRY_CAST({bound} AS {duckdb_name(key.type)})" for bound in ("low", "high"))
    is_known = f"{low} IS NOT NULL AND {high} IS NOT NULL"
    if key.type == "varchar":
        is_known += f" AND {are_text_sql('low', 'high')}"
    if key.type == "timestamptz":
        # Without an offset, the cast would use the time zone of the session.
        is_known += " AND low LIKE '%+00' AND high LIKE '%+00'"
    ((unknown, least, greatest),) = writer.rows(f"""
        SELECT count(*) FILTER ((nulls = row_count OR ({is_known})) IS NOT TRUE),
            CAST(min({low}) AS VARCHAR), CAST(max({high}) AS VARCHAR)
        FROM ({chunks_sql(files)}) WHERE {is_path_sql(key.name)}""")
    if unknown or least is None:
        return []
    try:
        return [compare(key, ">=", Text(least)), compare(key, "<=", Text(greatest))]
    except PredicateError:
        return []  # such as a date after the year 9999
