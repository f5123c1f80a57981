"""NUL in conditions, values and SQL, and names that differ in their case only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest

from lakeconf.errors import CommitConflictError, QueryError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakeconf import Lake, Store

TEXTS = pa.table({"id": pa.array([1, 2], pa.int32()), "v": ["a\0b", "a"]})


def test_nul_is_a_character_of_values_and_conditions(store: Store) -> None:
    with store.open() as lake:
        table = lake.create_table("t", TEXTS)
        table.append(TEXTS)
        for where in (nw.col("v") == "a\0b", nw.col("v").is_in(["a\0b", "c"]), nw.col("v").str.ends_with("\0b")):
            assert table.scan(where=where).collect("pyarrow")["id"].to_list() == [1]
        table.update({"v": "x\0'y"}, where=nw.col("v") == "a\0b")
        assert sorted(table.to_arrow()["v"].to_pylist()) == ["a", "x\0'y"]
        table.delete(nw.col("v") == "x\0'y")
        assert table.to_arrow()["id"].to_pylist() == [2]


def test_nul_that_cannot_be_written_is_an_error_that_says_so(store: Store) -> None:
    with store.open() as lake:
        table = lake.create_table("t", TEXTS)
        calls: list[Callable[[], Any]] = [
            lambda: lake.sql("SELECT '\0'"),
            lambda: lake.execute("DELETE FROM t WHERE v = '\0'"),
            lambda: lake.create_view("seen", "SELECT '\0'"),
        ]
        for call in calls:
            with pytest.raises(QueryError, match="NUL") as error:
                call()
            assert error.value.hint == "write chr(0)"
        for change in (
            lambda: table.evolve(add={"q": "VARCHAR"}, defaults={"q": "a\0b"}),
            lambda: lake.create_table("u", {"a": "INTEGER"}, comment="a\0b"),
        ):
            with pytest.raises(SchemaError, match="contains the character NUL"):
                change()


def test_structs_with_fields_that_differ_in_their_case_only_are_an_error(lake: Lake) -> None:
    lake.create_table("t", {"s": "STRUCT(a INTEGER)"})
    rows: list[Any] = [pa.table({"s": [{"a": 1, "A": 2}]}), [{"s": {"a": 1, "A": 2}}]]
    for frame in rows:
        with pytest.raises(SchemaError) as error:
            lake.table("t").append(frame)
        assert error.value.hint


def test_a_rename_to_a_name_that_another_writer_took_is_a_conflict_with_a_hint(store: Store) -> None:
    with store.open() as one, store.open() as other:
        one.create_table("t", {"id": "INTEGER"})
        one.create_table("u", {"id": "INTEGER"})
        other.refresh()

        def renamed() -> None:
            with one.transaction() as tx:
                tx.rename_table("t", "wanted")
                other.rename_table("u", "wanted")

        with pytest.raises(CommitConflictError, match="already exists") as error:
            renamed()
        assert (error.value.hint or "").startswith("call lake.refresh()")
        assert one.refresh()
        assert one.tables() == ["main.t", "main.wanted"]
