"""Runs a query over the tables of lakes on Spark."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import narwhals as nw
from sqlglot import exp

from lakeconf.catalog.table import Column, load_table
from lakeconf.commit.scope import Scope
from lakeconf.engines.base import SparkOperations, spark_operations
from lakeconf.engines.untranslated import UntranslatedError
from lakeconf.errors import UnsupportedError
from lakeconf.lake.counted_table import counted
from lakeconf.lake.query_names import NamedTable, QueryText
from lakeconf.lake.table import Table

_HINT = "run it on DuckDB: lake.sql(query, engine='duckdb')"


def sql_on_spark(scope: Scope, query: str, lakes: Mapping[str, Scope]) -> nw.LazyFrame[Any]:
    """Runs a query on Spark, at the snapshots of the lakes.

    Args:
        scope: The lake.
        query: A query in DuckDB's SQL.
        lakes: The lakes that it can name, by `named_lakes`.

    Returns:
        A lazy frame on Spark.

    Raises:
        QueryError: The text is not a single query, or DuckDB or Spark rejects it.
        TableNotFoundError: A table does not exist.
        SnapshotNotFoundError: A snapshot of `AT` does not exist.
        UnsupportedError: A lake was opened without Spark, or Spark may not return DuckDB's rows.
    """
    engine = spark_operations(scope.session.engine, "lake.sql(…, engine='spark')")
    text = QueryText.parsed(query, "duckdb", _HINT)
    for table in text.tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            raise UnsupportedError(f"Spark cannot run {table.sql(dialect='duckdb')}", hint=_HINT)
    tables = text.tables(lakes)
    constant = counted(text.tree, tables[0]) if len(tables) == 1 else None
    if constant is not None:
        return engine.query_tables(constant, {}, {})
    views = [(table, f"lakeconf_table_{uuid.uuid4().hex}") for table in tables]
    frames = {view: spark_scan(table) for table, view in views}
    columns = {view: _columns(table) for table, view in views}
    try:
        return engine.query_tables(text.reading(views), frames, columns)
    except UntranslatedError as error:
        place = "" if error.offset is None else f", in {text.place(views, error.offset)}"
        raise UntranslatedError(f"{error.message}{place}", hint=f"write it with narwhals, or {_HINT}") from error


def _columns(table: NamedTable) -> dict[str, Column]:
    info = load_table(table.scope.session.reader, table.name, table.scope.snapshot_id)
    return {column.name: column for column in info.columns}


def spark_scan(table: NamedTable) -> nw.LazyFrame[Any]:
    """A table that a query names, as a frame of Spark.

    Raises:
        UnsupportedError: Its lake was opened without Spark.
    """
    session = table.scope.session
    if not isinstance(session.engine, SparkOperations):
        raise UnsupportedError(
            f"the lake {session.alias!r} was opened without Spark, on which the query runs",
            hint=f"open it with the same Spark session, or {_HINT}",
        )
    return Table(table.scope, table.name).scan()
