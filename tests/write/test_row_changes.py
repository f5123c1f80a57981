"""Appends, overwrites and deletes as changes of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from lakeconf.commit.change import Files, Statements
from lakeconf.errors import PredicateError, SchemaError, TableNotFoundError
from lakeconf.write.row_changes import append, delete, overwrite, overwrite_partitions
from lakeconf.write.writes import Writing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store
    from lakeconf.commit.change import Change

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "kind": ["view", None]})
PARTS = {"day": "DATE", "kind": "VARCHAR", "n": "BIGINT"}


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        lake.create_table("raw.events", ROWS)
        lake.table("raw.events").append(ROWS)
        yield lake


def made(lake: Lake, change: Any, name: str = "raw.events", **arguments: Any) -> Change:
    """Makes one change, commits it, and returns it."""
    with Writing(lake._scope, "a change") as transaction:
        change(transaction, name, **arguments)
        found: Change = transaction.changes[0]
    return found


def rows(lake: Lake, query: str = "FROM dev.raw.events") -> list[tuple[Any, ...]]:
    native: Any = lake.sql(query).to_native()
    return sorted(native.fetchall(), key=repr)


def test_append_depends_on_nothing(lake: Lake) -> None:
    change = made(lake, append, frame=ROWS, evolve=False)
    assert (change.table, change.depends_on, type(change.body)) == ("raw.events", None, Files)
    assert change.written_for is not None
    assert change.written_for.full_name == "raw.events"
    assert rows(lake) == [(1, "view"), (1, "view"), (2, None), (2, None)]


def test_append_changes_columns_only_if_it_may(lake: Lake) -> None:
    wide = pa.table({"id": [3], "kind": ["x"], "tags": [["a"]]})
    with pytest.raises(SchemaError, match="tags"):
        made(lake, append, frame=wide, evolve=False)
    made(lake, append, frame=wide, evolve=True)
    assert rows(lake) == [(1, "view", None), (2, None, None), (3, "x", ["a"])]


def test_append_to_an_unknown_table_is_an_error(lake: Lake) -> None:
    with pytest.raises(TableNotFoundError):
        made(lake, append, "raw.unknown", frame=ROWS, evolve=False)


def test_overwrite_replaces_all_rows_or_those_of_a_condition(lake: Lake) -> None:
    new = pa.table({"id": pa.array([2], pa.int64()), "kind": ["new"]})
    change = made(lake, overwrite, frame=new, where="id = 2", evolve=False)
    assert change.deletes
    assert change.depends_on is not None
    assert rows(lake) == [(1, "view"), (2, "new")]
    made(lake, overwrite, frame=new, where=None, evolve=False)
    assert rows(lake) == [(2, "new")]
    made(lake, overwrite, frame=new.append_column("n", pa.array([7])), where=None, evolve=True)
    assert rows(lake) == [(2, "new", 7)]
    with pytest.raises(SchemaError, match="more"):
        made(lake, overwrite, frame=new.append_column("more", pa.array([7])), where=None, evolve=False)


def test_overwrite_refuses_rows_outside_its_condition(lake: Lake) -> None:
    before = lake.snapshot_id
    with pytest.raises(PredicateError, match="1 rows of the frame do not satisfy"):
        made(lake, overwrite, frame=ROWS, where="id = 2", evolve=False)
    with pytest.raises(PredicateError, match="does not support"):
        made(lake, overwrite, frame=ROWS, where="id = now()", evolve=False)
    assert (lake.refresh(), rows(lake)) == (before, [(1, "view"), (2, None)])


def days(lake: Lake, *values: str) -> pa.Table:
    columns = "day::DATE AS day, kind::VARCHAR AS kind, n::BIGINT AS n"
    query = f"SELECT {columns} FROM (VALUES {', '.join(values)}) AS t(day, kind, n)"
    table: pa.Table = lake.sql(query).collect("pyarrow").to_native()
    return table


@pytest.mark.parametrize("keys", [["year(day)", "kind"], ["day", "bucket(4, kind)"], ["kind"]])
def test_overwrite_replaces_the_partitions_of_the_frame(lake: Lake, keys: list[str]) -> None:
    lake.create_table("raw.days", PARTS, partitioned_by=keys)
    old = ["('2025-01-01', 'a', 1)", "('2026-01-01', 'a', 2)", "('2026-01-01', NULL, 3)", "('2026-01-01', 'b', 4)"]
    lake.table("raw.days").append(days(lake, *old))
    made(lake, overwrite_partitions, "raw.days", frame=days(lake, "('2026-01-01', NULL, 9)"), recurring=False)
    assert rows(lake, "SELECT n FROM dev.raw.days") == [(1,), (2,), (4,), (9,)]
    made(lake, overwrite_partitions, "raw.days", frame=days(lake, "('2026-01-01', 'a', 8)"), recurring=False)
    left = [(4,), (8,), (9,)] if keys == ["kind"] else [(1,), (4,), (8,), (9,)]
    assert rows(lake, "SELECT n FROM dev.raw.days") == left


def test_overwrite_of_recurring_partitions_must_be_wanted(lake: Lake) -> None:
    lake.create_table("raw.days", PARTS, partitioned_by=["month(day)"])
    lake.table("raw.days").append(days(lake, "('2025-01-01', 'a', 1)", "('2026-02-01', 'a', 2)"))
    frame = days(lake, "('2026-01-01', 'a', 9)")
    with pytest.raises(SchemaError, match=r"month\(day\) recurs"):
        made(lake, overwrite_partitions, "raw.days", frame=frame, recurring=False)
    made(lake, overwrite_partitions, "raw.days", frame=frame, recurring=True)
    assert rows(lake, "SELECT n FROM dev.raw.days") == [(2,), (9,)]


def test_table_without_partitions_has_none_to_overwrite(lake: Lake) -> None:
    with pytest.raises(SchemaError) as refused:
        made(lake, overwrite_partitions, frame=ROWS, recurring=True)
    assert refused.value.message == "raw.events is not partitioned"
    assert refused.value.hint == "name the rows to replace: overwrite(frame, where=…)"


def test_delete_removes_the_rows_whose_condition_is_true(lake: Lake) -> None:
    change = made(lake, delete, where="kind = 'view' OR kind = 'other'")
    assert (change.table, change.deletes, type(change.body)) == ("raw.events", True, Statements)
    assert change.depends_on is not None
    assert change.written_for is not None
    assert rows(lake) == [(2, None)]
    with pytest.raises(PredicateError, match="no column 'knd'"):
        made(lake, delete, where="knd = 'view'")
