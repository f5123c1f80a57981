"""TPC-H, TPC-DS on tables with deletes, updates, partitions, evolution and compaction: Spark returns DuckDB's rows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from local_stores import store_of
from tpc import Benchmark, build, equal_rows, plain_tables, tables_in, without_limit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCALE = 0.01
QUERIES = {"tpch": 22, "tpcds": 99}
both = pytest.mark.parametrize("name", QUERIES)


@contextlib.contextmanager
def opened(name: str, spark: SparkSession, folder: Path) -> Iterator[Benchmark]:
    store = store_of(folder)
    connection, queries = build(store, name, SCALE)
    with contextlib.closing(connection), store.open(spark) as lake:
        frames = {table: lake.table(f"{name}.{table}").scan() for table in plain_tables(connection)}
        yield Benchmark(name, connection, frames, lake, queries)


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


def assert_alike(benchmark: Benchmark, number: int) -> None:
    sql = without_limit(benchmark.queries[number])
    expected = benchmark.connection.execute(f"USE memory; {sql}").fetchall()
    used = {table: frame for table, frame in benchmark.frames.items() if table in tables_in(sql)}
    assert equal_rows(expected, map(tuple, benchmark.lake.query(sql, used).to_native().collect()))


@pytest.mark.parametrize("number", range(1, QUERIES["tpch"] + 1))
def test_tpch_query_returns_the_rows_of_duckdb(number: int, tpch: Benchmark) -> None:
    assert_alike(tpch, number)


@pytest.mark.parametrize("number", range(1, QUERIES["tpcds"] + 1))
def test_tpcds_query_returns_the_rows_of_duckdb(number: int, tpcds: Benchmark) -> None:
    assert_alike(tpcds, number)


@both
def test_most_queries_have_rows(name: str, request: pytest.FixtureRequest) -> None:
    """Queries without rows would prove nothing."""
    benchmark: Benchmark = request.getfixturevalue(name)
    assert sorted(benchmark.queries) == list(range(1, QUERIES[name] + 1))
    found = [
        benchmark.connection.execute(f"USE memory; {without_limit(query)}").fetchone()
        for query in benchmark.queries.values()
    ]
    assert sum(row is not None for row in found) >= 0.6 * len(found)
