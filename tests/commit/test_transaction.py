"""Several writes to one table in one transaction: each sees the earlier ones, or is rejected."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import duckdb
import narwhals as nw
import pyarrow as pa
import pytest
from lake_fixtures import lake_with

from lakeconf.commit.change import Statements
from lakeconf.errors import CommitConflictError, UnsupportedError
from lakeconf.write.merge_clauses import Delete, Insert

if TYPE_CHECKING:
    from lakeconf import Lake, Store

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([10, 20], pa.int64())})
MORE = pa.table({"id": pa.array([2, 3], pa.int64()), "n": pa.array([21, 31], pa.int64())})


lake = lake_with("t", ROWS)


def rows(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted(lake.sql("FROM t").collect("pyarrow").rows())


READ_THE_TABLE: dict[str, Any] = {
    "merge": lambda table: table.merge(MORE, on="id"),
    "delete what is missing": lambda table: table.merge(
        MORE, on="id", matched=None, not_matched=None, not_matched_by_source=Delete()
    ),
    "insert what is new": lambda table: table.merge(MORE, on="id", matched=None, not_matched=Insert()),
    "computed update": lambda table: table.update({"n": nw.col("n") + 1}, "id = 2"),
}
CHANGE_ROWS: dict[str, Any] = {
    "append": lambda table: table.append(MORE),
    "overwrite": lambda table: table.overwrite(MORE),
    "delete": lambda table: table.delete("id = 2"),
    "update": lambda table: table.update({"n": 5}, "id = 2"),
    "merge": READ_THE_TABLE["merge"],
}


def write_both(lake: Lake, first: Any, second: Any) -> None:
    with lake.transaction() as tx:
        first(tx.table("t"))
        second(tx.table("T"))


def test_write_that_reads_a_table_changed_earlier_is_rejected(lake: Lake) -> None:
    before = rows(lake)
    for first in CHANGE_ROWS:
        for second in READ_THE_TABLE:
            with pytest.raises(UnsupportedError, match=r"already contains a write to main\.t"):
                write_both(lake, CHANGE_ROWS[first], READ_THE_TABLE[second])
            assert (first, second, lake.refresh(), rows(lake)) == (first, second, lake.snapshot_id, before)


def test_merge_that_deletes_matches_sees_earlier_writes(lake: Lake) -> None:
    gone = pa.table({"id": pa.array([3, 1, 1, None], pa.int64())})
    with lake.transaction() as tx:
        tx.table("t").merge(MORE, on="id")
        tx.table("t").merge(gone, on="id", matched=Delete(), not_matched=None)
    assert rows(lake) == [(2, 21)]


def test_merge_conflicts_if_its_rows_are_missing_at_commit(lake: Lake) -> None:
    """An update by row id changes only the rows that still exist, so the count is the only evidence."""

    def write(second: Any) -> None:
        with lake.transaction() as tx:
            tx.table("t").merge(MORE, on="id")
            (change, *_) = tx._scope.transaction.changes  # type: ignore[union-attr]
            second(tx)
            tx._scope.transaction.changes.reverse()  # type: ignore[union-attr]
            assert isinstance(change.body, Statements)
            assert change.body.counts == (1,)

    with pytest.raises(CommitConflictError, match=r"expected to change 1 rows of main\.t, but found 0"):
        write(lambda tx: tx.table("t").delete("id = 2"))
    assert rows(lake) == [(1, 10), (2, 20)]


def oracle(connection: duckdb.DuckDBPyConnection, step: tuple[str, int, int]) -> None:
    kind, low, high = step
    where = f"id BETWEEN {low} AND {high}"
    new = f"SELECT i AS id, {low} AS n FROM range({low}, {high + 1}) r(i)"
    connection.execute(
        {
            "append": f"INSERT INTO t {new}",
            "delete": f"DELETE FROM t WHERE {where}",
            "update": f"UPDATE t SET n = {high} WHERE {where}",
            "overwrite where": f"DELETE FROM t WHERE {where}; INSERT INTO t {new}",
            "overwrite": f"DELETE FROM t; INSERT INTO t {new}",
            "delete matches": f"DELETE FROM t WHERE {where}",
        }[kind]
    )


def write(lake: Lake, step: tuple[str, int, int]) -> None:
    kind, low, high = step
    where, table = f"id >= {low} AND id <= {high}", lake.table("t")
    new = pa.table(
        {"id": pa.array(range(low, high + 1), pa.int64()), "n": pa.array([low] * (high + 1 - low), pa.int64())}
    )
    if kind == "append":
        table.append(new)
    elif kind == "delete":
        table.delete(where)
    elif kind == "update":
        table.update({"n": high}, where)
    elif kind == "overwrite where":
        table.overwrite(new, where)
    elif kind == "overwrite":
        table.overwrite(new)
    else:
        table.merge(new.select(["id"]), on="id", matched=Delete(), not_matched=None)


@pytest.mark.parametrize("seed", range(3))
def test_random_transactions_match_duckdb(store: Store, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - seeded, so that runs are reproducible
    kinds = ["append", "append", "delete", "update", "overwrite where", "overwrite", "delete matches"]
    with duckdb.connect() as connection, store.open() as lake:
        connection.execute("CREATE TABLE t (id BIGINT, n BIGINT)")
        lake.create_table("t", ROWS)
        for _ in range(6):
            steps = []
            for _ in range(chance.randint(1, 4)):
                low = chance.randint(0, 15)
                steps.append((chance.choice(kinds), low, low + chance.randint(0, 9)))
            with lake.transaction() as tx:
                for step in steps:
                    write(tx, step)
                    oracle(connection, step)
            assert rows(lake) == sorted(connection.execute("FROM t").fetchall()), steps
            assert sorted(lake.table("t").scan().collect("pyarrow").rows()) == rows(lake)
