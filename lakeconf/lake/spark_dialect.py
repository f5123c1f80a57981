"""Runs a query in Spark's own SQL over the tables of lakes: only the names of the tables are replaced in its text."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import narwhals as nw

from lakeconf.commit.scope import Scope
from lakeconf.engines.base import SparkOperations, spark_operations
from lakeconf.errors import TableNotFoundError, UnsupportedError
from lakeconf.lake.query_names import NamedTable, QueryText
from lakeconf.lake.table import Table


def query_in_spark_sql(scope: Scope, query: str, lakes: Mapping[str, Scope]) -> nw.LazyFrame[Any]:
    """Runs a query in Spark's SQL, with the settings of the lake's session, at the snapshots of the lakes.

    Args:
        scope: The lake.
        query: A query; `VERSION AS OF 3` and `TIMESTAMP AS OF '…+00:00'` name other snapshots. A name without a
            schema that is no table of the lake can be a temporary view of the session.
        lakes: The lakes that it can name, by `named_lakes`.

    Raises:
        QueryError: The text is not a single query, or Spark rejects it.
        TableNotFoundError: A table with a schema does not exist.
        SnapshotNotFoundError: A snapshot does not exist.
        UnsupportedError: A lake was opened without Spark.
    """
    engine = spark_operations(scope.session.engine, "lake.sql(…, dialect='spark')")
    text = QueryText.parsed(query, "spark", "run it with spark.sql, and name only tables of these lakes")
    frames: dict[str, Any] = {}
    views = []
    for table in text.tables(lakes):
        try:
            frame = _scan(table)
        except TableNotFoundError:
            if table.tree.db:
                raise
            continue
        view = f"lakeconf_table_{uuid.uuid4().hex}"
        frames[view] = frame
        views.append((table, view))
    return engine.run_sql(text.reading(views, quoted=_quoted), frames)


def _scan(table: NamedTable) -> nw.LazyFrame[Any]:
    session = table.scope.session
    if not isinstance(session.engine, SparkOperations):
        raise UnsupportedError(
            f"the lake {session.alias!r} was opened without Spark, on which the query runs",
            hint="open it with the same Spark session",
        )
    return Table(table.scope, table.name).scan()


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
