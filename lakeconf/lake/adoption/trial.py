"""Registers files in a lake of their own first, which nobody else reads, and compares what DuckLake makes of them.

DuckLake trusts the statistics in the footers: a file with wrong ones, or without some, would hide rows from filters.
"""

from __future__ import annotations

import contextlib
import tempfile
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from lakeconf.catalog.column_types import fields_of, parsed_type
from lakeconf.connection.connection import Connection
from lakeconf.ducklake import metadata_database
from lakeconf.errors import CommitError, LakeconfError, SchemaError
from lakeconf.lake.adoption.adopted_source import Source
from lakeconf.lake.adoption.footers import WRITE_AGAIN
from lakeconf.lake.adoption.tally import FLOATS, tally
from lakeconf.sql import identifier, literal, qualified
from lakeconf.write.operations.adopt import registering, registration_sql

_TABLE = "adopted"
_ROWS = "lakeconf_adopted_files"
# The types of which DuckLake takes a file without bounds for one without values.
_BOUNDED = (
    *("tinyint", "smallint", "integer", "bigint", "utinyint", "usmallint", "uinteger", "ubigint", "float", "double"),
    *("decimal", "date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns", "timestamp with time zone"),
    *("varchar", "uuid"),
)


class _Leaf(NamedTuple):
    """A column, or a field of a struct, of which DuckLake keeps statistics."""

    field_id: int
    shown: str
    sql: str
    kind: str  # DuckDB's type
    kind_id: str


def check_rows(
    source: Source, paths: Sequence[str], types: Mapping[str, str], *, full: bool, keys: Sequence[str] = ()
) -> int:
    """Compares the rows that DuckLake would read from files with those of the source's own reader.

    Returns the number of rows. `keys` are the partition keys of the table, if the files are in its partition folders.

    Raises:
        SchemaError: DuckLake cannot register the files with these types.
        CommitError: The rows differ, or the statistics of a file are wrong or missing.
    """
    with _trial(source.connection) as (cursor, alias):
        columns = ", ".join(f"{identifier(name)} {kind}" for name, kind in types.items())
        table = qualified(alias, "main", _TABLE)
        cursor.execute(f"CREATE TABLE {table} ({columns})")
        if keys:
            cursor.execute(f"ALTER TABLE {table} SET PARTITIONED BY ({', '.join(keys)})")
        in_path = bool(source.partitions or keys)
        with registering():
            cursor.execute(registration_sql(alias, "main", _TABLE, paths, in_path=in_path))
        ours = tally(cursor, table, types, full=full)
        ours.check_equal(source.reader.tally(paths, types, full=full), f"the reader of {source.kind}s")
        leaves = list(_leaves(types, _field_ids(cursor, alias)))
        _read_files(cursor, table, leaves)
        for number, leaf in enumerate(leaves):
            _check_statistics(cursor, alias, number, leaf)
        _check_values(cursor, source, leaves)
        return ours.rows


@contextlib.contextmanager
def _trial(connection: Connection) -> Iterator[tuple[Connection, str]]:
    """A cursor and the name of an empty lake, in a temporary folder, which it removes."""
    alias = f"lakeconf_trial_{uuid.uuid4().hex}"
    with tempfile.TemporaryDirectory(prefix="lakeconf-") as folder, connection.cursor() as cursor:
        data = literal(str(Path(folder, "data")))
        cursor.execute(
            f"ATTACH {literal('ducklake:' + str(Path(folder, 'trial.ducklake')))} AS {alias} (DATA_PATH {data})"
        )
        try:
            yield cursor, alias
        finally:
            with contextlib.suppress(LakeconfError):
                cursor.execute(f"DETACH {alias}")


def _field_ids(cursor: Connection, alias: str) -> dict[tuple[str, ...], int]:
    """The ids of columns, and of the fields in them, by their names."""
    rows = cursor.rows(
        "SELECT column_id, parent_column, column_name "
        f"FROM {metadata_database(alias)}.ducklake_column ORDER BY column_id"
    )
    names: dict[int, tuple[str, ...]] = {}
    for column_id, parent, name in rows:
        names[column_id] = (*names.get(parent, ()), name)
    return {path: column_id for column_id, path in names.items()}


