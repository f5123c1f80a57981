"""The engine that runs a query of a lake, and the names of frames in it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from plain_sql import run_plain

from lakeconf.errors import QueryError, UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

# Another parser could read it as `flag = (other IS NOT NULL)`.
AMBIGUOUS = "SELECT id FROM t WHERE flag = other IS NOT NULL ORDER BY id"


@pytest.fixture
def flags(lake: Lake) -> Lake:
    rows = [{"id": 1, "flag": True, "other": None}, {"id": 2, "flag": False, "other": None}]
    lake.create_table("t", {"id": "INTEGER", "flag": "BOOLEAN", "other": "BOOLEAN"})
    lake.table("t").append([*rows, {"id": 3, "flag": True, "other": True}])
    return lake


def rows(found: Any) -> list[tuple[Any, ...]]:
    return list(map(tuple, found.collect("pyarrow").rows()))


@pytest.mark.slow("on_spark")
def test_duckdb_runs_its_sql_on_every_lake(flags: Lake) -> None:
    flags.create_table("copy", {"id": "INTEGER"})
    for found in (flags.sql(AMBIGUOUS), flags.sql(AMBIGUOUS, t=flags.table("t").scan())):
        assert type(found.to_native()).__module__.startswith(("duckdb", "_duckdb"))
        assert rows(found) == [(3,)]
    flags.execute(f"INSERT INTO copy {AMBIGUOUS}")
    assert rows(flags.table("copy").scan()) == [(3,)]


VALUES = {
    "i": "range::INTEGER",
    "big": "range::HUGEINT",
    "small": "range::UTINYINT",
    "price": "(range / 4)::DECIMAL(10, 2)",
    "text": "'é' || range",
    "id": "('00000000-0000-0000-0000-00000000000' || range)::UUID",
    "day": "DATE '1500-01-01' + range::INTEGER",
    "at": "TIMESTAMP '2024-05-17 10:00:00.123456' + INTERVAL 1 day * range",
    "zoned": "TIMESTAMPTZ '2024-05-17 10:00:00+02' + INTERVAL 1 day * range",
    "raw": "'\\xFF'::BLOB",
    "s": "{'a': range, 'b': ['x', NULL]}",
    "m": "MAP {'k': range}",
    "nothing": "NULL::DOUBLE",
}


def test_every_write_accepts_the_rows_of_a_query(lake: Lake) -> None:
    query = f"SELECT {', '.join(f'{sql} AS {name}' for name, sql in VALUES.items())} FROM range(%d, %d)"
    expected = lake.sql(query % (0, 4)).to_native()
    table = lake.create_table("t", lake.sql(query % (0, 0)))
    assert list(table.schema.values()) == list(map(str, expected.types))
    table.append(lake.sql(query % (0, 2)))
    table.overwrite(lake.sql(query % (1, 3)))
    table.merge(lake.sql(query % (2, 4)), on="i")
    table.merge(lake.sql(query % (0, 1)), on="i")
    assert lake.sql("FROM t ORDER BY i").to_native().fetchall() == expected.order("i").fetchall()


@pytest.mark.slow
def test_every_write_accepts_the_rows_of_spark_sql(store: Store, spark: SparkSession) -> None:
    with store.open(spark) as lake:
        query = "SELECT id, CAST(id AS STRING) AS text FROM range({}, {})".format
        table = lake.create_table("t", {"id": "BIGINT", "text": "VARCHAR"})
        table.append(spark.sql(query(0, 2)))
        table.overwrite(spark.sql(query(1, 3)))
        table.merge(spark.sql(query(2, 4)), on="id")
        again = spark.sql("SELECT id + 3 AS id, text FROM {t} WHERE id = 1", t=table.scan().to_native())
        table.append(again)
        assert rows(lake.sql("FROM t ORDER BY id")) == [(1, "1"), (2, "2"), (3, "3"), (4, "1")]


NO_QUERIES = [
    *("DROP TABLE t", "DELETE FROM t", "INSERT INTO t VALUES (1, true, true)", "CREATE TABLE other AS SELECT 1 AS id"),
    *("ALTER TABLE t DROP COLUMN flag", "SELECT 1 AS id; DROP TABLE t", "DROP TABLE t; SELECT 1 AS id"),
    "DROP TABLE t; PIVOT (FROM t) ON flag USING count(*)",
    "PIVOT (FROM t) ON flag USING count(*); DROP TABLE t",
    "CREATE TABLE other (id INTEGER); SELECT 1 AS id",
    *("EXPLAIN ANALYZE DELETE FROM t", " /* x */ pragma table_info('t')", "BEGIN", "CHECKPOINT", "force checkpoint"),
    *("", "-- nothing"),
]
MAINTENANCE = [
    "CALL ducklake_expire_snapshots('dev', dry_run => false, older_than => now())",
    "FROM dev.merge_adjacent_files()",
    "CALL dev.set_option('data_inlining_row_limit', 10)",
    "SELECT count(*) FROM \"ducklake_cleanup_old_files\" ('dev', cleanup_all => true)",
]


@pytest.mark.slow
def test_statement_that_is_no_query_changes_nothing(two_tables: Lake) -> None:
    """Nor does a function for maintenance, which needs the locks of the lake."""
    for _ in range(2):
        two_tables.table("t").append([{"id": 1}])
    options = "FROM ducklake_options('dev') ORDER BY ALL"
    before = (two_tables.snapshots(), two_tables.tables(), rows(two_tables.sql(options)))
    for statement in (*NO_QUERIES, *MAINTENANCE):
        for use in (two_tables.sql, lambda sql: two_tables.sql(sql, unused=ONE)):
            with pytest.raises(QueryError) as refused:
                use(statement)
            if statement in MAINTENANCE:
                assert re.search(r"changes the lake without its locks|may do more than read", str(refused.value))
            else:
                assert refused.value.message == "the SQL is not a single query"
                hint = "write one SELECT … or FROM …; use lake.execute(…) to change rows"
                assert (refused.value.hint or "").startswith(hint)
        two_tables.refresh()
        assert (two_tables.snapshots(), two_tables.tables(), rows(two_tables.sql(options))) == before, statement


def test_every_form_of_a_query_runs(two_tables: Lake) -> None:
    two_tables.table("t").append([{"id": 1}])
    for query in (
        *("PIVOT (FROM t) ON id USING count(*)", "UNPIVOT (FROM t) ON id", "DESCRIBE t", "SHOW TABLES", "SUMMARIZE t"),
        *("CALL pragma_version()", "WITH one AS (FROM t) FROM one;", "-- a comment\nTABLE t"),
    ):
        assert two_tables.sql(query).to_native().fetchall()


AT_FIRST = {
    "FROM t": [(1,)],
    "SELECT count(*), (SELECT max(a) FROM main.t) FROM dev.main.t AS x JOIN v ON v.a = x.a": [(1, 1)],
    "WITH t AS (SELECT 7 AS a) FROM t": [(7,)],
    "WITH RECURSIVE r AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM r, t WHERE i < t.a) FROM r ORDER BY i": [
        (0,),
        (1,),
    ],
    'SELECT "t".a FROM "t", (FROM t) AS u WHERE EXISTS (FROM t WHERE a = u.a)': [(1,)],
    "PIVOT t ON a IN (1, 2) USING count(*)": [(1, 0)],
    "SELECT main.t.a, rowid, filename IS NOT NULL AS has_file FROM main.t WHERE main.t.a = dev.main.t.a": [
        (1, 0, True)
    ],
    "SELECT a FROM main.t JOIN other.t USING (a)": [(1,)],
    "TABLE t": [(1,)],
    "WITH c AS (table /* of */ t) FROM c": [(1,)],
    'FROM t -- of\n AS "X y" (b) WHERE "x Y".b = 1': [(1,)],
    "SELECT y.a FROM x : t, t y, t AS z TABLESAMPLE 100%": [(1,)],
    'SELECT count(*) FROM t table1, main.t as\tas1, t AS "table"': [(1,)],
    "FROM v": [(1,)],
    "FROM of_macros": [(1, 1)],
    "SELECT twice(a), same(a) FROM t": [(2, 1)],
    "SELECT a FROM t AT (VERSION => {latest}) ORDER BY a": [(1,), (2,)],
    "SELECT t.a, u.a AS b FROM t, t AS u AT (VERSION => {latest}) ORDER BY u.a": [(1, 1), (1, 2)],
}


@pytest.fixture
def pinned(lake: Lake) -> Lake:
    """The lake at a snapshot, after which another row was added."""
    lake.create_table("t", {"a": "BIGINT"})
    lake.create_table("other.t", {"a": "BIGINT"})
    run_plain(
        lake,
        "INSERT INTO other.t VALUES (1)",
        "CREATE VIEW v AS FROM t",
        "CREATE MACRO largest() AS (SELECT max(a) FROM t)",
        "CREATE MACRO listed() AS TABLE FROM t",
        "CREATE MACRO half(x) AS x",
        "CREATE OR REPLACE MACRO half(x) AS x / 2",
        "CREATE MACRO twice(x) AS half(x) * 4",
        "CREATE MACRO later(x) AS x",
        "CREATE MACRO same(x) AS (WITH q AS (SELECT x AS y) SELECT y FROM q)",
        "CREATE MACRO calls_later(x) AS later(x)",
        "CREATE VIEW of_macros AS SELECT a, largest() AS most FROM listed()",
        "INSERT INTO t VALUES (1)",
    )
    before = lake.refresh()
    lake.table("t").append([{"a": 2}])
    run_plain(lake, "CREATE OR REPLACE MACRO later(x) AS x + 1")
    return lake.at(version=before)


@pytest.mark.slow
def test_queries_read_the_snapshot_of_the_lake(pinned: Lake) -> None:
    frame = pinned.table("t").scan()
    for text, expected in AT_FIRST.items():
        query = text.format(latest=pinned.snapshot_id + 1)
        assert rows(pinned.sql(query)) == expected, query
        assert rows(pinned.sql(query, unused=frame)) == expected, query
    query = "SELECT given.a, stored.a AS b FROM t AS given, main.t AS stored ORDER BY ALL"
    assert rows(pinned.sql(query, t=pinned.sql("SELECT 5 AS a"))) == [(5, 1)]


@pytest.mark.slow("on_spark")
def test_queries_in_a_transaction_read_its_snapshot(lake: Lake, pinned: Lake) -> None:
    with lake.transaction() as tx:
        run_plain(lake, "INSERT INTO t VALUES (3)")
        assert rows(tx.sql("FROM t ORDER BY a")) == rows(tx.table("t").scan().sort("a")) == [(1,), (2,)]
    assert rows(lake.sql("FROM t ORDER BY a")) == [(1,), (2,), (3,)]
    assert rows(pinned.sql("DESCRIBE t")) == rows(lake.sql("DESCRIBE t"))


@pytest.mark.slow
def test_what_would_read_the_latest_snapshot_is_refused(lake: Lake, pinned: Lake) -> None:
    for query in (
        *("FROM listed()", "SELECT largest()", "FROM query_table('t')", "SELECT later(1)", "SELECT calls_later(1)"),
        "SELECT id + largest() FROM unused",
    ):
        with pytest.raises(UnsupportedError, match="would read the latest snapshot instead of"):
            pinned.sql(query, unused=ONE)
    for query in (
        *("SHOW TABLES", "SHOW ALL TABLES", "FROM (SHOW TABLES)", "FROM pg_catalog.pg_tables", "FROM duckdb_columns()"),
        *("FROM information_schema.tables", "FROM pragma_table_info('t')", "FROM ducklake_list_files('dev', 't')"),
        "SELECT (SELECT count(*) FROM ducklake_table_info('dev'))",
    ):
        with pytest.raises(UnsupportedError, match="would describe the latest snapshot instead of"):
            pinned.sql(query)
        with pytest.raises(UnsupportedError, match="would describe the latest snapshot instead of"):
            pinned.sql(query, unused=ONE)
        assert rows(lake.sql(query))


ONE, TWO = pa.table({"id": [1]}), pa.table({"id": [2]})


def fetched(frame: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = frame.to_native().fetchall()
    return found


@pytest.mark.parametrize("engine", ["on_duckdb"], indirect=True)
def test_a_later_query_does_not_change_an_earlier_one(lake: Lake) -> None:
    first, second = (lake.sql("SELECT id FROM x", x=frame) for frame in (ONE, TWO))
    third = lake.sql("SELECT other FROM x", x=pa.table({"other": [3]}))
    assert [fetched(found) for found in (first, second, third)] == [[(1,)], [(2,)], [(3,)]]


@pytest.mark.parametrize("engine", ["on_duckdb"], indirect=True)
def test_tables_views_and_macros_of_the_lake_do_not_read_frames(lake: Lake) -> None:
    run_plain(
        lake,
        "CREATE TABLE t AS SELECT 7 AS id",
        "CREATE VIEW v AS SELECT id FROM t",
        "CREATE MACRO m() AS TABLE SELECT id FROM t",
    )
    lake.refresh()
    assert fetched(lake.sql("SELECT v.id, t.id FROM v, t", t=ONE)) == [(7, 1)]
    assert fetched(lake.sql("FROM m(), T", t=ONE)) == [(7, 1)]
    for name in ("t", "main.t", "dev.t", "v", "m()"):
        assert fetched(lake.sql(f"FROM {name}")) == [(7,)]


@pytest.mark.parametrize("engine", ["on_duckdb"], indirect=True)
def test_names_in_queries_and_errors_are_those_of_the_user(lake: Lake) -> None:
    for sql, wanted in (
        ('SELECT x.id, "X".id FROM x', [(1, 1)]),
        ("FROM x AS a JOIN x AS b USING (id)", [(1,)]),
        ("WITH x AS (SELECT 5 AS id) FROM x", [(5,)]),
        ("SELECT (SELECT max(id) FROM x), 'FROM x' FROM \"x\" -- FROM x", [(1, "FROM x")]),
        ("PIVOT x ON id IN (1) USING count(*)", [(1,)]),
        ("SELECT x FROM x", [({"id": 1},)]),
        ("DESCRIBE x", [("id", "BIGINT", "YES", None, None, None)]),
        ("SELECT column_name FROM (SUMMARIZE SELECT id FROM x)", [("id",)]),
    ):
        assert fetched(lake.sql(sql, x=ONE)) == wanted
    with pytest.raises(QueryError, match="nope") as caught:
        lake.sql("SELECT nope FROM x", x=ONE)
    assert "lakeconf_input" not in str(caught.value)
    with pytest.raises(QueryError, match=r"names of frames cannot be found|Parser Error"):
        lake.sql("SELECT FROM FROM x", x=ONE)
