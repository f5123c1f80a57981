"""Queries whose text lakeconf rewrites before an engine runs them: on Spark, and over several lakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from lakeconf.commit.scope import Scope
from lakeconf.lake.query_names import named_lakes
from lakeconf.lake.several_lakes import sql_on_duckdb
from lakeconf.lake.spark_dialect import query_in_spark_sql
from lakeconf.lake.spark_sql import sql_on_spark


def run_rewritten(
    scope: Scope, query: str, others: Sequence[Scope], *, dialect: str, on_spark: bool
) -> nw.LazyFrame[Any]:
    """Runs a query on Spark, or on DuckDB over several lakes.

    Args:
        scope: The lake.
        query: The query.
        others: The other lakes that it may name.
        dialect: The dialect of its SQL, `duckdb` or `spark`.
        on_spark: True if Spark runs it; Spark always runs queries in its own SQL.

    Raises:
        QueryError: It is not a single query, or the engine rejects it.
        UnsupportedError: Spark may not return DuckDB's rows, or a lake was opened without Spark.
        LakeconfError: Two lakes have the same name, or one is closed.
    """
    named = named_lakes(scope, others)
    if dialect == "spark":
        return query_in_spark_sql(scope, query, named)
    return sql_on_spark(scope, query, named) if on_spark else sql_on_duckdb(scope, query, named)
