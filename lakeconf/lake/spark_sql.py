"""Runs a query over the tables of a lake on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import narwhals as nw
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakeconf.catalog.snapshot import by_timestamp, by_version
from lakeconf.catalog.table import Column, load_table
from lakeconf.catalog.table_name import joined_name
from lakeconf.catalog.table_references import point_to, table_references
from lakeconf.commit.scope import Scope
from lakeconf.engines.base import spark_operations
from lakeconf.errors import QueryError, UnsupportedError
from lakeconf.lake.table import Table
from lakeconf.sql import folded, parser_reason

_HINT = "run it on DuckDB: lake.sql(query, engine='duckdb')"


def sql_on_spark(scope: Scope, query: str) -> nw.LazyFrame[Any]:
    """Runs a query on Spark, at the snapshot of a lake.

    Args:
        scope: The lake.
        query: A query in DuckDB's SQL.

    Returns:
        A lazy frame on Spark.

    Raises:
        QueryError: The text is not a single query, or DuckDB or Spark rejects it.
        TableNotFoundError: A table does not exist.
        SnapshotNotFoundError: A snapshot of `AT` does not exist.
        UnsupportedError: The lake was opened without Spark, or Spark may not return DuckDB's rows.
    """
    engine = spark_operations(scope.session.engine, "lake.sql(…, engine='spark')")
    tree = _parsed(query)
    frames: dict[str, Any] = {}
    columns: dict[str, Mapping[str, Column]] = {}
    for table in table_references(tree):
        name, version = _name(scope, table), _version(scope, table)
        table.set("when", None)
        view = f"lakeconf_table_{len(frames)}"
        frames[view] = Table(Scope(scope.session, at=version) if version is not None else scope, name).scan()
        info = load_table(scope.session.reader, name, scope.snapshot_id if version is None else version)
        columns[view] = {column.name: column for column in info.columns}
        point_to(table, view)
    return engine.query_tables(tree.sql(dialect="duckdb"), frames, columns)


def _parsed(query: str) -> exp.Query:
    try:
        found = [tree for tree in sqlglot.parse(query, dialect="duckdb") if tree is not None]
    except (SqlglotError, ValueError, RecursionError) as error:
        raise QueryError(f"the query cannot be parsed: {parser_reason(error)}", hint=_HINT) from error
    if len(found) != 1 or not isinstance(found[0], exp.Query):
        raise QueryError("the text is not a single query", hint="write SELECT … FROM …")
    return found[0]


def _name(scope: Scope, table: exp.Table) -> str:
    """The name of a table, as `Lake.table` accepts it."""
    if not isinstance(table.this, exp.Identifier):
        raise UnsupportedError(f"Spark cannot run {table.sql(dialect='duckdb')}", hint=_HINT)
    if table.catalog and folded(table.catalog) != folded(scope.session.alias):
        raise UnsupportedError(f"the query names another database, {table.catalog!r}", hint=_HINT)
    return joined_name(table.db or "main", table.name)


def _version(scope: Scope, table: exp.Table) -> int | None:
    """The snapshot of `AT (VERSION => n)` or `AT (TIMESTAMP => …)`."""
    when = table.args.get("when")
    if when is None:
        return None
    value = when.expression
    while isinstance(value, exp.Cast | exp.Paren):
        value = value.this
    reader, kind = scope.session.reader, str(when.args.get("kind")).upper()
    if isinstance(value, exp.Literal) and kind == "VERSION" and value.name.isdigit():
        return by_version(reader, int(value.name)).snapshot_id
    if isinstance(value, exp.Literal) and kind == "TIMESTAMP":
        try:
            time = datetime.fromisoformat(value.name)
        except ValueError:
            time = datetime.min
        if time.tzinfo is not None:
            return by_timestamp(reader, time).snapshot_id
    raise UnsupportedError(
        f"Spark cannot read {table.sql(dialect='duckdb')}",
        hint="write AT (VERSION => 3), or AT (TIMESTAMP => '2024-05-17 10:00:00+00:00')",
    )
