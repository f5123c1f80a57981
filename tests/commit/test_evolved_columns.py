"""Columns that a transaction changes, and reads or changes again: the rows are those of separate transactions."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import on_catalog, store_of
from strength import PROVE

from lakeconf import Insert, Update
from lakeconf.errors import LakeconfError, SchemaError, UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Lake, Store, Table

IDS = pa.table({"id": pa.array([1, 2, 3], pa.int32()), "v": ["a", "b", "c"]})


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_catalog(request, tmp_path), data_inlining_row_limit=0)


@pytest.fixture
def lake(store: Store, engine: Any) -> Iterator[Lake]:
    with store.open(engine) as lake:
        lake.create_table("t", IDS).append(IDS)
        yield lake


def rows(lake: Lake, name: str = "t") -> list[tuple[object, ...]]:
    lake.refresh()
    return sorted((tuple(row.values()) for row in lake.table(name).to_arrow().to_pylist()), key=repr)


def test_computed_updates_and_merges_see_the_defaults_of_columns_that_their_transaction_adds(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table("t").evolve(add={"c": "INTEGER", "empty": "INTEGER"}, defaults={"c": 7})
        tx.table("t").update({"c": nw.col("c") + nw.col("id"), "v": nw.col("c").cast(nw.String)}, where="id > 1")
    assert rows(lake) == [(1, "a", 7, None), (2, "7", 9, None), (3, "7", 10, None)]
    given = pa.table({"id": pa.array([1, 2], pa.int32()), "d": ["it's", "x"]})
    with lake.transaction() as tx:
        tx.table("t").evolve(add={"d": "VARCHAR"}, defaults={"d": "it's"})
        tx.table("t").merge(given, on=["id", "d"], matched=[Update({"v": nw.col("target_d")})], not_matched=None)
    found = [(1, "it's", 7, None, "it's"), (2, "7", 9, None, "it's"), (3, "7", 10, None, "it's")]
    assert rows(lake) == found
    with lake.transaction() as tx:
        tx.table("t").evolve(add={"e": "DECIMAL(9, 2)"}, defaults={"e": "1.25"})
        tx.table("t").merge(given, on="id", matched=[Update({"v": nw.lit("m")})], not_matched=None)
    assert rows(lake) == [(*row[:1], "m" if row[0] != 3 else row[1], *row[2:], 1.25) for row in found]


def test_what_cannot_be_read_before_the_commit_is_an_error(lake: Lake) -> None:
    """A name may belong to another column than before."""
    lake.table("t").evolve(add={"c": "INTEGER", "s": "STRUCT(a INTEGER)"}, defaults={"c": 5})
    before = rows(lake)
    used: dict[str, list[dict[str, Any]]] = {
        "c": [{"drop": ["c"]}, {"add": {"c": "INTEGER"}, "defaults": {"c": 6}}],
        "v": [{"rename": {"v": "w"}}, {"add": {"v": "VARCHAR"}}],
        "e": [{"add": {"d": "INTEGER"}, "defaults": {"d": 1}}, {"rename": {"d": "e"}}],
        "s": [{"add": {"s.b": "INTEGER"}, "defaults": {"s.b": 3}}],
    }
    for name, changes in used.items():
        for where in ("id > 0", "id = 1"):

            def write(name: str = name, changes: list[dict[str, Any]] = changes, where: str = where) -> None:
                with lake.transaction() as tx:
                    for change in changes:
                        tx.table("t").evolve(**change)
                    tx.table("t").update({name: nw.col(name)}, where=where)

            with pytest.raises(LakeconfError, match="in this transaction") as error:
                write()
            assert error.value.hint == "commit it first"

    def condition() -> None:
        with lake.transaction() as tx:
            tx.table("t").evolve(add={"d": "INTEGER"}, defaults={"d": 7})
            tx.table("t").update({"v": nw.concat_str(nw.col("v"), nw.col("v"))}, where="d = 7")

    with pytest.raises(SchemaError, match="the condition uses the column 'd'"):
        condition()
    assert rows(lake) == before


CHANGES: list[dict[str, Any]] = [
    {"promote": {"d": "INTEGER"}},
    {"promote": {"d": "BIGINT"}},
    {"rename": {"d": "e"}},
    {"promote": {"e": "BIGINT"}},
    {"rename": {"e": "f"}},
    {"drop": ["d"]},
    {"add": {"d": "SMALLINT"}, "defaults": {"d": 9}},
    {"add": {"n": "SMALLINT"}, "defaults": {"n": 6}},
    {"promote": {"n": "INTEGER"}},
    {"promote": {"n": "BIGINT"}},
    {"rename": {"n": "m"}},
    {"rename": {"d": "e"}, "promote": {"e": "BIGINT"}},
    {"add": {"s.b": "SMALLINT"}, "defaults": {"s.b": 3}},
    {"promote": {"s.b": "INTEGER"}},
    {"promote": {"s.a": "BIGINT"}},
    {"rename": {"s.b": "c"}},
    {"rename": {"s": "r"}},
]
# What the finding has, and others of three changes.
SEQUENCES = [*itertools.permutations(range(len(CHANGES)), 2), (7, 8, 10), (7, 8, 9), (2, 3, 4), (12, 13, 15), (5, 6, 0)]


def changed(table: Table, numbers: tuple[int, ...]) -> None:
    for number in numbers:
        table.evolve(**CHANGES[number])


def test_a_transaction_of_several_changes_forgets_no_default(store: Store) -> None:
    """The oracle is a transaction for each change."""
    with store.open() as lake:
        seen = {"same": 0, "refused": 0}
        for number, sequence in enumerate(SEQUENCES if PROVE else [*SEQUENCES[:-5:22], *SEQUENCES[-5:]]):
            for name in ("one", "each"):
                table = lake.create_table(f"{name}{number}", IDS)
                table.append(IDS)
                table.evolve(add={"d": "SMALLINT", "s": "STRUCT(a SMALLINT)"}, defaults={"d": 5})
            try:
                changed(lake.table(f"each{number}"), sequence)
            except LakeconfError:
                continue  # a change of a column that does not exist
            before = rows(lake, f"one{number}")
            try:
                with lake.transaction() as tx:
                    changed(tx.table(f"one{number}"), sequence)
            except SchemaError:
                assert rows(lake, f"one{number}") == before
                seen["refused"] += 1
                continue
            assert rows(lake, f"one{number}") == rows(lake, f"each{number}"), [CHANGES[one] for one in sequence]
            seen["same"] += 1
        assert min(seen.values()) > 1, seen


def test_two_appends_that_widen_a_column_forget_no_default(store: Store) -> None:
    with store.open() as lake:
        table = lake.create_table("t", IDS)
        table.append(IDS)
        table.evolve(add={"d": "SMALLINT"}, defaults={"d": 5})

        def appended(*types: pa.DataType) -> None:
            with lake.transaction() as tx:
                for kind in types:
                    frame = pa.table({"id": pa.array([9], pa.int32()), "v": ["x"], "d": pa.array([1], kind)})
                    tx.table("t").append(frame, evolve=True)

        with pytest.raises(SchemaError, match="would forget its default") as error:
            appended(pa.int32(), pa.int64())
        assert "in another transaction" in (error.value.hint or "")
        appended(pa.int32())
        appended(pa.int64())
        assert rows(lake) == [(1, "a", 5), (2, "b", 5), (3, "c", 5), (9, "x", 1), (9, "x", 1)]


def test_a_merge_inserts_rows_with_the_columns_that_its_transaction_adds(lake: Lake) -> None:
    frame = pa.table({"id": pa.array([1, 9], pa.int32()), "v": ["m", "n"], "c": pa.array([1, 2], pa.int32())})
    with lake.transaction() as tx:
        tx.table("t").evolve(add={"c": "INTEGER"}, defaults={"c": 7})
        tx.table("t").merge(frame, on="id", matched=[Update({"v": nw.lit("u")})], not_matched=Insert())
    assert rows(lake) == [(1, "u", 7), (2, "b", 7), (3, "c", 7), (9, "n", 2)]


AFTER_A_PROMOTION: dict[str, Callable[[Any], object]] = {
    "update": lambda tx: tx.table("t").update({"v": "new"}, where="id = 1"),
    "computed update": lambda tx: tx.table("t").update({"v": nw.col("v").str.to_uppercase()}, where="id = 1"),
    "delete": lambda tx: tx.table("t").delete("late = 5"),
    "overwrite": lambda tx: tx.table("t").overwrite(tx.table("t").scan(), where="late = 5"),
    "execute UPDATE": lambda tx: tx.execute("UPDATE t SET v = 'new' WHERE id = 1"),
    "execute DELETE": lambda tx: tx.execute("DELETE FROM t WHERE late = 5"),
    "execute INSERT": lambda tx: tx.execute("INSERT INTO other SELECT id, late FROM t"),
}


@pytest.mark.prove("on_spark")
@pytest.mark.parametrize("write", AFTER_A_PROMOTION)
def test_statement_that_reads_a_promoted_column_with_a_default_is_an_error(lake: Lake, write: str) -> None:
    """DuckLake reads NULL in place of the default until the commit, and an UPDATE stores it."""
    lake.create_table("other", {"id": "INTEGER", "late": "BIGINT"})
    lake.table("t").evolve(add={"late": "INTEGER"}, defaults={"late": 5})
    before = rows(lake)
    with pytest.raises(SchemaError, match="promoted 'late' of main"):
        promote(lake, AFTER_A_PROMOTION[write])
    assert (rows(lake), rows(lake, "other")) == (before, [])
    promote(lake, lambda tx: tx.table("t").delete("id = 1"))  # it does not read the column
    assert rows(lake) == before[1:]


def promote(lake: Lake, write: Callable[[Any], object]) -> None:
    """Promotes the late column and writes, in one transaction."""
    with lake.transaction() as tx:
        tx.table("t").evolve(promote={"late": "BIGINT"})
        write(tx)


@pytest.mark.parametrize(
    ("kind", "write"),
    [
        ("STRUCT(a INTEGER)", "INSERT INTO t VALUES (4)"),
        ("INTEGER[]", "UPDATE t SET id = id + 10 WHERE id < 3"),
        ("MAP(VARCHAR, INTEGER)", "INSERT INTO t VALUES (4)"),
    ],
)
def test_a_column_with_fields_between_rows_in_the_catalog_is_an_error(tmp_path: Path, kind: str, write: str) -> None:
    """DuckLake has no statistics of it for the first rows: the commit would be a fatal error of DuckDB."""
    with store_of(tmp_path, data_inlining_row_limit=10).open() as lake:
        lake.create_table("t", IDS.select(["id"])).append(IDS.select(["id"]))

        def split() -> None:
            with lake.transaction() as tx:
                tx.execute(write)
                tx.table("t").evolve(add={"q": kind})
                tx.execute("INSERT INTO t (id) VALUES (5)")

        with pytest.raises(UnsupportedError, match="added a column with fields") as error:
            split()
        assert error.value.hint == "add the column first, or in another transaction"
        assert rows(lake) == [(1,), (2,), (3,)]
        with lake.transaction() as tx:
            tx.table("t").evolve(add={"q": kind})
            for row_id in 6, 7:
                tx.execute(f"INSERT INTO t (id) VALUES ({row_id})")
        with lake.transaction() as tx:
            tx.execute("INSERT INTO t (id) VALUES (8)")
            tx.table("t").evolve(add={"r": kind})
        assert [row[0] for row in rows(lake)] == [1, 2, 3, 6, 7, 8]
