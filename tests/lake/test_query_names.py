"""Tables and snapshots that a query names."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from promotions import stores
from sqlglot import exp

from lakeconf.errors import LakeconfError, QueryError, SnapshotNotFoundError, UnsupportedError
from lakeconf.lake.query_names import QueryText, named_lakes, snapshot_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf import Lake, Store
    from lakeconf.lake.query_names import NamedTable


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as found:
        found.create_table("t", {"id": "INTEGER"})
        yield found


def tables(lake: Lake, text: str, dialect: str = "duckdb") -> list[NamedTable]:
    return QueryText.parsed(text, dialect, "elsewhere").tables(named_lakes(lake._scope, []))


def reading(lake: Lake, text: str, dialect: str = "duckdb") -> str:
    """The query with the views `v0`, `v1`, … in place of its tables."""
    query = QueryText.parsed(text, dialect, "elsewhere")
    found = query.tables(named_lakes(lake._scope, []))
    return query.reading([(table, f"v{number}") for number, table in enumerate(found)])


@pytest.mark.parametrize("text", ["", "SELECT 1; SELECT 2", "DELETE FROM t", "CREATE TABLE t AS SELECT 1"])
@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
def test_other_text_than_a_query_is_refused(text: str, dialect: str) -> None:
    with pytest.raises(QueryError, match="not a single query"):
        QueryText.parsed(text, dialect, "elsewhere")


@pytest.mark.parametrize("text", ["SELECT (", "SELECT 'open", "FROM t AT (VERSION => 1", "FROM t AT (VERSION =>"])
def test_text_that_cannot_be_parsed_gets_the_hint(text: str) -> None:
    with pytest.raises(QueryError, match="cannot be parsed") as raised:
        QueryText.parsed(text, "duckdb", "run it elsewhere")
    assert raised.value.hint == "run it elsewhere"


def test_the_dialect_decides_about_quotes() -> None:
    for dialect, text in (("duckdb", 'FROM "a b"'), ("spark", "SELECT * FROM `a b`")):
        (table,) = QueryText.parsed(text, dialect, "").tree.find_all(exp.Table)
        assert table.name == "a b"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("t", "main.t"), ("raw.t", "raw.t"), ("DEV.raw.t", "raw.t"), ('dev.raw."a.b"', 'raw."a.b"')],
)
def test_name_of_a_table(name: str, expected: str, lake: Lake) -> None:
    assert [table.name for table in tables(lake, f"FROM {name}")] == [expected]


def test_table_of_another_database_is_refused(lake: Lake) -> None:
    with pytest.raises(UnsupportedError, match="'prod'; its lakes are dev") as raised:
        tables(lake, "FROM prod.raw.t")
    assert raised.value.hint == "elsewhere"


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("SELECT a = b IS NOT NULL FROM t;", 'SELECT a = b IS NOT NULL FROM v0 AS "t"'),
        ("FROM (FROM t) JOIN raw.u AS k USING (id)", 'FROM (FROM v0 AS "t") JOIN v1 AS k USING (id)'),
        ('FROM dev."T".t -- FROM t\n, t', 'FROM v0 AS "t" -- FROM t\n, v1 AS "t"'),
        ("FROM t AS k AT (VERSION => 1)", "FROM v0 AS k "),
        ("FROM t AT (VERSION => 0), k : t AT (VERSION => 1)", 'FROM v0 AS "t" , k : v1 '),
        ("FROM t k (a, b) AT (TIMESTAMP => TIMESTAMP WITH TIME ZONE '9999-01-01 00:00:00+00:00')", "FROM v0 k (a, b) "),
        ("WITH t AS (SELECT 1) FROM t, main.t, range(3)", 'WITH t AS (SELECT 1) FROM t, v0 AS "t", range(3)'),
        ("SELECT id AT TIME ZONE 'UTC', at(3) FROM t", "SELECT id AT TIME ZONE 'UTC', at(3) FROM v0 AS \"t\""),
    ],
)
def test_only_the_names_of_tables_change(text: str, changed: str, lake: Lake) -> None:
    assert reading(lake, text).split() == changed.split()


def test_each_table_has_its_own_snapshot(lake: Lake) -> None:
    last = lake.snapshot_id
    found = tables(lake, "FROM t AS a AT (VERSION => 0), t AS b, (FROM t AT (VERSION => '1')) AS c, t")
    assert [table.scope.snapshot_id for table in found] == [0, last, 1, last]
    found = tables(lake, "SELECT * FROM t VERSION AS OF 0 a, t FOR VERSION AS OF 1, t", "spark")
    assert [table.scope.snapshot_id for table in found] == [0, 1, last]


@pytest.mark.parametrize(
    "text",
    [
        "FROM t AT (VERSION => 1 + 1)",
        "FROM t AT (VERSION => -1)",
        "FROM t AT (VERSION => getvariable('x'))",
        "FROM t AT (TIMESTAMP => now())",
        "FROM t AT (TIMESTAMP => TIMESTAMP '2024-05-17 10:00:00+00:00')",
        "FROM (FROM t) AT (VERSION => 1)",
        "FROM range(3) AT (VERSION => 1), t",
        "FROM t AS a JOIN t AS b AT (VERSION => 1) AT (VERSION => 2) USING (id)",
        "WITH c AS (FROM t) FROM c AT (VERSION => 1)",
        "FROM t AS (a AT (VERSION => 1))",
    ],
)
def test_snapshots_that_are_not_clear_are_refused(text: str, lake: Lake) -> None:
    with pytest.raises((UnsupportedError, QueryError)):
        tables(lake, text)


def test_later_commits_move_no_lake_of_a_query(lake: Lake, tmp_path: Path) -> None:
    with stores(tmp_path, "staging")["staging"].open() as other:
        named = named_lakes(lake._scope, [other._scope])
        before = {name: scope.snapshot_id for name, scope in named.items()}
        lake.create_table("u", {"id": "INTEGER"})
        other.create_table("u", {"id": "INTEGER"})
        assert {name: scope.snapshot_id for name, scope in named.items()} == before
        assert list(named) == ["dev", "staging"]
        with pytest.raises(LakeconfError, match="two lakes"):
            named_lakes(other._scope, [lake._scope, other.at(version=0)._scope])


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
