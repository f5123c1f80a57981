"""Tables and snapshots that a query in Spark's SQL names; Spark is not needed to find them."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
import sqlglot

from lakeconf.catalog.sql_references import replaced
from lakeconf.errors import QueryError, SnapshotNotFoundError, UnsupportedError
from lakeconf.lake.spark_sql import SparkText, parsed, snapshot_at, table_references

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store

UNKNOWN = "SELECT * FROM t TABLESAMPLE (1 PERCENT); COMMENT ON CATALOG x IS 'y'"


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as found:
        found.create_table("t", {"id": "INTEGER"})
        yield found


@pytest.mark.parametrize("text", ["", "SELECT 1; SELECT 2", "DELETE FROM t", "CREATE TABLE t AS SELECT 1"])
def test_other_text_than_a_query_is_refused(text: str) -> None:
    with pytest.raises(QueryError, match="not a single query"):
        parsed(text, "spark")


@pytest.mark.parametrize("text", ["SELECT (", "SELECT 'open"])
def test_text_that_cannot_be_parsed_gets_a_hint(text: str) -> None:
    with pytest.raises(QueryError, match="cannot be parsed") as raised:
        parsed(text, "spark")
    assert raised.value.hint == "run it with spark.sql, and name only tables of this lake"


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("WITH c AS (SELECT * FROM a) SELECT * FROM C, raw.c, range(3)", ["a", "c"]),
        ("SELECT * FROM a, (WITH a AS (SELECT 1) SELECT * FROM a)", ["a"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM b", ["b"]),
        ("WITH RECURSIVE a AS (SELECT * FROM a UNION SELECT 2 UNION (SELECT * FROM a)) SELECT * FROM a", ["a"]),
    ],
)
def test_tables_are_found_and_ctes_are_not(sql: str, names: list[str]) -> None:
    assert sorted(table.name for table in table_references(parsed(sql, "spark"))) == names


@pytest.mark.parametrize(
    ("text", "changed", "names"),
    [
        ("SELECT id FROM t; -- the end", "SELECT id FROM v; -- the end", ["main.t"]),
        ("SELECT * FROM DEV.raw.`a.b` AS k, `T`", "SELECT * FROM v AS k, v", ['raw."a.b"', "main.T"]),
        ("SELECT * FROM t VERSION AS OF 0 a, t", "SELECT * FROM v a, v", ["main.t", "main.t"]),
        ("SELECT * FROM t\nFOR version as of '1'", "SELECT * FROM v", ["main.t"]),
        ("SELECT * FROM t TIMESTAMP AS OF '9999-01-01 00:00:00+00:00'", "SELECT * FROM v", ["main.t"]),
    ],
)
def test_only_the_names_of_tables_change(text: str, changed: str, names: list[str], lake: Lake) -> None:
    found = SparkText(text, lake._scope).places()
    assert [place.name for place in found] == names
    assert replaced(text, {place.span: "v" for place in found}) == changed


def test_each_table_has_its_own_snapshot(lake: Lake) -> None:
    found = SparkText("SELECT * FROM t VERSION AS OF 0 a, t FOR VERSION AS OF 1, t", lake._scope).places()
    assert [place.scope.snapshot_id for place in found] == [0, 1, lake.snapshot_id]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM prod.raw.t",
        "SELECT raw.t.id FROM raw.t",
        "SELECT * FROM t VERSION AS OF 1 + 1",
        "SELECT * FROM t VERSION AS OF 'x'",
        "SELECT * FROM t TIMESTAMP AS OF now()",
        "SELECT * FROM t TIMESTAMP AS OF '2024-05-17 10:00:00'",
    ],
)
def test_what_is_not_clear_is_refused(text: str, lake: Lake) -> None:
    with pytest.raises((UnsupportedError, QueryError)):
        SparkText(text, lake._scope).places()


def test_snapshots_by_number_and_time(lake: Lake) -> None:
    reader = lake._session.reader
    first, last = lake.snapshots()
    assert snapshot_at(reader, "version", "0") == first.snapshot_id == 0
    assert snapshot_at(reader, "VERSION", str(last.snapshot_id)) == last.snapshot_id
    assert snapshot_at(reader, "TIMESTAMP", (last.time + timedelta(days=1)).isoformat()) == last.snapshot_id
    for kind, value in (("VERSION", "99"), ("TIMESTAMP", "2001-01-01 00:00:00+00:00")):
        with pytest.raises(SnapshotNotFoundError):
            snapshot_at(reader, kind, value)


def test_the_parser_is_quiet_in_its_own_thread(caplog: pytest.LogCaptureFixture) -> None:
    filters = list(logging.getLogger("sqlglot").filters)
    with pytest.raises(QueryError):
        parsed(UNKNOWN, "duckdb")
    assert [record for record in caplog.records if record.name == "sqlglot"] == []
    assert logging.getLogger("sqlglot").filters == filters
    other = threading.Thread(target=sqlglot.parse, args=(UNKNOWN,), kwargs={"dialect": "duckdb"})
    other.start()
    other.join()