def _leaves(types: Mapping[str, str], ids: Mapping[tuple[str, ...], int]) -> Iterator[_Leaf]:
    def walk(path: tuple[str, ...], sql: str, kind: object) -> Iterator[_Leaf]:
        parsed = parsed_type(str(kind))
        if parsed.id == "struct":
            for name, part in fields_of(parsed).items():
                yield from walk((*path, name), f"struct_extract({sql}, {literal(name)})", part)
        elif parsed.id not in ("list", "map"):
            yield _Leaf(ids[path], ".".join(path), sql, str(parsed), parsed.id)

    for name, kind in types.items():
        yield from walk((name,), identifier(name), kind)


def _read_files(cursor: Connection, table: str, leaves: Sequence[_Leaf]) -> None:
    """Reads what is in each file to a temporary table."""
    parts = ["filename AS path", "count(*) AS n"]
    for number, leaf in enumerate(leaves):
        is_nan = f"isnan({leaf.sql})" if leaf.kind_id in FLOATS else "false"
        finite = f" FILTER (NOT {is_nan})" if leaf.kind_id in FLOATS else ""
        parts += [
            f"count({leaf.sql}) AS c{number}_n",
            f"min({leaf.sql}){finite} AS c{number}_low",
            f"max({leaf.sql}){finite} AS c{number}_high",
            f"coalesce(bool_or({is_nan}), false) AS c{number}_nan",
        ]
    cursor.execute(f"CREATE OR REPLACE TEMP TABLE {_ROWS} AS SELECT {', '.join(parts)} FROM {table} GROUP BY filename")


def _check_statistics(cursor: Connection, alias: str, number: int, leaf: _Leaf) -> None:
    """Rejects files whose statistics of a column would hide rows."""
    low, high = (f"TRY_CAST({bound}_value AS {leaf.kind})" for bound in ("min", "max"))
    is_bounded = leaf.kind_id in _BOUNDED
    problems = {
        "NaN, which DuckDB misses in filters": f"c{number}_nan",
        "values, but no bounds in its footer": f"{str(is_bounded).lower()} AND c{number}_n > 0 "
        f"AND ({low} IS NULL OR {high} IS NULL)",
        "values outside of the bounds in its footer": f"c{number}_low < {low} OR c{number}_high > {high}",
        "another number of NULLs than its footer": f"null_count IS DISTINCT FROM n - c{number}_n",
    }
    cases = " ".join(f"WHEN {condition} THEN {literal(problem)}" for problem, condition in problems.items())
    metadata = metadata_database(alias)
    rows = cursor.rows(
        f"""
        WITH statistics AS (
            SELECT d.path, s.min_value, s.max_value, s.null_count
            FROM {metadata}.ducklake_data_file AS d LEFT JOIN {metadata}.ducklake_file_column_stats AS s
                ON s.data_file_id = d.data_file_id AND s.column_id = {leaf.field_id})
        SELECT path, problem FROM (
            SELECT path, CASE {cases} END AS problem FROM {_ROWS} LEFT JOIN statistics USING (path)
        ) WHERE problem IS NOT NULL ORDER BY path LIMIT 1
        """
    )
    for path, problem in rows:
        raise CommitError(f"the column {leaf.shown!r} of {path} has {problem}: nothing was adopted", hint=WRITE_AGAIN)


def _check_values(cursor: Connection, source: Source, leaves: Sequence[_Leaf]) -> None:
    """Rejects files whose rows have other values in a column than their path, or the source's record of them."""
    numbers = {leaf.shown: (number, leaf.kind) for number, leaf in enumerate(leaves)}
    expected = [
        f"({literal(path)}, {numbers[name][0]}, {'NULL' if text is None else literal(text)})"
        for path, values in source.values.items()
        for name, text in values.items()
        if name in numbers
    ]
    if not expected:
        return
    cursor.execute(
        f"CREATE OR REPLACE TEMP TABLE {_ROWS}_values AS FROM (VALUES {', '.join(expected)}) AS v(path, c, text)"
    )
    for name, (number, kind) in numbers.items():
        value = f"CAST(text AS {kind})"
        bounds = f"(c{number}_low IS DISTINCT FROM {value} OR c{number}_high IS DISTINCT FROM {value})"
        rows = cursor.rows(
            f"SELECT path FROM {_ROWS} JOIN {_ROWS}_values USING (path) "
            f"WHERE c = {number} AND n > 0 AND ({bounds} OR c{number}_n <> (CASE WHEN text IS NULL THEN 0 ELSE n END)) "
            "ORDER BY path LIMIT 1"
        )
        for (path,) in rows:
            raise SchemaError(
                f"the rows of {path} have other values in the column {name!r} than the path, or the table, says",
                hint="correct the names of the folders, or load the rows instead",
            )
