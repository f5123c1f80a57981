"""Inlined rows of a change feed: with the columns of the end of the range, and never fewer than planned."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.changes import (
    BEGIN,
    END,
    ROW_ID,
    changed_inlined_rows,
    plan_changes,
    plan_changes_with_inlined_rows,
)
from lakeconf.errors import CatalogError, UnsupportedError

if TYPE_CHECKING:
    from catalog_lake import Lake

FLUSH = "CALL ducklake_flush_inlined_data('lake')"


def changed(source: Lake, since: int, until: int, name: str = "t") -> list[dict[str, object]]:
    rows = plan_changes_with_inlined_rows(source.reader, name, since, until)[1]
    return sorted(rows.to_pylist(), key=lambda row: (row[ROW_ID], row[BEGIN]))


def test_rows_have_their_snapshots_and_the_columns_of_the_end(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)", "DELETE FROM lake.t WHERE a = 1")
    usual.run("ALTER TABLE lake.t ADD COLUMN \"b c\" VARCHAR DEFAULT 'x'", "INSERT INTO lake.t VALUES (3, NULL)")
    first = {"a": 1, ROW_ID: 0, BEGIN: 2, END: 3}
    assert changed(usual, 2, 3) == [first, {"a": 2, ROW_ID: 1, BEGIN: 2, END: None}]
    assert changed(usual, 3, 3) == [first]
    assert changed(usual, 3, 5) == [first | {"b c": "x"}, {"a": 3, "b c": None, ROW_ID: 2, BEGIN: 5, END: None}]


def test_updated_row_occurs_once_for_each_version(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)", "UPDATE lake.t SET a = 2")
    assert changed(usual, 2, 3) == [
        {"a": 1, ROW_ID: 0, BEGIN: 2, END: 3},
        {"a": 2, ROW_ID: 0, BEGIN: 3, END: None},
    ]


def test_rows_in_files_are_not_included(usual: Lake) -> None:
    usual.run('CREATE SCHEMA lake."odd schema"', 'CREATE TABLE lake."odd schema"."it\'s" (a INTEGER)')
    name = 'lake."odd schema"."it\'s"'
    usual.run(f"INSERT INTO {name} SELECT * FROM range(100)", f"INSERT INTO {name} VALUES (5)")
    found = changed(usual, 3, 4, '"odd schema"."it\'s"')
    assert found == [{"a": 5, ROW_ID: 100, BEGIN: 4, END: None}]
    assert changed(usual, 3, 3, '"odd schema"."it\'s"') == []


def test_range_without_inlined_rows_has_only_the_columns_of_the_feed(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (filename VARIANT)")
    plan, rows = plan_changes_with_inlined_rows(usual.reader, "t", 1, 1)
    assert (plan.inlined_rows, rows.num_rows, rows.column_names) == ((), 0, [ROW_ID, BEGIN, END])


def test_flush_after_planning_is_a_retryable_error(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1), (2)")
    plan = plan_changes(usual.reader, "t", 2, 2)
    usual.run(FLUSH)
    with pytest.raises(CatalogError, match="the plan has 2 inlined rows, but the catalog has 0") as moved:
        changed_inlined_rows(usual.reader, plan)
    assert moved.value.retryable
    again, rows = plan_changes_with_inlined_rows(usual.reader, "t", 2, 2)
    assert (len(again.inserted.files), rows.num_rows) == (1, 0)


def test_plan_is_repeated_after_a_flush(usual: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    usual.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    made = []

    def planned(*arguments: object) -> object:
        made.append(plan_changes(*arguments))  # type: ignore[arg-type]
        if len(made) == 1:
            usual.run(FLUSH)
        return made[-1]

    monkeypatch.setattr("lakeconf.catalog.changes.plan_changes", planned)
    plan, rows = plan_changes_with_inlined_rows(usual.reader, "t", 2, 2)
    assert (len(made), plan is made[1], rows.num_rows) == (2, True, 0)


@pytest.mark.parametrize("name", ["filename", "FileName"])
def test_column_that_hides_the_virtual_one_needs_a_flush(usual: Lake, name: str) -> None:
    usual.run(f"CREATE TABLE lake.t (a INTEGER, {name} INTEGER)", "INSERT INTO lake.t VALUES (1, 2)")
    with pytest.raises(UnsupportedError) as refused:
        changed(usual, 2, 2)
    assert refused.value.message == (
        f"the table main.t has inlined rows, but its column {name!r} hides DuckDB's virtual column that identifies them"
    )
    assert refused.value.hint == f"move them to a file: {FLUSH}"
    usual.run(FLUSH)
    assert changed(usual, 2, 2) == []


def test_variant_column_needs_a_flush(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    usual.run("ALTER TABLE lake.t ADD COLUMN v VARIANT")
    with pytest.raises(UnsupportedError) as refused:
        changed(usual, 2, 3)
    assert refused.value.message == (
        "the table main.t has inlined rows, and DuckDB cannot export its VARIANT column 'v'"
    )
    assert refused.value.hint == f"move them to a file: {FLUSH}"
    assert changed(usual, 2, 2) == [{"a": 1, ROW_ID: 0, BEGIN: 2, END: None}]


def test_row_of_an_expired_snapshot_is_refused(usual: Lake) -> None:
    usual.run("CREATE TABLE lake.t (a INTEGER)", "INSERT INTO lake.t VALUES (1)")
    usual.run("CREATE TABLE lake.other (a INTEGER)", "DELETE FROM lake.t")
    usual.run("CALL ducklake_expire_snapshots('lake', versions => [0, 1])")
    assert changed(usual, 4, 4) == [{"a": 1, ROW_ID: 0, BEGIN: 2, END: 4}]
    usual.run("CALL ducklake_expire_snapshots('lake', versions => [2])")
    with pytest.raises(UnsupportedError, match=r"inlined rows of main\.t were deleted in this range, but inserted in"):
        changed(usual, 4, 4)
