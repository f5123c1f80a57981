"""Idempotency keys are stored per table, survive renames and work for every kind of write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from plain_sql import run_plain

from lakeconf.errors import CatalogError, CommitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakeconf import Lake, Store

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([10, 20], pa.int64())})


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    with store.open() as lake:
        lake.create_table("t", ROWS)
        yield lake


def run(lake: Lake, *statements: str) -> None:
    """Runs statements as another writer, then refreshes the lake."""
    run_plain(lake, *statements)
    lake.refresh()


def rows(lake: Lake, table: str = "t") -> list[tuple[Any, ...]]:
    return sorted(lake.table(table).scan().collect("pyarrow").rows(), key=repr)


def append(lake: Lake, key: str = "k", table: str = "t") -> int:
    return lake.table(table).append(ROWS, idempotency_key=key)


def test_recreated_table_has_no_keys(lake: Lake) -> None:
    append(lake)
    run(lake, "DROP TABLE t", "CREATE TABLE t (id BIGINT, n BIGINT)")
    append(lake)
    assert len(rows(lake)) == 2
    append(lake)
    assert len(rows(lake)) == 2


@pytest.mark.parametrize("made", ["before", "in the transaction"])
def test_keys_follow_a_rename(lake: Lake, made: str) -> None:
    if made == "before":
        first = append(lake)
    else:
        run(lake, "DROP TABLE t")
        with lake.transaction() as tx:
            tx.create_table("t", ROWS)
            append(tx)
        first = lake.snapshot_id
    run(lake, "ALTER TABLE t RENAME TO u", "CREATE TABLE t (id BIGINT, n BIGINT)")
    assert append(lake, table="u") == first
    assert append(lake) > first
    assert (len(rows(lake, "u")), len(rows(lake))) == (2, 2)
    assert append(lake, table="u") == first


def test_journal_schema_name_is_case_insensitive(lake: Lake) -> None:
    run(lake, "CREATE SCHEMA LakeConf")
    first = append(lake)
    assert append(lake) == first
    assert len(rows(lake)) == 2
    assert lake.tables() == ["main.t"]


def test_journal_with_missing_columns_is_rejected(lake: Lake) -> None:
    run(lake, "CREATE SCHEMA lakeconf", "CREATE TABLE lakeconf.commits (id BIGINT)")
    with pytest.raises(CatalogError, match=r"lakeconf\.commits lacks the column 'token'"):
        append(lake)


def test_key_used_twice_in_a_transaction_is_rejected(lake: Lake) -> None:
    with lake.transaction() as tx:
        append(tx)
        with pytest.raises(CommitError, match=r"already contains a write to .* with the idempotency key 'k'"):
            append(tx)
        tx.create_table("u", ROWS)
        append(tx, table="u")
        with pytest.raises(CommitError, match=r"already contains a write to .* with the idempotency key 'k'"):
            tx.table("U").overwrite(ROWS, idempotency_key="k")
    assert (len(rows(lake)), len(rows(lake, "u"))) == (2, 2)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_transaction_skips_only_the_write_with_a_committed_key(lake: Lake, store: Store, when: str) -> None:
    lake.create_table("u", ROWS)
    with store.open() as other:
        first = append(other) if when == "before" else 0
        lake.refresh()
        with lake.transaction() as tx:
            append(tx)
            append(tx, table="u")
            first = append(other) if when == "meanwhile" else first
    lake.refresh()
    assert (len(rows(lake)), len(rows(lake, "u"))) == (2, 2)
    assert append(lake) == first
    assert append(lake, table="u") == lake.snapshot_id


EVERY_WRITE: dict[str, Any] = {
    "append": lambda table, key: table.append(ROWS, idempotency_key=key),
    "overwrite": lambda table, key: table.overwrite(ROWS, idempotency_key=key),
    "overwrite where": lambda table, key: table.overwrite(ROWS, "id < 9", idempotency_key=key),
    "overwrite_partitions": lambda table, key: table.overwrite_partitions(ROWS, idempotency_key=key),
    "delete": lambda table, key: table.delete("id = 1", idempotency_key=key),
    "update": lambda table, key: table.update({"n": 7}, "id = 2", idempotency_key=key),
    "computed update": lambda table, key: table.update({"n": nw.col("n") + 1}, "id = 2", idempotency_key=key),
    "merge": lambda table, key: table.merge(ROWS, on="id", idempotency_key=key),
    "evolving append": lambda table, key: table.append(
        ROWS.append_column("more", pa.array([1, 2])), evolve=True, idempotency_key=key
    ),
}


@pytest.mark.parametrize("write", EVERY_WRITE)
def test_every_write_is_skipped_if_its_key_was_committed(lake: Lake, store: Store, write: str) -> None:
    lake.create_table("p", ROWS, partitioned_by=["id"])
    lake.table("p").append(ROWS)
    first = EVERY_WRITE[write](lake.table("p"), "k")
    assert first == lake.snapshot_id
    assert EVERY_WRITE[write](lake.table("p"), "k") == first
    with store.open() as other, lake.transaction() as tx:
        EVERY_WRITE[write](tx.table("p"), "l")
        second = EVERY_WRITE[write](other.table("p"), "l")
    assert lake.refresh() == second == first + 1


def test_reads_see_a_write_with_this_key_by_another_session(lake: Lake, store: Store) -> None:
    with store.open() as other:
        version = append(lake)
        with lake.transaction() as tx:
            pinned = tx.snapshot_id
            assert append(tx) == version
            assert tx.snapshot_id == pinned
        assert append(other) == version
        assert other.snapshot_id == version
        assert len(rows(other)) == 2
