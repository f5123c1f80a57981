"""TPC-H, TPC-DS on tables with deletes, updates, partitions, evolution and compaction: Spark returns DuckDB's rows."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from comparisons import count, way_of
from local_stores import store_of
from strength import PROVE
from tpc import Benchmark, build, duckdb_sql, equal_rows, plain_tables, spark_rows, spark_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

SCALE = 0.01
QUERIES = {"tpch": 22, "tpcds": 99}
STEPS = {"tpch": 6, "tpcds": 17}
# Queries that sqlglot does not translate for Spark, by benchmark and number.
SPARK: dict[tuple[str, int], str] = {}


@contextlib.contextmanager
def opened(name: str, spark: SparkSession, folder: Path) -> Iterator[Benchmark]:
    store = store_of(folder)
    connection, queries = build(store, name, SCALE)
    with contextlib.closing(connection), store.open(spark) as lake:
        store.attach(spark, use=False)
        for table in lake.tables():
            lake.table(table).scan().to_native().createOrReplaceTempView(table.replace(".", "_"))
        yield Benchmark(name, connection, lake, queries)


def numbers(name: str) -> list[int]:
    """The queries that run: all in `make prove`, else some, spread over all."""
    return list(range(1, QUERIES[name] + 1, 1 if PROVE else STEPS[name]))


def is_alike(benchmark: Benchmark, number: int, spark: SparkSession) -> bool:
    query = benchmark.queries[number]
    expected = benchmark.connection.execute(f"USE memory; {duckdb_sql(query)}").fetchall()
    # The frames of `scan` as views; and the tables by name.
    prefixes = (f"{benchmark.name}_", f"dev.{benchmark.name}.")
    texts = [SPARK.get((benchmark.name, number)) or spark_sql(query, prefix) for prefix in prefixes]
    alike = [equal_rows(expected, spark_rows(spark, text)) for text in texts]
    for each in alike:
        count(way_of(spark), "equal" if each else "wrong")
    return all(alike)


def assert_has_history(benchmark: Benchmark) -> None:
    """The tables have the rows of the plain ones, and some have deletes."""
    with_deletes = 0
    for table in plain_tables(benchmark.connection):
        sides = f"memory.main.{table}", f"dev.{benchmark.name}.{table}"
        for one, other in (sides, sides[::-1]):
            assert benchmark.connection.execute(f"FROM {one} EXCEPT ALL FROM {other}").fetchall() == [], table
        with_deletes += benchmark.lake.table(f"{benchmark.name}.{table}").explain().delete_files > 0
    assert with_deletes >= 3


def assert_queries_have_rows(benchmark: Benchmark) -> None:
    """Queries without rows would prove nothing."""
    assert sorted(benchmark.queries) == list(range(1, QUERIES[benchmark.name] + 1))
    queries = [f"USE memory; {duckdb_sql(query)}" for query in benchmark.queries.values()]
    rows = [benchmark.connection.execute(query).fetchone() for query in queries]
    assert sum(row is not None for row in rows) >= 0.6 * len(queries)


# One test for each benchmark, because two processes would build its tables twice.
@pytest.mark.slow
@pytest.mark.timeout(3600 if PROVE else 600)
@pytest.mark.parametrize("name", QUERIES)
def test_queries_return_the_rows_of_duckdb(name: str, spark: SparkSession, tmp_path: Path) -> None:
    with opened(name, spark, tmp_path) as benchmark:
        assert_has_history(benchmark)
        assert_queries_have_rows(benchmark)
        different = [number for number in numbers(name) if not is_alike(benchmark, number, spark)]
        assert different == []
