"""`lake.sql(…, dialect="spark")` runs Spark's own SQL over tables of the lake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from lakeconf.errors import QueryError, SnapshotNotFoundError, TableNotFoundError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    """Two tables; `raw.events` has 3 rows at snapshot 3 and 2 at snapshot 4."""
    with store.connect() as connection:
        connection.execute("CREATE SCHEMA raw")
        connection.execute("CREATE TABLE raw.events AS SELECT i AS id, 'k' || i AS kind FROM range(3) t(i)")
        connection.execute('CREATE TABLE "Odd Table" AS SELECT 1 AS id, 7 AS "a{b}"')
        connection.execute("DELETE FROM raw.events WHERE id = 1")
    with store.open(spark) as found:
        yield found


def rows(lake: Lake, query: str) -> list[Any]:
    return sorted(map(tuple, lake.sql(query, dialect="spark").to_native().collect()))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT id, kind FROM raw.events", [(0, "k0"), (2, "k2")]),
        ("SELECT events.id FROM raw.events WHERE events.id > 0", [(2,)]),
        ("SELECT e.id FROM dev.raw.events AS e JOIN `Odd Table` o ON e.id = o.id + 1", [(2,)]),
        ("SELECT `a{b}`, '{raw.events}', '}' FROM `Odd Table`", [(7, "{raw.events}", "}")]),
        ("SELECT CAST(2.9 AS INT), 7 / 2, count(*) FROM raw.events", [(2, 3.5, 2)]),
        ("SELECT count(*) FROM raw.events VERSION AS OF 2", [(3,)]),
        ("SELECT count(*) FROM raw.events FOR VERSION AS OF 2 e, raw.events f", [(6,)]),
        ("WITH events AS (SELECT 9 AS id) SELECT id FROM events", [(9,)]),
        ("SELECT explode(array(id, id)) FROM raw.events -- twice", [(0,), (0,), (2,), (2,)]),
        ("SELECT id FROM raw.events UNION ALL SELECT id FROM `Odd Table`", [(0,), (1,), (2,)]),
        ("SELECT (SELECT max(id) FROM raw.events) + id FROM range(2)", [(2,), (3,)]),
    ],
)
def test_rows_are_those_of_spark(lake: Lake, query: str, expected: list[Any]) -> None:
    assert rows(lake, query) == expected


def test_a_timestamp_names_a_snapshot(lake: Lake) -> None:
    times = {snapshot.snapshot_id: snapshot.time.isoformat() for snapshot in lake.snapshots()}
    assert rows(lake, f"SELECT count(*) FROM raw.events TIMESTAMP AS OF '{times[4]}'") == [(2,)]
    assert rows(lake, f"SELECT count(*) FROM raw.events TIMESTAMP AS OF '{times[3]}'") == [(3,)]


def test_the_query_reads_the_snapshot_of_the_lake(lake: Lake) -> None:
    assert rows(lake.at(version=2), "SELECT count(*) FROM raw.events") == [(3,)]


def test_temporary_views_of_the_session_can_be_joined(lake: Lake, spark: SparkSession) -> None:
    spark.range(5).createOrReplaceTempView("lakeconf_test_numbers")
    try:
        joined = "SELECT e.id FROM raw.events e JOIN lakeconf_test_numbers n ON e.id = n.id"
        assert rows(lake, joined) == [(0,), (2,)]
    finally:
        spark.catalog.dropTempView("lakeconf_test_numbers")
    assert not [table.name for table in spark.catalog.listTables() if table.name.startswith("lakeconf")]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT * FROM raw.missing", TableNotFoundError, "missing"),
        ("SELECT * FROM missing", QueryError, "missing"),
        ("SELECT * FROM raw.events VERSION AS OF 99", SnapshotNotFoundError, "99"),
        ("SELECT * FROM raw.events TIMESTAMP AS OF '2024-01-01'", UnsupportedError, "VERSION AS OF 3"),
        ("SELECT * FROM raw.events VERSION AS OF 'x'", UnsupportedError, "VERSION AS OF 3"),
        ("SELECT * FROM other.raw.events", UnsupportedError, "another database, 'other'"),
        ("SELECT nothing FROM raw.events", QueryError, "nothing"),
        ("DROP TABLE raw.events", QueryError, "not a single query"),
        ("SELECT 1; SELECT 2", QueryError, "not a single query"),
        ("SELECT 'open", QueryError, "cannot be parsed"),
    ],
)
def test_other_queries_are_refused(lake: Lake, query: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error) as refused:
        lake.sql(query, dialect="spark")
    assert message in str(refused.value)


def test_only_spark_runs_its_sql(store: Store) -> None:
    with store.open() as without, pytest.raises(UnsupportedError, match="opened without"):
        without.sql("SELECT 1", dialect="spark")
