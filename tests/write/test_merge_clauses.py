"""Clauses of a merge, and partition keys as expressions."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.catalog.tables import Column, PartitionField, TableInfo
from lakeconf.connection.connection import connect
from lakeconf.errors import SchemaError
from lakeconf.write.row_changes import check_recurring, partitions_predicate

COLUMNS = tuple(
    Column(field_id, name, "timestamp", nullable=True, initial_default=None)
    for field_id, name in ((1, "at"), (2, 'o"dd'), (3, "late"))
)


def table(*keys: tuple[int, str]) -> TableInfo:
    fields = tuple(PartitionField(index, field_id, transform) for index, (field_id, transform) in enumerate(keys))
    return TableInfo(1, "raw", "events", COLUMNS, "/data/", 1, fields)


@pytest.mark.parametrize(
    "keys",
    [
        [],
        [(1, "year")],
        [(1, "identity")],
        [(1, "bucket(4)")],
        [(1, "year"), (1, "month")],
        [(1, "day"), (1, "month"), (1, "year")],
        [(1, "year"), (1, "month"), (1, "day"), (1, "hour")],
        [(1, "identity"), (1, "month")],
    ],
)
def test_key_with_all_larger_parts_does_not_recur(keys: list[tuple[int, str]]) -> None:
    check_recurring(table(*keys))


@pytest.mark.parametrize(
    ("keys", "key", "missing", "wanted"),
    [
        ([(1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
        ([(1, "year"), (1, "day")], "day(at)", "month", '"year(at)", "month(at)", "day(at)"'),
        ([(1, "month"), (1, "day")], "day(at)", "year", '"year(at)", "month(at)", "day(at)"'),
        ([(1, "year"), (1, "month"), (1, "hour")], "hour(at)", "day", '"year(at)", "month(at)", "day(at)", "hour(at)"'),
        ([(3, "year"), (1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
        ([(3, "identity"), (1, "month")], "month(at)", "year", '"year(at)", "month(at)"'),
    ],
)
def test_key_that_recurs_is_refused(keys: list[tuple[int, str]], key: str, missing: str, wanted: str) -> None:
    with pytest.raises(SchemaError) as refused:
        check_recurring(table(*keys))
    assert refused.value.message == (
        f"{key} recurs: a partition of raw.events contains rows of every {missing}, and all of them would be replaced"
    )
    assert refused.value.hint == (
        f"use overwrite(frame, where=…), partition the table by [{wanted}], or pass recurring=True"
    )


def predicate(rows: str, *keys: tuple[int, str], type_: str = "timestamp") -> str | None:
    """The SQL of the predicate for the partitions of rows with the columns `at` and `o"dd`."""
    info = table(*keys)
    info = replace(info, columns=tuple(replace(column, type=type_) for column in info.columns))
    with connect() as connection:
        cast = duckdb_name(type_)
        source = f'SELECT CAST(a AS {cast}) AS at, CAST(b AS {cast}) AS "o""dd" FROM (VALUES {rows}) AS v(a, b)'
        found = partitions_predicate(connection, info, source)
    return None if found is None else to_duckdb_sql(found)


DAY = "CAST('2024-02-29 00:00:00' AS TIMESTAMP)"
NEXT = "CAST('2024-03-01 00:00:00' AS TIMESTAMP)"


def test_partitions_of_rows_become_a_predicate() -> None:
    rows = "('2024-02-29 12:00:00', NULL), ('2024-02-29 13:00:00', NULL)"
    parts = [(1, "day"), (1, "year"), (1, "month")]
    day = f'(("at" >= {DAY}) AND ("at" < {NEXT}))'
    assert predicate(rows, *parts) == f"({day})"
    both = f'((("at" >= {DAY}) AND ("at" < {NEXT}) AND ("o""dd" IS NULL)))'
    assert predicate(rows, *parts, (2, "identity")) == both
    year = predicate(rows, (1, "year"))
    assert year is not None
    assert "CAST('2024-01-01 00:00:00' AS TIMESTAMP)" in year
    assert "CAST('2025-01-01 00:00:00' AS TIMESTAMP)" in year
    assert predicate("('it''s', '')", (1, "identity"), type_="varchar") == "((\"at\" = CAST('it''s' AS VARCHAR)))"
    hours = predicate(rows, *parts, (1, "hour"))
    assert hours is not None
    assert hours.count(" OR ") == 1


@pytest.mark.parametrize(
    ("rows", "keys", "type_"),
    [
        ("('2024-02-29', NULL)", [(1, "month")], "timestamp"),
        ("('2024-02-29', NULL)", [(1, "identity"), (1, "month")], "timestamp"),
        ("('2024-02-29', NULL)", [(1, "year"), (2, "bucket(3)")], "timestamp"),
        ("(NULL, NULL)", [(1, "year")], "timestamp"),
        ("('infinity', NULL)", [(1, "year")], "timestamp"),
        ("('infinity', NULL)", [(1, "identity")], "timestamp"),
        ("('9999-02-01', NULL)", [(1, "year")], "date"),
        ("('0044-03-15 (BC)', NULL)", [(1, "identity")], "date"),
        ("('-0.0', NULL)", [(1, "identity")], "float64"),
        ("('2024-02-29', NULL)", [(1, "identity")], "timestamptz"),
    ],
)
def test_partitions_that_a_condition_cannot_name_have_no_predicate(
    rows: str, keys: list[tuple[int, str]], type_: str
) -> None:
    assert predicate(rows, *keys, type_=type_) is None


def test_only_few_partitions_have_a_predicate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakeconf.write.row_changes._MOST_PARTITIONS", 4)
    for count, alternatives in ((4, 3), (5, None)):
        rows = ", ".join(f"({number}, NULL)" for number in range(count))
        found = predicate(rows, (1, "identity"), type_="int32")
        assert (None if found is None else found.count(" OR ")) == alternatives
