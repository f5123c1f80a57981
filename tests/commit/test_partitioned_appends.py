"""Appends of Spark to partitioned tables in transactions and beside other writers."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import at_commit
from partitioned_rows import COLUMNS, FIRST, SECOND, frame, ids_of, parquet_files, writers
from plain_sql import plain_rows, run_plain

from lakeconf.engines.spark.internals import move_file
from lakeconf.errors import AuditError, CommitConflictError, StorageError
from lakeconf.write import strategy as rule

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

NOW = dt.timedelta(0)


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    with store.open(spark) as lake:
        lake.create_table("t", COLUMNS, partitioned_by=["day", "kind"]).append(FIRST)
        yield lake


@pytest.mark.slow
@pytest.mark.parametrize("change", ["SET PARTITIONED BY (kind, day)", "RESET PARTITIONED BY", "RENAME kind TO sort"])
def test_change_of_the_partitioning_is_a_conflict(lake: Lake, store: Store, tmp_path: Path, change: str) -> None:
    with store.open() as other:
        run_plain(other, f"ALTER TABLE t {change}")
        before = parquet_files(tmp_path)
        with pytest.raises(CommitConflictError, match=r"main\.t now has other columns or partition keys"):
            lake.table("t").append(SECOND)
        assert parquet_files(tmp_path) == before
        assert ids_of(other) == list(range(12))
    lake.refresh()
    if "RENAME" in change:
        lake.table("t").append(SECOND.rename_columns(["id", "day", "sort"]))
    else:
        lake.table("t").append(SECOND)
    assert len(ids_of(lake)) == 24
    lake.maintenance.compact()
    assert len(ids_of(lake)) == 24


@pytest.mark.slow
def test_change_of_the_partitioning_during_the_commit_is_a_conflict(
    lake: Lake, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open() as other:
        before = parquet_files(tmp_path)
        at_commit(monkeypatch, before=lambda: run_plain(other, "ALTER TABLE t SET PARTITIONED BY (year(day))"))
        with pytest.raises(CommitConflictError):
            lake.table("t").append(SECOND)
    assert parquet_files(tmp_path) == before


@pytest.mark.slow
def test_several_writes_of_a_transaction_are_one_snapshot(lake: Lake, tmp_path: Path) -> None:
    before = lake.snapshot_id
    with lake.transaction() as tx:
        tx.create_table("new", COLUMNS, partitioned_by=["year(day)", "kind"])
        tx.create_table("odd name", COLUMNS, partitioned_by=["kind"])
        for name in ("new", '"odd name"', "t"):
            tx.table(name).append(SECOND)
            tx.table(name).append(frame(200))
        tx.table("t").overwrite(frame(1, 2), where="id < 12")
        tx.table("t").append(frame(201).append_column("more", pa.array(["x"])), evolve=True)
    assert lake.snapshot_id == before + 1
    assert ids_of(lake) == [1, 2, *range(100, 112), 200, 201]
    assert ids_of(lake, "new") == ids_of(lake, '"odd name"') == [*range(100, 112), 200]
    assert set(writers(lake, "new")) == {"lakeconf", "ducklake"}
    assert set(writers(lake, '"odd name"')) == {"ducklake"}
    for _ in range(2):
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=NOW, force=True)
        lake.maintenance.cleanup(older_than=NOW, force=True)
    assert ids_of(lake) == [1, 2, *range(100, 112), 200, 201]
    assert ids_of(lake, "new") == [*range(100, 112), 200]
    known = [file.path for name in ("t", "new", '"odd name"') for file in lake.table(name).files()]
    assert len(parquet_files(tmp_path)) == len(known)


@pytest.mark.slow
def test_merge_on_spark_registers_its_new_rows(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rule, "MOST_FRAME_BYTES", 0)
    before = len(parquet_files(tmp_path))
    lake.table("t").merge(frame(*range(10, 20)), on="id")
    assert ids_of(lake) == list(range(20))
    # The file of row 11 has no rows left.
    assert writers(lake).count("lakeconf") == 8 + len({(n % 3, n % 4) for n in range(12, 20) if n % 4 != 2})
    assert before < len(parquet_files(tmp_path))
    assert not list(tmp_path.rglob("lakeconf-*/*"))


def test_frame_without_rows_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    before, snapshot_id = parquet_files(tmp_path), lake.snapshot_id
    lake.table("t").append(FIRST.slice(0, 0))
    assert (parquet_files(tmp_path), lake.snapshot_id) == (before, snapshot_id)
    assert not list(tmp_path.rglob("lakeconf-*[0-9a-f]"))


@pytest.mark.slow
def test_table_of_another_writer_keeps_a_column_with_a_reserved_name(lake: Lake, store: Store) -> None:
    with store.open() as other:
        run_plain(
            other,
            "CREATE TABLE u (id BIGINT, day DATE, __lakeconf_group_0 VARCHAR)",
            "ALTER TABLE u SET PARTITIONED BY (day)",
        )
    lake.refresh()
    lake.table("u").append(FIRST.rename_columns(["id", "day", "__lakeconf_group_0"]))
    kinds = plain_rows(lake, "SELECT DISTINCT __lakeconf_group_0 FROM dev.u ORDER BY ALL NULLS FIRST")
    assert kinds == [(None,), ("",), ("NULL",), ("a b",)]


@pytest.mark.slow
def test_repeated_or_failed_write_leaves_no_file(lake: Lake, tmp_path: Path) -> None:
    lake.table("t").append(SECOND, idempotency_key="k")
    before = parquet_files(tmp_path)
    assert lake.table("t").append(SECOND, idempotency_key="k") == lake.snapshot_id
    with lake.transaction() as tx:
        tx.table("t").append(SECOND, idempotency_key="k")  # found at the commit, too
    assert parquet_files(tmp_path) == before

    def audited() -> None:
        with lake.transaction() as tx:
            tx.table("t").append(frame(500))
            tx.audit("none", "SELECT id FROM t WHERE id = 500")

    def stopped() -> None:
        with lake.transaction() as tx:
            tx.table("t").append(frame(500, 501))
            raise RuntimeError("stop")

    with pytest.raises(AuditError):
        audited()
    with pytest.raises(RuntimeError, match="stop"):
        stopped()
    assert parquet_files(tmp_path) == before
    assert len(ids_of(lake)) == 24


@pytest.mark.slow
@pytest.mark.parametrize("reason", ["returns False", "is interrupted"])
def test_failed_move_leaves_no_file(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    before, moved = parquet_files(tmp_path), list[str]()

    def failing(spark: Any, source: str, target: str) -> bool:
        moved.append(target)
        if len(moved) < 5:
            return move_file(spark, source, target)
        if reason == "is interrupted":
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr("lakeconf.engines.spark.write.partition_folders.move_file", failing)
    with pytest.raises(StorageError if reason == "returns False" else KeyboardInterrupt):
        lake.table("t").append(SECOND)
    assert len(moved) >= 5
    assert parquet_files(tmp_path) == before
    assert not list(tmp_path.rglob("lakeconf-*[0-9a-f]"))
