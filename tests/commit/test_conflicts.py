"""A write conflicts if another writer has changed the columns of the table since it was read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from lake_fixtures import lake_with
from plain_sql import run_plain

from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake, Store

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "price": pa.array([10, 20], pa.int64())})


lake = lake_with("t", ROWS)


WRITES: dict[str, Any] = {
    "append": lambda table: table.append(ROWS),
    "keyed append": lambda table: table.append(ROWS, idempotency_key="k"),
    "overwrite": lambda table: table.overwrite(ROWS),
    "overwrite where": lambda table: table.overwrite(ROWS, "id < 9"),
    "delete": lambda table: table.delete("price = 10"),
    "update": lambda table: table.update({"price": 3}, "id = 1"),
    "computed update": lambda table: table.update({"price": nw.col("price") + 1}, "id = 1"),
    "merge": lambda table: table.merge(ROWS, on="id"),
}
CHANGES = {
    "another column in its place": ("DROP COLUMN price", "ADD COLUMN discount BIGINT"),
    "two columns that swap names": (
        "RENAME COLUMN id TO other",
        "RENAME COLUMN price TO id",
        "RENAME COLUMN other TO price",
    ),
    "a column dropped and added again": ("DROP COLUMN price", "ADD COLUMN price BIGINT"),
    "a column more": ("ADD COLUMN discount BIGINT DEFAULT 7",),
    "a wider type": ("ALTER COLUMN price SET DATA TYPE DECIMAL(38, 0)",),
}


@pytest.mark.parametrize("change", CHANGES)
def test_write_conflicts_with_column_changes_of_another_writer(
    lake: Lake, store: Store, tmp_path: Path, change: str
) -> None:
    with store.open() as other:
        run_plain(other, *(f"ALTER TABLE t {statement}" for statement in CHANGES[change]))
        before = other.refresh()
        held = set(tmp_path.rglob("*.parquet"))
        for name, write in WRITES.items():
            with pytest.raises(CommitConflictError, match=r"main\.t"):
                write(lake.table("t"))
            assert (name, other.refresh(), set(tmp_path.rglob("*.parquet"))) == (name, before, held)


def test_append_conflicts_with_a_table_that_was_dropped_or_recreated(lake: Lake, store: Store) -> None:
    with store.open() as other:
        run_plain(other, "DROP TABLE t")
        with pytest.raises(CommitConflictError, match=r"main\.t"):
            lake.table("t").append(ROWS)
        run_plain(other, "CREATE TABLE t (id BIGINT, price BIGINT)")
        before = other.refresh()
        with pytest.raises(CommitConflictError, match=r"main\.t"):
            lake.table("t").append(ROWS)
        assert other.refresh() == before
    lake.refresh()
    lake.table("t").append(ROWS)
    assert lake.table("t").scan().collect("pyarrow").rows() == [(1, 10), (2, 20)]


def test_append_conflicts_with_columns_changed_after_staging(lake: Lake, store: Store) -> None:
    def write() -> None:
        with store.open() as other, lake.transaction() as tx:
            tx.table("t").append(ROWS)
            other._session.writer.execute("ALTER TABLE t DROP COLUMN price")
            other._session.writer.execute("ALTER TABLE t ADD COLUMN discount BIGINT")

    with pytest.raises(CommitConflictError, match=r"main\.t"):
        write()
    assert lake.sql("SELECT DISTINCT discount FROM t").collect("pyarrow").rows() == [(None,)]


def test_append_uses_columns_changed_in_the_same_transaction(lake: Lake) -> None:
    with lake.transaction() as tx:
        tx.table("t").append(ROWS)
        tx.table("t").evolve(rename={"price": "cost"}, add={"note": "VARCHAR"})
        more = {"note": ["x"], "cost": pa.array([30], pa.int64()), "id": pa.array([3], pa.int64())}
        tx.table("t").append(pa.table(more))
    found = lake.sql("SELECT id, cost, note FROM t ORDER BY ALL").collect("pyarrow").rows()
    assert found == [(1, 10, None), (1, 10, None), (2, 20, None), (2, 20, None), (3, 30, "x")]
