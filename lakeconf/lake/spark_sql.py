"""Runs a query over the tables of a lake on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
from sqlglot import exp

from lakeconf.catalog.table import Column, load_table
from lakeconf.catalog.table_references import point_to, table_references
from lakeconf.commit.scope import Scope
from lakeconf.engines.base import spark_operations
from lakeconf.errors import UnsupportedError
from lakeconf.lake.query_names import single_query, snapshot_at, table_name
from lakeconf.lake.table import Table

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
    tree = single_query(query, "duckdb", _HINT)
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


def _name(scope: Scope, table: exp.Table) -> str:
    if not isinstance(table.this, exp.Identifier):
        raise UnsupportedError(f"Spark cannot run {table.sql(dialect='duckdb')}", hint=_HINT)
    return table_name(scope, table, _HINT)


def _version(scope: Scope, table: exp.Table) -> int | None:
    """The snapshot of `AT (VERSION => n)` or `AT (TIMESTAMP => …)`."""
    when = table.args.get("when")
    if when is None:
        return None
    value = when.expression
    while isinstance(value, exp.Cast | exp.Paren):
        value = value.this
    if isinstance(value, exp.Literal):
        found = snapshot_at(scope.session.reader, str(when.args.get("kind")), value.name)
        if found is not None:
            return found
    raise UnsupportedError(
        f"Spark cannot read {table.sql(dialect='duckdb')}",
        hint="write AT (VERSION => 3), or AT (TIMESTAMP => '2024-05-17 10:00:00+00:00')",
    )
