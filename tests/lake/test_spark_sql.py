"""`lake.sql(…, engine="spark")` returns DuckDB's rows at the snapshot of the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.errors import QueryError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

STATEMENTS = [
    "CREATE SCHEMA raw",
    "CREATE TABLE raw.events (id INTEGER, kind VARCHAR, ts TIMESTAMP, u UINTEGER, k UUID, h HUGEINT, "
    "n STRUCT(a INTEGER))",
    "CREATE TABLE plain (id INTEGER, price DECIMAL(9,2))",
    "INSERT INTO raw.events SELECT i, 'k' || (i % 3), TIMESTAMP '2024-05-17' + INTERVAL (i) HOUR, i, "
    "'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11', i, {a: i} FROM range(100) t(i)",
    "INSERT INTO plain SELECT i, i / 4 FROM range(50) t(i)",
    "CREATE VIEW raw.some AS SELECT 1 AS one",
    "DELETE FROM raw.events WHERE id % 5 = 0",
    'CREATE TABLE "Odd.Name" ("a b" INTEGER)',
]


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    with store.connect() as connection:
        for statement in STATEMENTS:
            connection.execute(statement)
    with store.open(spark) as found:
        yield found


def rows(found: Any) -> list[Any]:
    native = found.to_native()
    return sorted(map(tuple, native.collect() if hasattr(native, "sparkSession") else native.fetchall()), key=repr)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT kind, count(*) AS n, sum(id) AS total FROM raw.events GROUP BY kind",
        "SELECT e.id, p.price FROM raw.events e JOIN plain p USING (id) WHERE p.price > 3.5",
        "SELECT id FROM dev.raw.events WHERE u > 90 OR u IN (1, 2)",
        "SELECT id, k IS NULL, h IS NULL, n IS NOT NULL FROM raw.events",
        "SELECT max(EVENTS.id) FROM raw.Events",
        "FROM raw.events AT (VERSION => 4) SELECT count(*)",
        "SELECT (SELECT count(*) FROM raw.events AT (VERSION => 4)) - (SELECT count(*) FROM raw.events)",
        "WITH plain AS (SELECT id FROM raw.events WHERE id < 10) SELECT * FROM plain",
        'SELECT count(*) FROM "Odd.Name"',
        "SELECT date_trunc('day', ts) AS day, avg(id) FROM raw.events GROUP BY ALL ORDER BY day LIMIT 3",
    ],
)
def test_rows_are_those_of_duckdb(sql: str, lake: Lake) -> None:
    found = lake.sql(sql, engine="spark")
    assert type(found.to_native()).__module__.startswith("pyspark")
    assert rows(found) == rows(lake.sql(sql, engine="duckdb"))


def test_query_reads_the_snapshot_of_the_lake(lake: Lake) -> None:
    before = rows(lake.at(version=4).sql("SELECT count(*) FROM raw.events", engine="spark"))
    assert before == [(100,)]
    assert rows(lake.sql("SELECT count(*) FROM raw.events", engine="spark")) == [(80,)]


def test_version_by_timestamp(lake: Lake) -> None:
    time = lake.snapshots()[-1].time.isoformat()
    sql = f"SELECT count(*) FROM raw.events AT (TIMESTAMP => TIMESTAMPTZ '{time}')"
    assert rows(lake.sql(sql, engine="spark")) == [(80,)]


@pytest.mark.parametrize(
    ("sql", "error", "message"),
    [
        ("SELECT * FROM missing", TableNotFoundError, "missing"),
        ("SELECT * FROM raw.events AT (VERSION => 99)", SnapshotNotFoundError, "99"),
        ("SELECT * FROM raw.events AT (VERSION => 1 + 1)", UnsupportedError, "AT"),
        ("SELECT * FROM raw.events AT (TIMESTAMP => '2024-01-01')", UnsupportedError, "AT"),
        ("SELECT * FROM raw.some", UnsupportedError, "view"),
        ("SELECT * FROM other.raw.events", UnsupportedError, "another database, 'other'"),
        ("SELECT * FROM range(3)", UnsupportedError, "(?i)range"),
        ("SELECT * FROM read_csv('/etc/hostname')", UnsupportedError, "(?i)read_csv"),
        ("SELECT k = 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11' FROM raw.events", UnsupportedError, "UUID"),
        ("SELECT h + 1 FROM raw.events", UnsupportedError, "h"),
        ("SELECT u - 1 FROM raw.events", UnsupportedError, "u"),
        ("SELECT u::UTINYINT FROM raw.events", UnsupportedError, "u"),
        ("SELECT nothing FROM plain", QueryError, "nothing"),
        ("DELETE FROM plain", QueryError, "not a single query"),
        ("SELECT 1; SELECT 2", QueryError, "not a single query"),
        ("SELECT 'open", QueryError, "cannot be parsed"),
    ],
)
def test_other_queries_are_refused(sql: str, error: type[Exception], message: str, lake: Lake) -> None:
    with pytest.raises(error, match=message):
        lake.sql(sql, engine="spark")


def test_lake_without_spark_is_named(store: Store) -> None:
    with store.open() as lake, pytest.raises(UnsupportedError, match="engine='spark'"):
        lake.sql("SELECT 1", engine="spark")


def test_the_engine_of_the_lake_is_the_default(lake: Lake, store: Store) -> None:
    assert type(lake.sql("SELECT id FROM plain").to_native()).__module__.startswith("pyspark")
    with store.open() as other:
        assert rows(other.sql("SELECT * FROM range(2)")) == [(0,), (1,)]


def test_the_error_names_the_place_of_a_refused_part(lake: Lake) -> None:
    query = """SELECT kind
FROM raw.events AS e AT (VERSION => 4)
JOIN plain USING (id)
WHERE price > 3 AND hash(kind) = 1"""
    with pytest.raises(UnsupportedError) as raised:
        lake.sql(query)
    first, *drawn = raised.value.message.split("\n")
    assert first == 'Spark may not compute HASH("e"."kind") as DuckDB does, in line 4, column 21'
    line, caret = drawn
    assert line.index("hash") == caret.index("^")
    assert raised.value.hint == "write it with narwhals, or run it on DuckDB: lake.sql(query, engine='duckdb')"
