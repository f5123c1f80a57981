"""The rows that a range of snapshots changed, computed by DuckDB inside an executor."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeconf.catalog.change_feed import ChangesPlan, Deletes
from lakeconf.catalog.inlined_changes import BEGIN, END, ROW_ID
from lakeconf.catalog.partial_lake import attach_partial_lake
from lakeconf.catalog.table import Column
from lakeconf.connection.connection import Connection
from lakeconf.datasource.parts import Changes
from lakeconf.ducklake import INTERNAL_SNAPSHOT_ID
from lakeconf.engines.spark.read.projection import constant_sql
from lakeconf.engines.spark.types import duckdb_type, exact_cast
from lakeconf.errors import SchemaError, UnsupportedError
from lakeconf.sql import folded, identifier, literal

# A LIMIT through which DuckDB pushes no filter; see `attach_partial_lake`.
ALL = 2**63 - 1
# The columns of a feed with kinds, before those of the table.
KEY = ("snapshot_id", "rowid", "change_type")
# DuckDB's columns that tell where a row is.
_PLACE = ("filename", "file_row_number")
_INLINED = "lakeconf_inlined"
_DELETED, _ENDED = "lakeconf_deleted", "lakeconf_ended"


def changes_sql(connection: Connection, part: Changes) -> str:
    """The query for the changes of a part, with the types of Spark.

    Args:
        connection: A connection with access to the files; the query runs on it.
        part: The part.
    """
    with pa.ipc.open_stream(part.inlined) as stream:
        inlined = stream.read_all()
    if inlined.num_rows:
        connection.register(_INLINED, inlined)
    inserted = _inserted(connection, part.plan, has_inlined=bool(inlined.num_rows))
    deleted = _deleted(connection, part.plan, has_inlined=bool(inlined.num_rows))
    values = ", ".join(_value(column, part.plan.inserted.table.columns) for column in part.columns)
    if not part.kinds:
        alone = "" if deleted is None else f" ANTI JOIN ({deleted}) AS deleted USING (snapshot_id, rowid)"
        return f"SELECT {values} FROM ({inserted}) AS inserted{alone}"
    sides = [(inserted, deleted, "insert", "update_postimage")]
    sides += [] if deleted is None else [(deleted, inserted, "delete", "update_preimage")]
    return " UNION ALL ".join(
        f"SELECT snapshot_id, rowid, {_kind(other, alone, both)} AS change_type, {values} FROM ({rows}) AS rows"
        for rows, other, alone, both in sides
    )


def check_mapped(columns: Sequence[Column], found: Sequence[Column]) -> None:
    """Checks that rows with some columns can be returned with other columns of the same table.

    Raises:
        SchemaError: The types of a column differ, and it is nested or was narrowed.
    """
    by_id = {column.field_id: column for column in found}
    for column in columns:
        now = by_id.get(column.field_id)
        if now is not None and now.type != column.type and now.type not in column.former_types:
            raise SchemaError(f"the column {column.name!r} has changed its type from {now.type} to {column.type}")
        if now is not None and _fields(now) != _fields(column):
            raise SchemaError(f"the fields of the column {column.name!r} have changed")


def _fields(column: Column) -> Sequence[object]:
    return [child.shape for child in column.children]


def _value(column: Column, found: Sequence[Column]) -> str:
    """A column of the query, from the columns that the table had at the end of the range."""
    now = next((one for one in found if one.field_id == column.field_id), None)
    if now is None:
        value = constant_sql(column.initial_default, column)
    elif now.type != column.type:
        value = f"CAST({identifier(now.name)} AS {duckdb_type(column, for_spark=False)})"
    else:
        value = identifier(now.name)
    return f"{exact_cast(value, column)} AS {identifier(column.name)}"


def _kind(other: str | None, alone: str, both: str) -> str:
    """The kind of a change: a row that one snapshot deleted and inserted was updated."""
    if other is None:
        return literal(alone)
    keys = f"SELECT snapshot_id, rowid FROM ({other})"
    return f"CASE WHEN (snapshot_id, rowid) IN ({keys}) THEN {literal(both)} ELSE {literal(alone)} END"


def _inserted(connection: Connection, plan: ChangesPlan, *, has_inlined: bool) -> str:
    """The query for inserted rows: the key of the change, and the columns of the table."""
    names = _names(plan)
    source = attach_partial_lake(connection, "inserted", plan.inserted)
    parts = [f"(SELECT snapshot_id, rowid, {names} FROM {source} LIMIT {ALL})"]
    if has_inlined:
        parts.append(_in_catalog(plan, BEGIN))
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {_in_range(plan)}"


def _deleted(connection: Connection, plan: ChangesPlan, *, has_inlined: bool) -> str | None:
    """The query for deleted rows, like `_inserted`; None if there are none."""
    names, parts = _names(plan), []
    if plan.deleted.files:
        hidden = [column.name for column in plan.deleted.columns if folded(column.name) in _PLACE]
        if hidden:
            raise UnsupportedError(
                f"{plan.deleted.table.full_name} has a column {hidden[0]!r}, which hides the place of deleted rows",
                hint="rename the column, or read the changes with lake.table(…).changes(…)",
            )
        _place_deletes(connection, plan)
        source = attach_partial_lake(connection, "deleted", plan.deleted)
        rows = f"(SELECT rowid, filename, file_row_number, {names} FROM {source} LIMIT {ALL})"
        # A row that was deleted before its file ended was not deleted by the end of the file.
        at = f"least({_DELETED}.deleted_at, {_ENDED}.ended_at)"
        parts.append(
            f"(SELECT {at} AS snapshot_id, rows.rowid, {_names(plan, 'rows.')} FROM {rows} AS rows "
            f"LEFT JOIN temp.main.{_DELETED} USING (filename, file_row_number) "
            f"LEFT JOIN temp.main.{_ENDED} USING (filename))"
        )
    if has_inlined:
        parts.append(_in_catalog(plan, END))
    return f"SELECT * FROM ({' UNION ALL '.join(parts)}) WHERE {_in_range(plan)}" if parts else None


def _in_catalog(plan: ChangesPlan, snapshot: str) -> str:
    """The query for rows in the catalog, with the types of the table: Arrow has no names for some of them."""
    values = ", ".join(
        f"CAST({identifier(column.name)} AS {duckdb_type(column, for_spark=False)}) AS {identifier(column.name)}"
        for column in plan.inserted.columns
    )
    return f"(SELECT {snapshot} AS snapshot_id, {ROW_ID} AS rowid, {values} FROM {_INLINED})"


def _names(plan: ChangesPlan, of: str = "") -> str:
    return ", ".join(f"{of}{identifier(column.name)}" for column in plan.inserted.columns)


def _in_range(plan: ChangesPlan) -> str:
    within = f"snapshot_id BETWEEN {plan.since} AND {plan.until}"
    return f"{within} AND snapshot_id NOT IN ({', '.join(map(str, plan.compactions))})" if plan.compactions else within


def _place_deletes(connection: Connection, plan: ChangesPlan) -> None:
    """Creates the tables of deleted positions and of ended files."""
    queries = [
        _in_file(connection, deletes, file.path, begin) for deletes in plan.deletes for file, begin in deletes.files
    ]
    places = [
        f"({literal(deletes.path)}, {position}, {snapshot})"
        for deletes in plan.deletes
        for position, snapshot in deletes.inlined
    ]
    queries += (
        [f"SELECT * FROM (VALUES {', '.join(places)}) AS places(filename, position, deleted_at)"] if places else []
    )
    found = " UNION ALL ".join(queries) or "SELECT '' AS filename, 0 AS position, 0 AS deleted_at LIMIT 0"
    connection.execute(
        f"CREATE TEMP TABLE {_DELETED} AS SELECT filename, CAST(position AS BIGINT) AS "
        f"file_row_number, CAST(min(deleted_at) AS BIGINT) AS deleted_at FROM ({found}) GROUP BY ALL"
    )
    connection.execute(f"CREATE TEMP TABLE {_ENDED} (filename VARCHAR, ended_at BIGINT)")
    ends = [f"({literal(one.path)}, {one.end_snapshot})" for one in plan.deletes if one.end_snapshot is not None]
    if ends:
        connection.execute(f"INSERT INTO temp.main.{_ENDED} VALUES {', '.join(ends)}")


def _in_file(connection: Connection, deletes: Deletes, path: str, begin: int) -> str:
    """The query for the positions in a delete file; some of its rows may have an own snapshot."""
    stored = INTERNAL_SNAPSHOT_ID.name
    has_snapshots = connection.rows(f"FROM parquet_schema({literal(path)}) WHERE name = {literal(stored)}")
    at = f"coalesce({stored}, {begin})" if has_snapshots else str(begin)
    return (
        f"SELECT {literal(deletes.path)} AS filename, pos AS position, {at} AS deleted_at "
        f"FROM read_parquet({literal(path)}, hive_partitioning = false)"
    )
