"""TPC-H, TPC-DS on tables with deletes, updates, partitions, evolution and compaction: Spark returns DuckDB's rows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
from strength import PROVE
from tpc import Benchmark, build, duckdb_sql, equal_rows, plain_tables, spark_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCALE = 0.01
QUERIES = {"tpch": 22, "tpcds": 99}
# Queries that sqlglot does not translate for Spark, by benchmark and number.
SPARK: dict[tuple[str, int], str] = {}
both = pytest.mark.parametrize("name", QUERIES)


@contextlib.contextmanager
def opened(name: str, spark: SparkSession, folder: Path) -> Iterator[Benchmark]:
    store = store_of(folder)
    connection, queries = build(store, name, SCALE)
    with contextlib.closing(connection), store.open(spark) as lake:
        yield Benchmark(name, connection, lake, queries)


@pytest.fixture(scope="module")
def tpch(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benchmark]:
    with opened("tpch", spark, tmp_path_factory.mktemp("tpch")) as found:
        yield found


@pytest.fixture(scope="module")
def tpcds(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Benchmark]:
    with opened("tpcds", spark, tmp_path_factory.mktemp("tpcds")) as found:
        yield found


@both
def test_lake_has_the_rows_and_a_history(name: str, request: pytest.FixtureRequest) -> None:
    benchmark: Benchmark = request.getfixturevalue(name)
    with_deletes = 0
    for table in plain_tables(benchmark.connection):
        sides = f"memory.main.{table}", f"dev.{benchmark.name}.{table}"
        for one, other in (sides, sides[::-1]):
            assert benchmark.connection.execute(f"FROM {one} EXCEPT ALL FROM {other}").fetchall() == [], table
        plan = benchmark.lake.table(f"{benchmark.name}.{table}").explain()
        with_deletes += plan.delete_files > 0
    assert with_deletes >= 3


def numbers(name: str, some: int) -> list[int]:
    """The queries that run: all in `make prove`, else some, spread over all."""
    every = QUERIES[name]
    return list(range(1, every + 1)) if PROVE else [1 + number * every // some for number in range(some)]


def assert_alike(benchmark: Benchmark, number: int) -> None:
    query = benchmark.queries[number]
    expected = benchmark.connection.execute(f"USE memory; {duckdb_sql(query)}").fetchall()
    text = SPARK.get((benchmark.name, number)) or spark_sql(query, benchmark.name, ".")
    found = benchmark.lake.sql(text, dialect="spark").to_native().collect()
    assert equal_rows(expected, map(tuple, found))


@pytest.mark.parametrize("number", numbers("tpch", 8))
def test_tpch_query_returns_the_rows_of_duckdb(number: int, tpch: Benchmark) -> None:
    assert_alike(tpch, number)


@pytest.mark.parametrize("number", numbers("tpcds", 25))
def test_tpcds_query_returns_the_rows_of_duckdb(number: int, tpcds: Benchmark) -> None:
    assert_alike(tpcds, number)


@both
def test_most_queries_have_rows(name: str, request: pytest.FixtureRequest) -> None:
    """Queries without rows would prove nothing."""
    benchmark: Benchmark = request.getfixturevalue(name)
    assert sorted(benchmark.queries) == list(range(1, QUERIES[name] + 1))
    found = [
        benchmark.connection.execute(f"USE memory; {duckdb_sql(query)}").fetchone()
        for query in benchmark.queries.values()
    ]
    assert sum(row is not None for row in found) >= 0.6 * len(found)
