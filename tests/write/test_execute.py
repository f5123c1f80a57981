"""`Lake.execute`: statements of SQL that change rows, on both engines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from lake_fixtures import lake_with
from lake_parts import session_of
from plain_sql import run_plain

from lakeconf.errors import (
    CommitConflictError,
    LakeconfError,
    QueryError,
    SchemaError,
    TableNotFoundError,
    UnknownNameError,
    UnsafeQueryError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from lakeconf import Lake, Store

STOCK = pa.table({"id": [1, 2, 3, 4], "name": ["a", "b", "c", None], "amount": pa.array([10, 20, 30, 40], pa.int64())})
DELIVERY = pa.table({"id": [2, 3, 9], "name": ["B", None, "i"], "amount": pa.array([5, 0, 90], pa.int64())})

lake = lake_with("stock", STOCK)
# Statements without frames never reach Spark.
on_duckdb = pytest.mark.parametrize("engine", ["on_duckdb"], indirect=True)

# DuckDB runs each of these on its own tables too, and must return the same rows.
STATEMENTS = [
    "INSERT INTO stock VALUES (5, 'e', 50), (6, NULL, 60)",
    "INSERT INTO stock (amount, id) VALUES (50, 5)",
    "INSERT INTO stock SELECT * FROM delivery",
    "INSERT INTO stock (name, id) SELECT upper(name), id + 10 FROM delivery WHERE amount >= 5",
    "INSERT INTO stock BY NAME SELECT amount, id FROM delivery",
    "INSERT INTO stock SELECT d.id, s.name, d.amount FROM delivery AS d JOIN stock AS s USING (id)",
    "INSERT INTO stock SELECT id + 100, name, amount FROM stock",
    "WITH many AS (SELECT * FROM delivery WHERE amount > 1) INSERT INTO stock SELECT * FROM many UNION ALL FROM many",
    "UPDATE stock SET amount = amount * 2, name = coalesce(name, '-') WHERE id % 2 = 0",
    "UPDATE stock SET amount = 0",
    "UPDATE stock AS s SET name = d.name FROM delivery AS d WHERE s.id = d.id",
    "UPDATE stock SET amount = (SELECT max(amount) FROM delivery) WHERE id IN (SELECT id FROM delivery)",
    "DELETE FROM stock WHERE id >= 3",
    "DELETE FROM stock AS s WHERE s.name IS NULL OR s.id = 1",
    "DELETE FROM stock WHERE id % 3 = 0",
    "DELETE FROM stock WHERE id IN (SELECT id FROM delivery)",
    "DELETE FROM stock USING delivery WHERE stock.id = delivery.id",
    "WITH gone AS (SELECT id FROM delivery) DELETE FROM stock WHERE id IN (FROM gone)",
    "DELETE FROM stock",
    "WITH RECURSIVE stock AS (SELECT 7 AS id UNION ALL SELECT id + 1 FROM stock WHERE id < 9) "
    "INSERT INTO stock BY NAME FROM stock",
    "UPDATE stock SET (name, amount) = ('x', 2), id = id + 1 WHERE name IS DISTINCT FROM 'a'",
    "INSERT INTO stock (id, name) (SELECT id, name FROM delivery); -- the end",
]


def rows(lake: Lake, query: str = "SELECT * FROM stock") -> list[tuple[Any, ...]]:
    native: Any = lake.sql(query).to_native()
    return sorted(native.fetchall(), key=repr)


@pytest.mark.slow
@pytest.mark.parametrize("statement", STATEMENTS)
def test_statement_changes_the_rows_that_duckdb_changes(lake: Lake, statement: str) -> None:
    with duckdb.connect() as oracle:
        oracle.register("delivered", DELIVERY)
        oracle.register("stocked", STOCK)
        oracle.execute("CREATE TABLE stock AS FROM stocked; CREATE TABLE delivery AS FROM delivered")
        oracle.execute(statement)
        expected = sorted(oracle.execute("FROM stock").fetchall(), key=repr)
    before = lake.snapshot_id
    frames = {"delivery": DELIVERY} if "delivery" in statement else {}
    assert lake.execute(statement, **frames) == before + 1 == lake.snapshot_id
    assert rows(lake) == expected


@pytest.mark.slow("on_spark")
def test_names_of_frames_ignore_case_and_may_hide_tables_that_are_read(lake: Lake) -> None:
    lake.create_table("Delivery", {"id": "BIGINT"})
    lake.execute("DELETE FROM stock WHERE id IN (SELECT id FROM DELIVERY)", delivery=DELIVERY)
    assert [key for key, *_ in rows(lake)] == [1, 4]


@pytest.mark.slow("on_spark")
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM stock WHERE id = 1",
        "INSERT INTO main.stock FROM stock",
        "DELETE FROM dev.main.stock WHERE id IN (SELECT id FROM Main.stock UNION SELECT id FROM stock)",
    ],
)
def test_frame_with_the_name_of_a_table_in_the_statement_is_refused(lake: Lake, statement: str) -> None:
    with pytest.raises(QueryError, match="is both"):
        lake.execute(statement, Stock=DELIVERY)
    with pytest.raises(QueryError, match="does not use the frame 'staging'"):
        lake.execute(statement, staging=DELIVERY)
    lake.execute("INSERT INTO dev.main.stock FROM stock", stock=DELIVERY)
    assert len(rows(lake)) == 7


@pytest.mark.slow("on_spark")
def test_tables_of_other_schemas_need_their_schema(lake: Lake) -> None:
    lake.create_table("raw.events", {"id": "BIGINT"})
    with pytest.raises(LakeconfError, match="events"):
        lake.execute("INSERT INTO events VALUES (1)")
    with pytest.raises(UnknownNameError, match="no table events"):
        lake.execute("DELETE FROM stock WHERE id IN (SELECT id FROM events)")
    lake.execute("INSERT INTO raw.events VALUES (1)")
    lake.execute("DELETE FROM dev.main.stock WHERE id IN (SELECT id FROM raw.events)")
    assert [key for key, *_ in rows(lake)] == [2, 3, 4]


REFUSED = [
    ("SELECT 1", QueryError, "not a single statement that changes rows"),
    ("DELETE FROM stock; DELETE FROM stock", QueryError, "not a single statement that changes rows"),
    ("", QueryError, "not a single statement that changes rows"),
    ("DROP TABLE stock", QueryError, "not a single statement that changes rows"),
    ("CREATE TABLE other AS FROM stock", QueryError, "not a single statement that changes rows"),
    ("COPY stock TO 'x.parquet'", QueryError, "not a single statement that changes rows"),
    ("DELETE FRM stock", QueryError, "Parser Error"),
    ("DELETE FROM stock WHERE id > 1 LIMIT 1", QueryError, "Parser Error"),
    ("DELETE FROM stock WHERE id > 1 ORDER BY id LIMIT 1", QueryError, "Parser Error"),
    ("DELETE stock FROM stock WHERE id > 1", QueryError, "Parser Error"),
    ("DELETE FROM stock AT (VERSION => 1) WHERE id = 1", QueryError, "Parser Error"),
    ("INSERT OVERWRITE stock SELECT * FROM stock", QueryError, "Parser Error"),
    ("UPDATE stock SETT x = 1", QueryError, "Parser Error"),
    ("DELETE FROM memory.main.stock", QueryError, "a table of another database"),
    ("DELETE FROM missing", TableNotFoundError, "missing"),
    ("DELETE FROM stock WHERE missing % 2 = 1", QueryError, "missing"),
    ("DELETE FROM stock WHERE id = 1 RETURNING *", UnsupportedError, "RETURNING"),
    ("INSERT INTO stock VALUES (1, 'a', 1) ON CONFLICT DO NOTHING", UnsupportedError, "have no keys"),
    ("INSERT OR REPLACE INTO stock VALUES (1, 'a', 1)", UnsupportedError, "have no keys"),
    ("UPDATE stock SET name = '{DATA_PATH}'", LakeconfError, "DATA_PATH"),
    ("INSERT INTO stock (id, name) SELECT id FROM stock", LakeconfError, None),
    ("MERGE INTO stock USING stock AS s ON stock.id = s.id WHEN MATCHED THEN DELETE", UnsupportedError, "MERGE INTO"),
    ("WITH s AS (FROM stock) MERGE INTO stock USING s USING (id) WHEN MATCHED THEN DELETE", UnsupportedError, "MERGE"),
]


@on_duckdb
def test_other_statements_are_refused(lake: Lake) -> None:
    before = lake.snapshot_id
    for statement, error, message in REFUSED:
        with pytest.raises(error, match=message):
            lake.execute(statement)
        assert (lake.refresh(), len(rows(lake))) == (before, 4), statement


@on_duckdb
def test_functions_that_change_the_lake_are_refused(lake: Lake) -> None:
    for source in ("ducklake_expire_snapshots('dev')", "dev.Set_Option('x', 1)", "query('SELECT 1')"):
        for place in (source, f"stock, LATERAL {source}"):
            with pytest.raises(QueryError, match=r"changes the lake without its locks|runs SQL that cannot be checked"):
                lake.execute(f"INSERT INTO stock (id) SELECT 7 FROM {place}")


@on_duckdb
def test_tables_with_the_names_of_such_functions_and_views_are_used(lake: Lake) -> None:
    for name in ("query", "commit"):
        lake.create_table(f"raw.{name}", {"id": "BIGINT"})
        lake.execute(f"INSERT INTO raw.{name} (id) VALUES (1)")
        assert lake.table(f"raw.{name}").count() == 1
    lake.create_view("small", "SELECT id FROM dev.stock WHERE amount < 25")
    lake.execute("DELETE FROM stock WHERE id IN (SELECT id FROM small)")
    assert [key for key, *_ in rows(lake)] == [3, 4]


@on_duckdb
def test_null_in_a_required_column_is_refused(lake: Lake) -> None:
    lake.create_table("strict", {"id": "BIGINT NOT NULL", "name": "VARCHAR"})
    for statement in ("INSERT INTO strict (name) VALUES ('a')", "INSERT INTO strict BY NAME SELECT name FROM stock"):
        with pytest.raises(SchemaError, match="NOT NULL"):
            lake.execute(statement)


@pytest.mark.slow("on_spark")
def test_column_that_an_insert_omits_has_its_default_value(lake: Lake) -> None:
    lake.table("stock").evolve(add={"kind": "VARCHAR"}, defaults={"kind": "box"})
    lake.execute("INSERT INTO stock (id) VALUES (7)")
    assert rows(lake, "SELECT kind FROM stock WHERE id = 7") == [("box",)]
    lake.execute("INSERT INTO stock (id, name) SELECT id, name FROM delivery", delivery=DELIVERY)
    assert rows(lake, "SELECT DISTINCT kind FROM stock") == [("box",)]


@pytest.mark.slow("on_spark")
def test_inserted_rows_are_counted(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.execute("INSERT INTO stock SELECT * FROM d", d=DELIVERY)
        tx.execute("INSERT INTO stock (id) VALUES (7), (8)")
        tx.execute("UPDATE stock SET amount = 1 WHERE id = 1")
    assert json.loads(lake.snapshots()[-1].extra_info or "")["rows"] == 5


@pytest.mark.slow("on_spark")
def test_key_is_committed_once(lake: Lake) -> None:
    first = lake.execute("UPDATE stock SET amount = amount + 1", idempotency_key="once")
    assert lake.execute("UPDATE stock SET amount = amount + 1", idempotency_key="once") == first
    assert sum(amount for *_, amount in rows(lake)) == 104


@pytest.mark.slow("on_spark")
def test_statements_of_a_transaction_are_one_snapshot_and_see_each_other(lake: Lake) -> None:
    before = lake.snapshot_id
    with lake.transaction() as tx:
        tx.create_table("copies", STOCK)
        tx.execute("UPDATE stock SET amount = amount + 1")
        tx.execute("UPDATE stock SET amount = amount * 10")
        tx.execute("UPDATE stock SET name = d.name FROM d WHERE stock.id = d.id", d=DELIVERY)
        tx.execute("DELETE FROM stock WHERE id IN (SELECT id FROM d WHERE amount = 0)", d=DELIVERY)
        tx.execute("INSERT INTO copies VALUES (1, 'x', 1)")
        tx.audit("three left", "SELECT count(*) FROM stock HAVING count(*) <> 3")
    assert lake.snapshot_id == before + 1
    assert rows(lake) == [(1, "a", 110), (2, "B", 210), (4, None, 410)]
    assert rows(lake, "FROM copies") == [(1, "x", 1)]


def test_failed_statement_leaves_nothing_in_its_transaction(lake: Lake) -> None:
    with lake.transaction() as tx:
        with pytest.raises(QueryError):
            tx.execute("INSERT INTO stock FROM d", e=DELIVERY)
        tx.execute("DELETE FROM stock WHERE id = 1")
    assert len(rows(lake)) == 3


@pytest.mark.slow
def test_change_of_a_table_that_was_read_is_a_conflict(lake: Lake, store: Store) -> None:
    lake.create_table("other", STOCK).append(STOCK)
    rows(lake, "FROM other")
    with store.open() as second:
        second.table("other").delete("id = 1")
    with pytest.raises(CommitConflictError, match="other"):
        lake.execute("DELETE FROM stock WHERE id IN (SELECT id FROM other)")
    lake.refresh()
    lake.execute("DELETE FROM stock WHERE id IN (SELECT id FROM other)")
    assert rows(lake) == [(1, "a", 10)]


@pytest.mark.slow
@on_duckdb
@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO stock SELECT * FROM few",
        "DELETE FROM stock WHERE id IN (WITH other AS (SELECT * FROM other) SELECT id FROM other)",
        "DELETE FROM stock WHERE id IN (SELECT id FROM dev.other)",
        "INSERT INTO stock WITH RECURSIVE other AS (SELECT * FROM other UNION ALL FROM other) FROM other",
        "UPDATE stock SET amount = counted() WHERE id % 2 = 1",
    ],
)
def test_tables_behind_views_macros_and_common_names_are_read(lake: Lake, store: Store, statement: str) -> None:
    lake.create_table("other", STOCK).append(STOCK)
    lake.create_view("few", "SELECT * FROM dev.main.other")
    run_plain(lake, "CREATE MACRO dev.main.counted() AS (SELECT count(*) FROM dev.main.other)")
    lake.refresh()
    with pytest.raises(CommitConflictError, match=r"main\.other"), lake.transaction() as tx:  # noqa: PT012 - the commit raises it
        with store.open() as second:
            second.table("other").delete("id = 1")
        tx.execute(statement)


@pytest.mark.slow("on_spark")
def test_statement_sees_rows_that_other_writers_added(lake: Lake, store: Store) -> None:
    with store.open() as second:
        second.table("stock").append(DELIVERY)
    lake.execute("UPDATE stock SET amount = 1 WHERE id % 3 = 0")
    assert [amount for key, _, amount in rows(lake) if key in (3, 9)] == [1, 1, 1]


@on_duckdb
def test_unsafe_view_or_macro_of_the_lake_is_refused(lake: Lake) -> None:
    run_plain(lake, "CREATE MACRO dev.main.spy(a) AS current_setting('TimeZone')")
    run_plain(lake, "CREATE VIEW dev.main.secrets AS SELECT content AS n FROM read_text('x')")
    for statement in (
        "UPDATE stock SET name = spy(name)",
        "UPDATE stock SET name = n FROM secrets",
        'DELETE FROM stock WHERE name IN (SELECT n FROM "secrets")',
        "INSERT INTO stock (name) SELECT n FROM secrets",
    ):
        with pytest.raises(UnsafeQueryError, match="steal your credentials"):
            lake.execute(statement)
    assert lake.execute("UPDATE stock SET name = 'safe'") == lake.snapshot_id


@pytest.mark.slow("on_spark")
def test_frame_with_the_name_of_a_table_behind_a_view_is_refused(lake: Lake) -> None:
    lake.create_table("other", STOCK)
    run_plain(lake, "CREATE VIEW dev.main.small AS SELECT id FROM stock WHERE amount < 25")
    with pytest.raises(QueryError, match="reads the table stock, not the frame"):
        lake.execute(
            "DELETE FROM dev.main.other WHERE id IN (SELECT id FROM small JOIN stock USING (id))", stock=DELIVERY
        )


@pytest.mark.slow("on_spark")
def test_staged_frames_are_removed(lake: Lake) -> None:
    lake.execute("DELETE FROM stock USING d WHERE stock.id = d.id", d=DELIVERY)
    with pytest.raises(QueryError):
        lake.execute("DELETE FROM stock USING d WHERE stock.nothing = d.id", d=DELIVERY)
    writer = session_of(lake).writer
    assert (
        writer.rows("SELECT 1 FROM duckdb_tables() WHERE table_name LIKE 'lakeconf%' AND database_name = 'memory'")
        == []
    )
    assert writer.rows("SELECT 1 FROM duckdb_views() WHERE view_name = 'd'") == []


@pytest.mark.slow
@on_duckdb
def test_values_that_files_could_round_are_refused(lake: Lake) -> None:
    for number, type_name in enumerate(("HUGEINT", "INTERVAL", "STRUCT(a INTERVAL[])")):
        name = f"huge{number}"
        lake.create_table(name, {"number": type_name, "id": "BIGINT"})
        for statement in (f"INSERT INTO {name} VALUES (NULL, 1)", f"UPDATE {name} SET number = NULL"):
            with pytest.raises(UnsupportedError, match="could round values"):
                lake.execute(statement)
        lake.execute(f"INSERT INTO {name} (id) SELECT 1")
        lake.execute(f"UPDATE {name} SET id = 2")
        assert rows(lake, f"SELECT id FROM {name}") == [(2,)]
        lake.execute(f"DELETE FROM {name} WHERE number IS NULL")


@pytest.mark.slow("l", "m")
@pytest.mark.parametrize("limit", [0, 30])
@pytest.mark.parametrize("column", ["l", "m", "s"])
def test_null_in_a_required_column_with_fields_is_refused(store: Store, limit: int, column: str) -> None:
    types = {"l": "INTEGER[] NOT NULL", "m": "MAP(VARCHAR, INTEGER) NOT NULL", "s": "STRUCT(a INTEGER) NOT NULL"}
    with store.open() as lake:
        table = lake.create_table("strict", {"id": "INTEGER", **types})
        run_plain(lake, f"CALL set_option('data_inlining_row_limit', {limit})")
        run_plain(lake, "INSERT INTO strict SELECT i, [i], MAP {'a': i}, {'a': i} FROM range(4) AS r(i)")
        lake.refresh()
        before = rows(lake, "FROM strict ORDER BY id")
        for write in (
            lambda: table.update({column: None}, where="id = 1"),
            lambda: table.update({column: None, "id": nw.col("id") + 1}, where="id = 1"),
            lambda: lake.execute(f"UPDATE strict SET {column} = NULL WHERE id = 1"),
            lambda: lake.execute(f"UPDATE strict SET {column} = if(id = 5, {column}, NULL)"),
            lambda: lake.execute(f"INSERT INTO strict SELECT * REPLACE (NULL AS {column}) FROM strict"),
            lambda: lake.execute("INSERT INTO strict (id) VALUES (9)"),
        ):
            with pytest.raises(SchemaError, match="is NOT NULL, but the statement writes a NULL there"):
                write()
            assert rows(lake, "FROM strict ORDER BY id") == before
        lake.execute(f"UPDATE strict SET {column} = {column} WHERE id = 1")
        table.update({"id": 10}, where="id = 1")
        lake.execute("INSERT INTO strict SELECT * FROM strict WHERE id = 10")
        assert len(rows(lake, "FROM strict WHERE id = 10")) == 2
