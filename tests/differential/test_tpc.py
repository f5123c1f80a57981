"""TPC-H, TPC-DS on tables with deletes, updates, partitions, evolution and compaction: Spark returns DuckDB's rows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
from tpc import Benchmark, build, equal_rows, plain_sql, plain_tables, spark_rows, spark_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

SCALE = 0.01
QUERIES = {"tpch": 22, "tpcds": 99}


@pytest.fixture(scope="module", params=QUERIES)
def benchmark(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Benchmark]:
    store = store_of(tmp_path_factory.mktemp(request.param))
    connection, queries = build(store, request.param, SCALE)
    with contextlib.closing(connection), store.open(spark) as lake:
        lake.register_views()
        yield Benchmark(request.param, connection, lake, queries)


def test_lake_has_the_rows_and_a_history(benchmark: Benchmark) -> None:
    with_deletes = 0
    for table in plain_tables(benchmark.connection):
        sides = f"memory.main.{table}", f"dev.{benchmark.name}.{table}"
        for one, other in (sides, sides[::-1]):
            assert benchmark.connection.execute(f"FROM {one} EXCEPT ALL FROM {other}").fetchall() == [], table
        plan = benchmark.lake.table(f"{benchmark.name}.{table}").explain()
        with_deletes += plan.delete_files > 0
    assert with_deletes >= 3


def test_all_queries_return_the_rows_of_duckdb(benchmark: Benchmark, spark: SparkSession) -> None:
    assert len(benchmark.queries) == QUERIES[benchmark.name]
    wrong, with_rows = [], 0
    for number, query in benchmark.queries.items():
        expected = benchmark.connection.execute(plain_sql(query)).fetchall()
        with_rows += bool(expected)
        if not equal_rows(expected, spark_rows(spark, spark_sql(query, benchmark.name))):
            wrong.append(number)
    assert not wrong
    # Queries without rows would prove nothing.
    assert with_rows >= 0.6 * len(benchmark.queries)
