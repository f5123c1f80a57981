"""The tables that a query for Spark names, and the snapshots that it reads them at."""

from __future__ import annotations

from datetime import datetime

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog.reader import CatalogReader
from lakeconf.catalog.snapshot import by_timestamp, by_version
from lakeconf.catalog.table_name import joined_name
from lakeconf.commit.scope import Scope
from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.sql import folded, parser_reason


def single_query(text: str, dialect: str, hint: str) -> exp.Query:
    """Parses a query.

    Args:
        text: SQL.
        dialect: The dialect of the SQL: `duckdb` or `spark`.
        hint: What to do if the text cannot be parsed.

    Raises:
        QueryError: The text is not a single query.
    """
    try:
        found = [tree for tree in sqlglot.parse(text, dialect=dialect) if tree is not None]
    except (SqlglotError, ValueError, RecursionError) as error:
        raise QueryError(f"the query cannot be parsed: {parser_reason(error)}", hint=hint) from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise QueryError("the text is not a single query", hint="write SELECT … FROM …")
    return found[0]


def table_name(scope: Scope, table: exp.Table, hint: str) -> str:
    """The name of a table, as `Lake.table` accepts it.

    Args:
        scope: The lake.
        table: A table in the query.
        hint: What to do if the table belongs to another database.

    Raises:
        UnsupportedError: The table belongs to another database.
    """
    if table.catalog and folded(table.catalog) != folded(scope.session.alias):
        raise UnsupportedError(f"the query names another database, {table.catalog!r}", hint=hint)
    return joined_name(table.db or "main", table.name)


def snapshot_at(reader: CatalogReader, kind: str, value: str) -> int | None:
    """The snapshot that a query names.

    Args:
        reader: The lake.
        kind: `VERSION` or `TIMESTAMP`, in any case.
        value: The number of a snapshot, or a time in ISO 8601 with an offset.

    Returns:
        The number of the snapshot; None if this is not the number of a snapshot or a time.

    Raises:
        SnapshotNotFoundError: The snapshot does not exist.
    """
    if kind.upper() == "VERSION" and value.isdecimal():
        return by_version(reader, int(value)).snapshot_id
    if kind.upper() != "TIMESTAMP":
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return by_timestamp(reader, time).snapshot_id if time.tzinfo is not None else None
