"""Clauses of a merge: the action for each row of the join, and the value of each column."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import pyarrow as pa
import pytest

from lakeconf.catalog.tables import Column
from lakeconf.engines.engine import ROW_ID
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
