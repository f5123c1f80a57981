"""The engine that runs a query of a lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

# sqlglot reads it as `flag = (other IS NOT NULL)`.
AMBIGUOUS = "SELECT id FROM t WHERE flag = other IS NOT NULL ORDER BY id"


@pytest.fixture
def flags(lake: Lake) -> Lake:
    rows = [{"id": 1, "flag": True, "other": None}, {"id": 2, "flag": False, "other": None}]
    lake.create_table("t", {"id": "INTEGER", "flag": "BOOLEAN", "other": "BOOLEAN"})
    lake.table("t").append([*rows, {"id": 3, "flag": True, "other": True}])
    return lake


def rows(found: Any) -> list[tuple[Any, ...]]:
    return list(map(tuple, found.collect("pyarrow").rows()))


def test_precedence_of_operators_is_that_of_duckdb(flags: Lake) -> None:
    expected = rows(flags.sql(AMBIGUOUS, engine="duckdb"))
    assert expected == [(3,)]
    try:
        assert rows(flags.sql(AMBIGUOUS)) == expected
    except UnsupportedError:
        assert flags._session.engine.name == "spark"


def test_precedence_in_statements_is_that_of_duckdb(flags: Lake) -> None:
    flags.create_table("copy", {"id": "INTEGER"})
    try:
        flags.execute(f"INSERT INTO copy {AMBIGUOUS}")
    except UnsupportedError:
        assert flags._session.engine.name == "spark"
    else:
        assert rows(flags.table("copy").scan()) == [(3,)]


def test_the_engine_of_the_lake_is_the_default(store: Store, spark: SparkSession) -> None:
    with store.open(spark) as lake:
        assert type(lake.sql("SELECT 1 AS one").to_native()).__module__.startswith("pyspark")
        found = lake.sql("SELECT 1 AS one", engine="duckdb").to_native()
        assert type(found).__module__.startswith(("duckdb", "_duckdb"))


def test_spark_needs_a_lake_on_spark(store: Store) -> None:
    with store.open() as lake:
        with pytest.raises(UnsupportedError, match="engine='spark'"):
            lake.sql("SELECT 1", engine="spark")
        with pytest.raises(UnsupportedError, match="DuckDB does not run SQL of spark"):
            lake.sql("SELECT 1", dialect="spark", engine="duckdb")


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE t",
        "DELETE FROM t",
        "INSERT INTO t VALUES (1, true, true)",
        "CREATE TABLE other AS SELECT 1 AS id",
        "ALTER TABLE t DROP COLUMN flag",
        "SELECT 1 AS id; DROP TABLE t",
        "DROP TABLE t; SELECT 1 AS id",
        "DROP TABLE t; PIVOT (FROM t) ON flag USING count(*)",
        "PIVOT (FROM t) ON flag USING count(*); DROP TABLE t",
        "CREATE TABLE other (id INTEGER); SELECT 1 AS id",
        "EXPLAIN ANALYZE DELETE FROM t",
        " /* x */ pragma table_info('t')",
        "BEGIN",
        "CHECKPOINT",
        "force checkpoint",
        "",
        "-- nothing",
    ],
)
def test_statement_that_is_no_query_changes_nothing(statement: str, two_tables: Lake) -> None:
    two_tables.table("t").append([{"id": 1}])
    before = (two_tables.snapshot_id, two_tables.tables(), two_tables.table("t").schema)
    for use in (two_tables.sql, lambda sql: two_tables.query(sql, {})):
        with pytest.raises(QueryError) as refused:
            use(statement)
        assert refused.value.message == "the SQL is not a single query"
        assert (refused.value.hint or "").startswith("write one SELECT … or FROM …; use lake.execute(…) to change rows")
    assert (two_tables.refresh(), two_tables.tables(), two_tables.table("t").schema) == before


@pytest.mark.parametrize(
    "statement",
    [
        "CALL ducklake_expire_snapshots('dev', dry_run => false, older_than => now())",
        "FROM dev.merge_adjacent_files()",
        "CALL dev.set_option('data_inlining_row_limit', 10)",
        "SELECT count(*) FROM \"ducklake_cleanup_old_files\" ('dev', cleanup_all => true)",
    ],
)
def test_maintenance_of_ducklake_is_no_query(statement: str, two_tables: Lake) -> None:
    for _ in range(2):
        two_tables.table("t").append([{"id": 1}])
    options = "FROM ducklake_options('dev') ORDER BY ALL"
    before = (two_tables.snapshots(), rows(two_tables.sql(options)))
    for use in (two_tables.sql, lambda sql: two_tables.query(sql, {})):
        with pytest.raises(QueryError, match=r"changes the lake without its locks|may do more than read"):
            use(statement)
    two_tables.refresh()
    assert (two_tables.snapshots(), rows(two_tables.sql(options))) == before


@pytest.mark.parametrize(
    "query",
    [
        "PIVOT (FROM t) ON id USING count(*)",
        "UNPIVOT (FROM t) ON id",
        "DESCRIBE t",
        "SHOW TABLES",
        "SUMMARIZE t",
        "CALL pragma_version()",
        "WITH one AS (FROM t) FROM one;",
        "-- a comment\nTABLE t",
    ],
)
def test_every_form_of_a_query_runs(query: str, two_tables: Lake) -> None:
    two_tables.table("t").append([{"id": 1}])
    assert two_tables.sql(query).to_native().fetchall()
