"""Appends of Spark to partitioned tables in transactions, beside other writers, and with faults."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import at_commit
from faulty_lake import local_files
from local_stores import config_of, in_bucket, on_postgres, store_of
from plain_sql import run_plain

import lakeconf
from lakeconf.commit import committer
from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.engines.spark.internals import move_file
from lakeconf.errors import AuditError, CommitConflictError, CommitUnknownError, StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import FaultProxy, PostgresServer, S3Server

    from lakeconf import Lake, Store

NOW = dt.timedelta(0)
COLUMNS = {"id": "BIGINT", "day": "DATE", "kind": "VARCHAR"}


def frame(*ids: int) -> pa.Table:
    """Rows in three days and, among others, in a partition that only DuckDB can write."""
    days = [dt.date(2024, 1, 1 + number % 3) for number in ids]
    kinds = [["a b", None, "NULL", ""][number % 4] for number in ids]
    return pa.table({"id": pa.array(ids, pa.int64()), "day": days, "kind": kinds})


FIRST, SECOND = frame(*range(12)), frame(*range(100, 112))


@pytest.fixture
def lake(store: Store, spark: SparkSession) -> Iterator[Lake]:
    with store.open(spark) as lake:
        lake.create_table("t", COLUMNS, partitioned_by=["day", "kind"]).append(FIRST)
        yield lake


def ids(lake: Lake, table: str = "t") -> list[int]:
    return sorted(id_ for (id_,) in lake._session.writer.rows(f"SELECT id FROM dev.{table}"))


def files(tmp_path: Path) -> list[str]:
    return [path for path in local_files(tmp_path / "data") if path.endswith(".parquet")]


def names(lake: Lake, table: str = "t") -> list[str]:
    return sorted(file.path.rpartition("/")[2].partition("-")[0] for file in lake.table(table).files())


def test_only_rows_that_cannot_be_registered_are_inserted(lake: Lake, tmp_path: Path) -> None:
    assert ids(lake) == list(range(12))
    assert names(lake) == ["ducklake"] * 3 + ["lakeconf"] * 9
    assert len(files(tmp_path)) == 12
    assert not list(tmp_path.rglob("lakeconf-*/*"))


@pytest.mark.parametrize("change", ["SET PARTITIONED BY (kind, day)", "RESET PARTITIONED BY", "RENAME kind TO sort"])
def test_change_of_the_partitioning_is_a_conflict(lake: Lake, store: Store, tmp_path: Path, change: str) -> None:
    with store.open() as other:
        run_plain(other, f"ALTER TABLE t {change}")
        before = files(tmp_path)
        with pytest.raises(CommitConflictError, match=r"main\.t now has other columns or partition keys"):
            lake.table("t").append(SECOND)
        assert files(tmp_path) == before
        assert ids(other) == list(range(12))
    lake.refresh()
    if "RENAME" in change:
        lake.table("t").append(SECOND.rename_columns(["id", "day", "sort"]))
    else:
        lake.table("t").append(SECOND)
    assert len(ids(lake)) == 24
    lake.maintenance.compact()
    assert len(ids(lake)) == 24


def test_change_of_the_partitioning_during_the_commit_is_a_conflict(
    lake: Lake, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store.open() as other:
        before = files(tmp_path)
        at_commit(monkeypatch, before=lambda: run_plain(other, "ALTER TABLE t SET PARTITIONED BY (year(day))"))
        with pytest.raises(CommitConflictError):
            lake.table("t").append(SECOND)
    assert files(tmp_path) == before


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
    assert ids(lake) == [1, 2, *range(100, 112), 200, 201]
    assert ids(lake, "new") == ids(lake, '"odd name"') == [*range(100, 112), 200]
    assert set(names(lake, "new")) == {"lakeconf", "ducklake"}
    assert set(names(lake, '"odd name"')) == {"ducklake"}
    for _ in range(2):
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=NOW, force=True)
        lake.maintenance.cleanup(older_than=NOW, force=True)
    assert ids(lake) == [1, 2, *range(100, 112), 200, 201]
    assert ids(lake, "new") == [*range(100, 112), 200]
    known = [file.path for name in ("t", "new", '"odd name"') for file in lake.table(name).files()]
    assert len(files(tmp_path)) == len(known)


def test_merge_registers_its_new_rows(lake: Lake, tmp_path: Path) -> None:
    before = len(files(tmp_path))
    lake.table("t").merge(frame(*range(10, 20)), on="id")
    assert ids(lake) == list(range(20))
    # The file of row 11 has no rows left.
    assert names(lake).count("lakeconf") == 8 + len({(n % 3, n % 4) for n in range(12, 20) if n % 4 != 2})
    assert before < len(files(tmp_path))
    assert not list(tmp_path.rglob("lakeconf-*/*"))


def test_frame_without_rows_changes_nothing(lake: Lake, tmp_path: Path) -> None:
    before, snapshot_id = files(tmp_path), lake.snapshot_id
    lake.table("t").append(FIRST.slice(0, 0))
    assert (files(tmp_path), lake.snapshot_id) == (before, snapshot_id)
    assert not list(tmp_path.rglob("lakeconf-*[0-9a-f]"))


def test_later_appends_reuse_the_mapping_of_the_columns(lake: Lake) -> None:
    lake.table("t").append(SECOND)
    mappings = "SELECT count(*) FROM __ducklake_metadata_dev.ducklake_column_mapping"
    assert lake._session.writer.rows(mappings) == [(1,)]


def test_table_of_another_writer_keeps_a_column_with_a_reserved_name(lake: Lake, store: Store) -> None:
    with store.open() as other:
        run_plain(
            other,
            "CREATE TABLE u (id BIGINT, day DATE, __lakeconf_group_0 VARCHAR)",
            "ALTER TABLE u SET PARTITIONED BY (day)",
        )
    lake.refresh()
    lake.table("u").append(FIRST.rename_columns(["id", "day", "__lakeconf_group_0"]))
    kinds = lake._session.writer.rows("SELECT DISTINCT __lakeconf_group_0 FROM dev.u ORDER BY ALL NULLS FIRST")
    assert kinds == [(None,), ("",), ("NULL",), ("a b",)]


def test_overwrite_of_partitions_replaces_them(lake: Lake) -> None:
    lake.table("t").overwrite_partitions(frame(300, 302))
    same = {(number % 3, number % 4) for number in (300, 302)}
    assert ids(lake) == [*(number for number in range(12) if (number % 3, number % 4) not in same), 300, 302]


def test_repeated_or_failed_write_leaves_no_file(lake: Lake, tmp_path: Path) -> None:
    lake.table("t").append(SECOND, idempotency_key="k")
    before = files(tmp_path)
    assert lake.table("t").append(SECOND, idempotency_key="k") == lake.snapshot_id
    with lake.transaction() as tx:
        tx.table("t").append(SECOND, idempotency_key="k")  # found at the commit, too
    assert files(tmp_path) == before

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
    assert files(tmp_path) == before
    assert len(ids(lake)) == 24


@pytest.mark.parametrize("reason", ["returns False", "is interrupted"])
def test_failed_move_leaves_no_file(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    before, moved = files(tmp_path), list[str]()

    def failing(spark: Any, source: str, target: str) -> bool:
        moved.append(target)
        if len(moved) < 5:
            return move_file(spark, source, target)
        if reason == "is interrupted":
            raise KeyboardInterrupt
        return False

    monkeypatch.setattr("lakeconf.engines.spark.write.partitions.move_file", failing)
    with pytest.raises(StorageError if reason == "returns False" else KeyboardInterrupt):
        lake.table("t").append(SECOND)
    assert len(moved) >= 5
    assert files(tmp_path) == before
    assert not list(tmp_path.rglob("lakeconf-*[0-9a-f]"))


@pytest.fixture
def far(postgres_server: PostgresServer, postgres_proxy: FaultProxy, tmp_path: Path) -> Store:
    """A store through the proxy; the lake has a partitioned table with twelve rows."""
    database = postgres_server.create_database()
    with store_of(tmp_path, on_postgres(postgres_server, database)).open() as lake:
        lake.create_table("t", COLUMNS, partitioned_by=["day", "kind"]).append(FIRST)
    return store_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))


def test_commit_with_a_lost_reply_keeps_its_files(
    far: Store, postgres_proxy: FaultProxy, tmp_path: Path, spark: SparkSession
) -> None:
    with far.open(spark) as lake:
        with lake.transaction() as tx:
            tx.table("t").append(SECOND)
            postgres_proxy.reset_on(b"COMMIT", forward=True)
        assert postgres_proxy.fired == 1
        assert len(ids(lake)) == 24
        assert not list(tmp_path.rglob("lakeconf-*/*"))
        before = files(tmp_path)
        assert len(before) == 24
        lake.maintenance.cleanup(older_than=NOW, force=True)
        assert files(tmp_path) == before


@pytest.mark.parametrize("is_new", [False, True])
def test_cleanup_removes_the_files_of_an_unknown_commit(
    far: Store,
    postgres_proxy: FaultProxy,
    tmp_path: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    is_new: bool,
) -> None:
    """The manifest beside the staging folder proves whose they are if the catalog lacks the table."""

    def lose() -> None:
        postgres_proxy.reset_on(b"COMMIT")
        postgres_proxy.reset_on(b"user\0", times=1000)

    def append(lake: Lake) -> None:
        with lake.transaction() as tx:
            if is_new:
                tx.create_table("new", COLUMNS, partitioned_by=["day", "kind"])
            tx.table("new" if is_new else "t").append(SECOND)
            at_commit(monkeypatch, before=lose)

    monkeypatch.setattr(committer, "LOOK_UP_SECONDS", 0.5)
    before = files(tmp_path)
    with far.open(spark) as lake:
        with pytest.raises(CommitUnknownError):
            append(lake)
        postgres_proxy.heal()
    assert len([path for path in files(tmp_path) if "/lakeconf-" in path and "=" in path]) >= 9
    foreign = tmp_path / "data" / "main" / "new" / "day=2024-01-01" / "lakeconf-0a1b-0.parquet"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.touch()
    with far.open() as lake:
        assert len(ids(lake)) == 12
        lake.maintenance.cleanup(older_than=NOW, force=True)
        assert foreign.exists()
        foreign.unlink()
        left = set(files(tmp_path)) - set(before)
        # Nothing proves whose the files are that DuckDB wrote for a table that was never committed.
        assert all("/main/new/" in f"/{path}" and "/ducklake-" in path for path in left)
        assert bool(left) is is_new
        assert set(before) <= set(files(tmp_path))
        assert len(ids(lake)) == 12


@pytest.mark.hadoop_aws
def test_bucket_copies_each_file_at_most_once_to_its_folder(
    tmp_path: Path, s3_server: S3Server, spark: SparkSession, postgres_server: PostgresServer
) -> None:
    config = config_of(tmp_path, on_postgres(postgres_server), in_bucket(s3_server))
    store = lakeconf.init(config).get_store("dev")
    assert store.storage_backend is not None
    configure_session(spark, store.storage_backend.hadoop_settings())
    with store.open(spark) as lake:
        table = lake.create_table("t", COLUMNS, partitioned_by=["day", "kind"])
        start = s3_server.log.stat().st_size
        table.append(FIRST)
        requests = s3_server.log.read_text()[start:]
        assert names(lake) == ["ducklake"] * 3 + ["lakeconf"] * 9
        registered = [file.path for file in table.files() if "/lakeconf-" in file.path]
        for path in registered:
            name = re.escape(path.rpartition("/")[2])
            assert len(re.findall(rf'"PUT \S*/{name}\S* HTTP', requests)) == 1
            assert not re.findall(rf'"POST \S*/{name}\S* HTTP', requests)
        table.append(SECOND)
        assert sorted(table.scan(columns=["id"]).collect("pyarrow").rows()) == [(id_,) for id_ in ids(lake)]
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=NOW, force=True)
        lake.maintenance.cleanup(older_than=NOW, force=True)
        assert len(ids(lake)) == 24
        bucket = config["stores"]["dev"]["storage_backend"]["bucket"]
        stored = [key for key in s3_server.objects(bucket) if key.endswith(".parquet")]
        assert len(stored) == len(table.files()) == 12
