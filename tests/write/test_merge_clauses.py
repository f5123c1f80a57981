"""Clauses of a merge, and partition keys as expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest

from lakeconf.catalog.column_types import duckdb_name
from lakeconf.catalog.pruning.predicates import to_duckdb_sql
from lakeconf.catalog.tables import Column, PartitionField, TableInfo
from lakeconf.connection.connection import connect
from lakeconf.engines.engine import ROW_ID
from lakeconf.errors import SchemaError
from lakeconf.write.merge_clauses import (
    DELETE,
    IN_SOURCE,
    INSERT,
    NOTHING,
    UPDATE,
    Clauses,
    Delete,
    Insert,
    Update,
    action,
    value,
)
from lakeconf.write.row_changes import check_recurring, partition_keys, partitions_predicate

KIND = Column(2, "Kind", "varchar", nullable=True, initial_default=None)
LARGE = nw.col("source_n") > 5
# A row that matches, a row of the frame, a row of the table; each with a small, a large and an unknown `source_n`.
JOIN = pa.table(
    {
        IN_SOURCE: [True, True, True, True, True, True, None, None, None],
        ROW_ID: [1, 2, 3, None, None, None, 4, 5, 6],
        "source_n": [1, 9, None, 1, 9, None, 1, 9, None],
        "source_Kind": ["new", "new", None, "new", "new", None, None, None, None],
        "target_Kind": ["old", "old", "old", None, None, None, "old", "old", None],
    }
)


def clauses(*matched: Update | Delete, insert: Insert | None = None, missing: Delete | None = None) -> Clauses:
    return Clauses(("id",), matched, insert, missing)


def evaluated(expression: nw.Expr) -> list[Any]:
    found: list[Any] = nw.from_native(JOIN).with_columns(found=expression)["found"].to_list()
    return found


@pytest.mark.parametrize(
    ("merge", "matched", "only_source", "only_target"),
    [
        (clauses(), [NOTHING] * 3, [NOTHING] * 3, [NOTHING] * 3),
        (clauses(Update()), [UPDATE] * 3, [NOTHING] * 3, [NOTHING] * 3),
        (clauses(Delete()), [DELETE] * 3, [NOTHING] * 3, [NOTHING] * 3),
        (clauses(Update(when=LARGE)), [NOTHING, UPDATE, NOTHING], [NOTHING] * 3, [NOTHING] * 3),
        (clauses(Delete(when=LARGE), Update()), [UPDATE, DELETE, UPDATE], [NOTHING] * 3, [NOTHING] * 3),
        (clauses(Update(), Delete(when=LARGE)), [UPDATE] * 3, [NOTHING] * 3, [NOTHING] * 3),
        (clauses(insert=Insert()), [NOTHING] * 3, [INSERT] * 3, [NOTHING] * 3),
        (clauses(insert=Insert(when=LARGE)), [NOTHING] * 3, [NOTHING, INSERT, NOTHING], [NOTHING] * 3),
        (clauses(missing=Delete()), [NOTHING] * 3, [NOTHING] * 3, [DELETE] * 3),
        (clauses(missing=Delete(LARGE)), [NOTHING] * 3, [NOTHING] * 3, [NOTHING, DELETE, NOTHING]),
        (clauses(Update(), insert=Insert(), missing=Delete()), [UPDATE] * 3, [INSERT] * 3, [DELETE] * 3),
    ],
)
def test_action_is_that_of_the_first_clause_whose_condition_is_true(
    merge: Clauses, matched: list[str], only_source: list[str], only_target: list[str]
) -> None:
    found = evaluated(action(merge))
    assert (found[:3], found[3:6], found[6:]) == (matched, only_source, only_target)


def test_update_without_values_takes_the_value_of_the_frame() -> None:
    assert evaluated(value(KIND, [KIND], clauses(Update())))[:6] == ["new", "new", None, "new", "new", None]


def test_column_that_the_frame_lacks_keeps_its_value() -> None:
    assert evaluated(value(KIND, [], clauses(Update())))[:3] == ["old"] * 3
    assert evaluated(value(KIND, [], clauses(Update(), insert=Insert())))[3:6] == [None] * 3


def test_update_with_values_sets_only_these_columns() -> None:
    constant = clauses(Update({"KIND": "set"}))
    assert evaluated(value(KIND, [KIND], constant)) == ["set"] * 3 + ["new", "new", None] + [None] * 3
    assert evaluated(value(KIND, [KIND], clauses(Update({"kind": None}))))[:3] == [None] * 3
    computed = clauses(Update({"kind": nw.concat_str(nw.col("target_Kind"), nw.lit("!"))}))
    assert evaluated(value(KIND, [KIND], computed))[:3] == ["old!"] * 3
    assert evaluated(value(KIND, [KIND], clauses(Update({"other": 1}))))[:6] == ["old"] * 3 + ["new", "new", None]


def test_inserted_row_has_the_default_of_a_column_without_a_value() -> None:
    default, whole = nw.lit("default"), clauses(Update(), insert=Insert())
    assert evaluated(value(KIND, [KIND], whole, default))[3:6] == ["new", "new", None]
    assert evaluated(value(KIND, [], whole, default)) == ["old"] * 3 + ["default"] * 3 + ["default"] * 3
    named = clauses(Update(), insert=Insert({"KIND": nw.concat_str(nw.col("source_Kind"), nw.lit("!"))}))
    assert evaluated(value(KIND, [KIND], named, default))[3:6] == ["new!", "new!", None]
    others = clauses(Update(), insert=Insert({"other": 1}))
    assert evaluated(value(KIND, [KIND], others, default))[:6] == ["new", "new", None] + ["default"] * 3
    assert evaluated(value(KIND, [KIND], others))[3:6] == [None] * 3


def test_value_is_that_of_the_first_clause_whose_condition_is_true() -> None:
    several = clauses(Update({"Kind": "large"}, when=LARGE), Update({"Kind": "rest"}))
    assert evaluated(value(KIND, [KIND], several))[:3] == ["rest", "large", "rest"]
    one = clauses(Update({"Kind": "large"}, when=LARGE))
    assert evaluated(value(KIND, [KIND], one))[:6] == ["new", "large", None, "new", "new", None]
    assert evaluated(value(KIND, [], one))[:3] == ["old", "large", "old"]


def test_condition_of_a_clause_does_not_apply_to_rows_that_do_not_match() -> None:
    merge = clauses(Update({"Kind": "set"}, when=LARGE), insert=Insert())
    assert evaluated(value(KIND, [KIND], merge))[3:6] == ["new", "new", None]


@pytest.mark.parametrize(
    ("merge", "expected"),
    [
        (clauses(Delete()), True),
        (clauses(Delete(when=LARGE)), False),
        (clauses(Update()), False),
        (clauses(), False),
        (clauses(Delete(), Delete()), False),
        (clauses(Delete(), insert=Insert()), False),
        (clauses(Delete(), missing=Delete()), False),
    ],
)
def test_merge_only_deletes_if_that_is_its_only_clause(merge: Clauses, expected: bool) -> None:
    assert merge.deletes_matches is expected


COLUMNS = tuple(
    Column(field_id, name, "timestamp", nullable=True, initial_default=None)
    for field_id, name in ((1, "at"), (2, 'o"dd'), (3, "late"))
)


def table(*keys: tuple[int, str]) -> TableInfo:
    fields = tuple(PartitionField(index, field_id, transform) for index, (field_id, transform) in enumerate(keys))
    return TableInfo(1, "raw", "events", COLUMNS, "/data/", 1, fields)


def test_keys_are_expressions_in_their_order() -> None:
    keys = partition_keys(table((2, "identity"), (1, "year"), (1, "hour"), (2, "bucket(8)")))
    assert keys == ['"o""dd"', 'year("at")', 'hour("at")', '(murmur3_32("o""dd") & 2147483647) % 8']
    assert partition_keys(table()) == []


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
        (
            [(1, "year"), (1, "month"), (1, "hour")],
            "hour(at)",
            "day",
            '"year(at)", "month(at)", "day(at)", "hour(at)"',
        ),
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
        (", ".join(f"({number}, NULL)" for number in range(401)), [(1, "identity")], "int32"),
    ],
)
def test_partitions_that_a_condition_cannot_name_have_no_predicate(
    rows: str, keys: list[tuple[int, str]], type_: str
) -> None:
    assert predicate(rows, *keys, type_=type_) is None


def test_few_hundred_partitions_have_a_predicate() -> None:
    rows = ", ".join(f"({number}, NULL)" for number in range(400))
    found = predicate(rows, (1, "identity"), type_="int32")
    assert found is not None
    assert found.count(" OR ") == 399
