"""Appends of Spark to partitioned tables while replies are lost, and in a bucket."""

from __future__ import annotations

import datetime as dt
import re
from typing import TYPE_CHECKING

import pytest
from commit_hooks import at_commit
from local_stores import config_of, in_bucket, on_postgres
from partitioned_rows import COLUMNS, FIRST, SECOND, ids_of, parquet_files, writers

import lakeconf
from lakeconf.commit import driver
from lakeconf.engines.spark.hadoop import configure_session
from lakeconf.errors import CommitUnknownError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import FaultProxy, PostgresServer, S3Server

    from lakeconf import Lake, Store

NOW = dt.timedelta(0)


@pytest.fixture
def far(direct: Store, hurt: Store) -> Store:
    """A store through the proxy; the lake has a partitioned table with twelve rows."""
    with direct.open() as lake:
        lake.create_table("t", COLUMNS, partitioned_by=["day", "kind"]).append(FIRST)
    return hurt


def test_commit_with_a_lost_reply_keeps_its_files(
    far: Store, postgres_proxy: FaultProxy, tmp_path: Path, spark: SparkSession
) -> None:
    with far.open(spark) as lake:
        with lake.transaction() as tx:
            tx.table("t").append(SECOND)
            postgres_proxy.reset_on(b"COMMIT", forward=True)
        assert postgres_proxy.fired == 1
        assert len(ids_of(lake)) == 24
        assert not list(tmp_path.rglob("lakeconf-*/*"))
        before = parquet_files(tmp_path)
        assert len(before) == 24
        lake.maintenance.cleanup(older_than=NOW, force=True)
        assert parquet_files(tmp_path) == before


@pytest.mark.slow
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

    monkeypatch.setattr(driver, "LOOK_UP_SECONDS", 0.5)
    before = parquet_files(tmp_path)
    with far.open(spark) as lake:
        with pytest.raises(CommitUnknownError):
            append(lake)
        postgres_proxy.heal()
    assert len([path for path in parquet_files(tmp_path) if "/lakeconf-" in path and "=" in path]) >= 9
    foreign = tmp_path / "data" / "main" / "new" / "day=2024-01-01" / "lakeconf-0a1b-0.parquet"
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.touch()
    with far.open() as lake:
        assert len(ids_of(lake)) == 12
        lake.maintenance.cleanup(older_than=NOW, force=True)
        assert foreign.exists()
        foreign.unlink()
        left = set(parquet_files(tmp_path)) - set(before)
        # Nothing proves whose the files are that DuckDB wrote for a table that was never committed.
        assert all("/main/new/" in f"/{path}" and "/ducklake-" in path for path in left)
        assert bool(left) is is_new
        assert set(before) <= set(parquet_files(tmp_path))
        assert len(ids_of(lake)) == 12


@pytest.mark.slow
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
        assert writers(lake) == ["ducklake"] * 3 + ["lakeconf"] * 9
        registered = [file.path for file in table.files() if "/lakeconf-" in file.path]
        for path in registered:
            name = re.escape(path.rpartition("/")[2])
            assert len(re.findall(rf'"PUT \S*/{name}\S* HTTP', requests)) == 1
            assert not re.findall(rf'"POST \S*/{name}\S* HTTP', requests)
        table.append(SECOND)
        assert sorted(table.scan(columns=["id"]).collect("pyarrow").rows()) == [(id_,) for id_ in ids_of(lake)]
        lake.maintenance.compact()
        lake.maintenance.expire_snapshots(older_than=NOW, force=True)
        lake.maintenance.cleanup(older_than=NOW, force=True)
        assert len(ids_of(lake)) == 24
        bucket = config["stores"]["dev"]["storage_backend"]["bucket"]
        stored = [key for key in s3_server.objects(bucket) if key.endswith(".parquet")]
        assert len(stored) == len(table.files()) == 12
