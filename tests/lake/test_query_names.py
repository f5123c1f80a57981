"""Tables and snapshots that a query for Spark names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from sqlglot import exp

from lakeconf.errors import QueryError, SnapshotNotFoundError, UnsupportedError
from lakeconf.lake.query_names import single_query, snapshot_at, table_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as found:
        found.create_table("t", {"id": "INTEGER"})
        yield found


@pytest.mark.parametrize("text", ["", "SELECT 1; SELECT 2", "DELETE FROM t", "CREATE TABLE t AS SELECT 1"])
@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
def test_other_text_than_a_query_is_refused(text: str, dialect: str) -> None:
    with pytest.raises(QueryError, match="not a single query"):
        single_query(text, dialect, "elsewhere")


def test_text_that_cannot_be_parsed_gets_the_hint() -> None:
    with pytest.raises(QueryError, match="cannot be parsed") as raised:
        single_query("SELECT (", "duckdb", "run it elsewhere")
    assert raised.value.hint == "run it elsewhere"


def test_a_semicolon_after_the_query_is_no_second_statement() -> None:
    assert single_query("FROM t;", "duckdb", "").find(exp.Table) == exp.to_table("t")


def test_the_dialect_decides_about_quotes() -> None:
    for dialect, text in (("duckdb", 'FROM "a b"'), ("spark", "SELECT * FROM `a b`")):
        (table,) = single_query(text, dialect, "").find_all(exp.Table)
        assert table.name == "a b"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("t", "main.t"), ("raw.t", "raw.t"), ("DEV.raw.t", "raw.t"), ('dev.raw."a.b"', 'raw."a.b"')],
)
def test_name_of_a_table(name: str, expected: str, lake: Lake) -> None:
    assert table_name(lake._scope, exp.to_table(name, dialect="duckdb"), "") == expected


def test_table_of_another_database_is_refused(lake: Lake) -> None:
    with pytest.raises(UnsupportedError, match="'prod'") as raised:
        table_name(lake._scope, exp.to_table("prod.raw.t"), "name tables of this lake")
    assert raised.value.hint == "name tables of this lake"


def test_snapshots_by_number_and_time(lake: Lake) -> None:
    reader = lake._session.reader
    first, last = lake.snapshots()
    assert snapshot_at(reader, "version", "0") == first.snapshot_id == 0
    assert snapshot_at(reader, "VERSION", str(last.snapshot_id)) == last.snapshot_id
    assert snapshot_at(reader, "timestamp", last.time.isoformat()) == last.snapshot_id
    assert snapshot_at(reader, "TIMESTAMP", (last.time + timedelta(days=1)).isoformat()) == last.snapshot_id
    for kind, value in (("VERSION", "99"), ("TIMESTAMP", "2001-01-01 00:00:00+00:00")):
        with pytest.raises(SnapshotNotFoundError):
            snapshot_at(reader, kind, value)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("VERSION", "-1"),
        ("VERSION", "1.5"),
        ("VERSION", "2024-05-17 10:00:00+00:00"),
        ("TIMESTAMP", "2024-05-17 10:00:00"),
        ("TIMESTAMP", "yesterday"),
        ("TAG", "1"),
    ],
)
def test_other_values_name_no_snapshot(kind: str, value: str, lake: Lake) -> None:
    assert snapshot_at(lake._session.reader, kind, value) is None
