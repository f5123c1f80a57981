"""Spark's SQL reads the views of a lake by name: DuckDB computes their rows."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import rows
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F  # noqa: N812 - its usual name

from lakeconf.engines.spark.read import native_scan

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from lakeconf import Lake, Store

pytestmark = pytest.mark.slow

# Of each type that Spark has; Python reads equal values of both.
TYPED = (
    "SELECT id, day, (id % 200)::UTINYINT AS u8, id::UBIGINT AS u64, id::HUGEINT AS h, (id / 3)::DECIMAL(9,3) AS amt, "
    "id / 7 AS f, id % 2 = 0 AS even, name, encode(name) AS b, TIMESTAMP '2026-01-01 10:00:00.5' AS ts, "
    "[day, NULL] AS days, {'a': name, 'b': [id]} AS s, NULL AS nothing, [1, 2]::INTEGER[2] AS pair FROM raw.t"
)
# Types that Spark lacks: it reads their values as strings.
TEXTS = {
    "TIME '10:00:00.25'": "10:00:00.25",
    "TIMETZ '10:00:00+02'": "10:00:00+02",
    "INTERVAL 3 DAY": "3 days",
    "'01234567-89ab-cdef-0123-456789abcdef'::UUID": "01234567-89ab-cdef-0123-456789abcdef",
    """'{"a": 1}'::JSON""": '{"a": 1}',
}


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """The lake `dev` with a table that has rows in a file and in the catalog, and views."""
    with store.open() as lake:
        lake.create_table("raw.t", {"id": "BIGINT", "name": "VARCHAR", "day": "DATE"}, partitioned_by=["day"])
        lake.execute("INSERT INTO raw.t SELECT i, 'n' || i, DATE '2026-01-01' + (i % 3)::INT FROM range(50) t(i)")
        lake.execute("DELETE FROM raw.t WHERE id % 10 = 0")
        lake.execute("INSERT INTO raw.t VALUES (1000, 'x', NULL)")
        lake.create_view("raw.v", "SELECT id, upper(name) AS name, day FROM raw.t WHERE id > 3")
        lake.create_view("raw.w", "WITH days AS (SELECT DISTINCT day FROM raw.v) SELECT * FROM days")
        yield lake


def fetched(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=str)


SAME_IN_BOTH = (
    "SELECT * FROM dev.raw.v",
    "SELECT count(*), min(name), max(day) FROM dev.raw.v",
    "SELECT id FROM dev.raw.v WHERE day = DATE '2026-01-02' OR name = 'X' OR id IN (5, 6)",
    "SELECT id FROM dev.raw.v WHERE NOT (id < 20) AND name LIKE 'N%' AND day IS NOT NULL",
    "SELECT v.id, t.name FROM dev.raw.v AS v JOIN dev.raw.t AS t ON v.id = t.id JOIN dev.raw.w AS w ON w.day = t.day",
    "SELECT id FROM dev.raw.v WHERE id > (SELECT avg(id) FROM dev.raw.v) AND day IN (SELECT day FROM dev.raw.w)",
    "SELECT day FROM dev.raw.w UNION ALL SELECT day FROM dev.raw.t",
)


def test_queries_return_the_rows_of_duckdb(sql: SparkSession, lake: Lake) -> None:
    for query in SAME_IN_BOTH:
        assert fetched(sql.sql(query)) == sorted(rows(lake, query), key=str), query
    lake.create_view("raw.typed", TYPED)
    lake.create_view("raw.texts", f"SELECT {', '.join(f'{value} AS c{at}' for at, value in enumerate(TEXTS))}")
    expected = [
        tuple(list(value) if isinstance(value, tuple) else value for value in row)  # an array becomes a list
        for row in rows(lake, "FROM raw.typed")
    ]
    typed = [row.asDict(recursive=True) for row in sql.table("dev.raw.typed").collect()]
    assert sorted((tuple(row.values()) for row in typed), key=str) == sorted(expected, key=str)
    assert fetched(sql.table("dev.raw.texts")) == [tuple(TEXTS.values())]


def test_a_comparison_of_spark_has_no_collation(sql: SparkSession, lake: Lake) -> None:
    lake.create_view("raw.c", "SELECT name COLLATE NOCASE AS name FROM (VALUES ('a'), ('A'), ('b')) AS t(name)")
    for condition, names in {"name <> 'a'": ["A", "b"], "name = 'A'": ["A"], "name > 'A'": ["a", "b"]}.items():
        assert fetched(sql.sql(f"SELECT name FROM dev.raw.c WHERE {condition}")) == [(name,) for name in names]


def test_duckdb_computes_the_rows_and_columns_that_a_query_needs(
    sql: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create_view(
        "raw.big", "SELECT i, repeat('x', 1000) AS text, DATE '2026-01-01' + i::INT AS day FROM range(500) r(i)"
    )
    monkeypatch.setattr(native_scan, "MOST_COMPUTED_BYTES", 100_000)
    assert sql.sql("SELECT sum(i) FROM dev.raw.big").collect() == [(124_750,)]
    assert sql.sql("SELECT count(text) FROM dev.raw.big WHERE i < 20 AND day > DATE '2026-01-10'").collect() == [(10,)]
    with pytest.raises(
        AnalysisException, match=r"(?s)UnsupportedError: DuckDB computes more than .*select fewer columns"
    ):
        sql.table("dev.raw.big").collect()


def test_nothing_is_computed_for_a_description(sql: SparkSession, lake: Lake) -> None:
    lake.create_view("raw.failing", "SELECT error('computed') AS text, id FROM raw.t")
    assert sql.table("dev.raw.failing").columns == ["text", "id"]
    assert [row.col_name for row in sql.sql("DESCRIBE dev.raw.failing").collect()] == ["text", "id"]
    assert sql.catalog.tableExists("dev.raw.failing")
    assert sql.sql("SELECT count(*) FROM dev.raw.failing").collect() == [(46,)]
    with pytest.raises(AnalysisException, match="computed"):
        sql.table("dev.raw.failing").collect()
    assert [row.tableName for row in sql.sql("SHOW TABLES IN dev.raw").collect()] == ["t"]


def test_a_view_is_read_at_the_snapshot_of_the_query(
    sql: SparkSession, store: Store, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, older = sql.table("dev.raw.v"), lake.snapshot_id
    lake.execute("DELETE FROM raw.t WHERE id < 1000")
    assert (before.count(), sql.table("dev.raw.v").count()) == (43, 1)
    assert sql.sql(f"SELECT count(*) FROM dev.raw.v VERSION AS OF {older}").collect() == [(43,)]
    lake.create_view("raw.v", "SELECT 'new' AS text FROM raw.t")
    assert sql.table("dev.raw.v").columns == ["text"]
    assert sql.read.option("versionAsOf", older).table("dev.raw.v").columns == ["id", "name", "day"]
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        sql.sql("SELECT * FROM dev.raw.v VERSION AS OF 2")
    from lakeconf.lake import named_lake

    answer, loads = named_lake.NamedLake.load, []

    def load(self: Any, values: Any, frame: Any) -> Any:
        facts = answer(self, values, frame)
        loads.append(facts["table"])
        if len(loads) == 1:  # a writer, between the table and the view
            lake.execute("INSERT INTO raw.t VALUES (1, 'a', NULL)")
        return facts

    monkeypatch.setitem(named_lake.METHODS, "load", load)
    query = "SELECT (SELECT count(*) FROM dev.raw.t), (SELECT count(*) FROM dev.raw.v)"
    assert [fetched(sql.sql(query)) for _ in range(2)] == [[(1, 1)], [(2, 2)]]
    assert loads == ["raw.t", "raw.v"] * 2


def test_an_older_frame_of_a_view_replaces_no_rows(sql: SparkSession, lake: Lake) -> None:
    frame = sql.table("dev.raw.v")
    lake.execute("INSERT INTO raw.t VALUES (2000, 'y', NULL)")
    with pytest.raises(AnalysisException, match="CommitConflictError"):
        frame.write.mode("overwrite").insertInto("dev.raw.t")
    assert rows(lake, "SELECT count(*) FROM raw.t") == [(47,)]
    sql.table("dev.raw.v").where(F.col("id") > 40).write.mode("overwrite").insertInto("dev.raw.t")
    lake.refresh()
    assert rows(lake, "SELECT count(*) FROM raw.t") == [(11,)]
    assert rows(lake, "SELECT name, day FROM raw.t WHERE id = 41") == [("N41", date(2026, 1, 3))]


HOSTILE = {
    "SELECT * FROM read_text('/etc/passwd')": "calls read_text",
    "SELECT * FROM read_csv('/etc/passwd', header = false)": "calls read_csv",
    "SELECT * FROM '/etc/passwd'": "is not a table of the lake",
    "SELECT * FROM duckdb_secrets()": "calls duckdb_secrets",
    "SELECT current_setting('s3_secret_access_key') AS secret": "calls current_setting",
    "SELECT * FROM (SELECT 1 AS id) WHERE id IN (SELECT 1 FROM glob('/*'))": "calls glob",
    "SELECT * FROM query('SELECT 1')": "calls query",
    "FROM __ducklake_metadata_dev.ducklake_metadata": "is not a table of the lake",
}


def test_a_view_that_does_more_than_compute_is_refused(sql: SparkSession, lake: Lake, tmp_path: Path) -> None:
    names = {f"h{number}": query for number, query in enumerate(HOSTILE)}
    for name in names:
        lake.create_view(f"raw.{name}", "SELECT 1 AS one")
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog")) as catalog, catalog:
        for name, query in names.items():
            catalog.execute("UPDATE ducklake_view SET sql = ? WHERE view_name = ?", (query, name))
    for name, query in names.items():
        for statement in (f"SELECT 1 FROM dev.raw.{name}", f"DESCRIBE dev.raw.{name}"):
            with pytest.raises(AnalysisException, match=f"UnsafeQueryError: the view '{name}' .*{HOSTILE[query]}"):
                sql.sql(statement)
    assert {table.name for table in sql.catalog.listTables("dev.raw")} == {"t"}


REFUSED = {
    "INSERT INTO raw.v VALUES (1, 'a', NULL)": "is a view",
    "INSERT INTO raw.v REPLACE WHERE id = 1 VALUES (1, 'a', NULL)": "is a view",
    "INSERT OVERWRITE raw.v VALUES (1, 'a', NULL)": "is a view",
    "DELETE FROM raw.v": "is a view",
    "DELETE FROM raw.v WHERE id = 5": "is a view",
    "UPDATE raw.v SET id = 1": "is a view",
    "MERGE INTO raw.v USING raw.t ON v.id = t.id WHEN MATCHED THEN DELETE": "is a view",
    "TRUNCATE TABLE raw.v": "is a view",
    "DROP TABLE raw.v": "drop_view",
    "DROP TABLE IF EXISTS raw.v": "drop_view",
    "DROP VIEW raw.v": "drop_view",
    "ALTER TABLE raw.v ADD COLUMN x INT": "is a view",
    "ALTER TABLE raw.v ALTER COLUMN id COMMENT 'x'": "is a view",
    "ALTER TABLE raw.v RENAME TO raw.other": "drop_view",
    "COMMENT ON TABLE raw.v IS 'x'": "view",
    "CREATE TABLE raw.v (id INT)": "already exists",
    "CREATE OR REPLACE TABLE raw.v (id INT)": "(?i)view",
    "REPLACE TABLE raw.v AS SELECT 1 AS id": "(?i)view|no table",
    "CREATE VIEW raw.v AS SELECT 1 AS id": "view",
    "CREATE OR REPLACE VIEW raw.v AS SELECT 1 AS id": "view",
    "ALTER VIEW raw.v AS SELECT 1 AS id": "create_view",
    "SHOW VIEWS IN dev.raw": "lake.views",
    "SHOW PARTITIONS raw.v": "not partitioned",
    "SELECT * FROM raw.v.history": "is a view",
    "SELECT * FROM raw.broken": "QueryError: DuckDB cannot compute the view raw.broken: .*drop_view",
    "SELECT * FROM raw.kinds": "ENUM.*cast the column",
    "SELECT * FROM raw.variants": "VARIANT",
    "SELECT * FROM raw.nanos": "more digits than Spark",
}


def test_what_a_view_cannot_do_is_an_error(sql: SparkSession, lake: Lake, store: Store) -> None:
    lake.create_view("raw.broken", "SELECT name FROM raw.t")
    lake.create_view("raw.kinds", "SELECT 'x'::ENUM('x', 'y') AS kind")
    lake.create_view("raw.variants", "SELECT 1::VARIANT AS value")
    lake.create_view("raw.nanos", "SELECT TIMESTAMP_NS '2026-01-01 00:00:00.123456789' AS moment")
    lake.create_table("raw.u", {"other": "VARCHAR"})
    with store.connect() as connection:
        connection.execute("CREATE OR REPLACE VIEW raw.broken AS SELECT other FROM raw.u")
        connection.execute("ALTER TABLE raw.u RENAME COLUMN other TO another")
    lake.refresh()
    before, wrong = len(lake.snapshots()), {}
    for statement, text in REFUSED.items():
        try:
            sql.sql(statement).collect()
            wrong[statement] = "no error"
        except AnalysisException as error:
            if re.search(text, str(error), re.DOTALL) is None:
                wrong[statement] = str(error)[:300]
    assert wrong == {}
    assert len(lake.snapshots()) == before
    lake.create_view("raw.broken", "SELECT 1 AS one")  # as the hint of its error says
    assert sql.table("raw.broken").collect() == [(1,)]
