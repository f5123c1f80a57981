"""Statements that equal a write of the frame API become that write, so that Spark's executors write the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from lake_fixtures import lake_with

from lakeconf.errors import CommitConflictError, SchemaError, UnsupportedError
from lakeconf.write import execute, statement_rewrite

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

STOCK = pa.table({"id": [1, 2], "name": ["a", "b"]})
lake = lake_with("stock", STOCK)

# Whether each statement is rewritten on DuckDB and on Spark.
STATEMENTS = [
    ("DELETE FROM stock WHERE id = 1", True, True),
    ("DELETE FROM stock WHERE id % 2 = 1", False, False),
    ("UPDATE stock SET id = 3", False, False),
    ("INSERT INTO stock VALUES (3, 'c')", False, False),
    ("INSERT INTO stock SELECT * FROM stock", False, True),
    ("MERGE INTO stock USING d ON stock.id = d.id WHEN MATCHED THEN DELETE", False, True),
    ("MERGE INTO stock USING d ON stock.id = d.id WHEN MATCHED AND d.id = 1 THEN DELETE", False, False),
]


@pytest.mark.parametrize(("statement", "on_duckdb", "on_spark"), STATEMENTS)
def test_rewritten_statements(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, statement: str, on_duckdb: bool, on_spark: bool
) -> None:
    answers = []

    def spied(execution: statement_rewrite.Execution, name: str) -> bool:
        answers.append(original(execution, name))
        return answers[-1]

    original = statement_rewrite.rewritten
    monkeypatch.setattr(execute, "rewritten", spied)
    lake.execute(statement, **({"d": STOCK} if " d " in statement else {}))
    assert answers == [on_spark if "spark" in repr(lake) else on_duckdb]


@pytest.fixture
def on_spark(store: Store, spark: SparkSession) -> Iterator[Lake]:
    with store.open(spark) as opened:
        opened.create_table("stock", STOCK).append(STOCK)
        yield opened


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("SELECT x.a, NULL FROM two AS x(b, a)", [10, 20]),
        ("SELECT a, NULL FROM two AT (VERSION => {before})", []),
        ("SELECT two.a, NULL FROM (two JOIN stock ON a = id AND name = 'a')", [1]),
        ("WITH two AS (SELECT * FROM two WHERE a = 1) SELECT a, NULL FROM two", [1]),
        ("SELECT a, NULL FROM dev.two WHERE a = 1", [1]),
        ("SELECT CAST(b / 4 AS BIGINT), NULL FROM two", [2, 5]),
        ("SELECT 1::BIGINT << 40, NULL FROM two WHERE a = 1", [1 << 40]),
        ("SELECT b, NULL FROM two WHERE 'a_c' LIKE 'a\\_c'", []),
        ("SELECT * FROM (SELECT b, a FROM two) AS x JOIN (SELECT a FROM two) AS y USING (a)", [10, 20]),
    ],
)
def test_query_returns_the_rows_of_duckdb(on_spark: Lake, query: str, expected: list[int]) -> None:
    two = on_spark.create_table("two", {"a": "BIGINT", "b": "BIGINT"})
    before = on_spark.snapshot_id
    two.append(pa.table({"a": [1, 2], "b": [10, 20]}))
    on_spark.create_table("copies", {"id": "BIGINT", "name": "VARCHAR"})
    on_spark.execute(f"INSERT INTO copies {query.format(before=before)}")
    copied = on_spark.table("copies").scan().collect("pyarrow").to_native()
    assert sorted(copied["id"].to_pylist()) == expected


def test_query_does_not_read_tables_whose_columns_its_transaction_has_changed(on_spark: Lake) -> None:
    on_spark.create_table("copies", STOCK)
    with on_spark.transaction() as tx:
        tx.table("stock").evolve(rename={"name": "title"})
        with pytest.raises(UnsupportedError, match=r"already changed main\.stock"):
            tx.execute("INSERT INTO copies SELECT * FROM stock")


def test_values_must_fit_their_columns(on_spark: Lake) -> None:
    with pytest.raises(SchemaError, match="'name' is BIGINT"):
        on_spark.execute("INSERT INTO stock SELECT id, id FROM stock")


def test_functions_are_not_read_by_spark(on_spark: Lake) -> None:
    with pytest.raises(UnsupportedError, match="reads files or functions"):
        on_spark.execute("INSERT INTO stock SELECT i, 'n' FROM range(3) AS r(i)")


def test_query_does_not_read_tables_that_its_transaction_has_changed(on_spark: Lake) -> None:
    with on_spark.transaction() as tx:
        tx.execute("DELETE FROM stock WHERE id = 1")
        with pytest.raises(UnsupportedError, match=r"already changed main\.stock"):
            tx.execute("INSERT INTO stock SELECT * FROM stock")
        tx.execute("MERGE INTO stock USING d ON stock.id = d.id WHEN MATCHED THEN UPDATE", d=STOCK)
    assert on_spark.table("stock").scan().collect("pyarrow").to_native().to_pylist() == [{"id": 2, "name": "b"}]


def test_change_of_a_table_that_a_query_has_read_is_a_conflict(on_spark: Lake, store: Store) -> None:
    on_spark.create_table("copies", STOCK)
    with store.open() as second:
        second.table("stock").append(STOCK)
    with pytest.raises(CommitConflictError, match="stock"):
        on_spark.execute("INSERT INTO copies SELECT * FROM stock")
    on_spark.refresh()
    on_spark.execute("INSERT INTO copies SELECT * FROM stock")
    assert on_spark.table("copies").scan().collect("pyarrow").shape == (4, 2)
