"""Several threads share one open lake: each gets its own results, and every write is committed once."""

from __future__ import annotations

import importlib
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import ids, on_catalog, store_of

from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitConflictError, LakeconfError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

THREADS, ROUNDS = 4, 3


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_catalog(request, tmp_path))


def work(lake: Lake, number: int) -> list[int]:
    """Appends to a table shared by all threads, and changes one of its own; returns the ids of the latter."""
    mine = f"own_{number}"
    lake.create_table(mine, like={"id": "BIGINT", "text": "VARCHAR"})
    for step in range(ROUNDS):
        lake.table("everybody").append(pa.table({"id": [number * ROUNDS + step]}))
        with lake.transaction() as tx:
            tx.table(mine).append(pa.table({"id": [step, step + 100], "text": [str(number)] * 2}))
        lake.table(mine).delete(f"id = {step + 100}")
        found = lake.sql(f"SELECT DISTINCT text FROM {mine}").collect("pyarrow").to_native()["text"].to_pylist()
        assert found == [str(number)]
        assert lake.table(mine).schema == {"id": "BIGINT", "text": "VARCHAR"}
    return ids(lake, mine)


def test_threads_read_and_write_with_one_lake(store: Store) -> None:
    with store.open() as lake:
        lake.create_table("everybody", like={"id": "BIGINT"})
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda number: work(lake, number), range(THREADS)))
        assert found == [list(range(ROUNDS))] * THREADS
        assert ids(lake, "everybody") == list(range(THREADS * ROUNDS))
        snapshots = [snapshot.snapshot_id for snapshot in lake.snapshots()]
        assert lake.snapshot_id == snapshots[-1] == 1 + THREADS * (1 + 3 * ROUNDS)


def test_two_streams_write_with_one_lake(spark: SparkSession, tmp_path: Path) -> None:
    with store_of(tmp_path).open(spark) as lake:
        queries = []
        for name in ("first", "second"):
            lake.create_table(name, like={"id": "BIGINT"})
            for part in range(3):
                spark.range(part * 10, part * 10 + 10, 1, 1).write.parquet(f"{tmp_path}/source/{name}/{part}")
            source = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1)
            writer = source.parquet(f"{tmp_path}/source/{name}/*").writeStream.foreachBatch(lake.stream_sink(name))
            checkpoint = f"{tmp_path}/checkpoint/{name}"
            queries.append(writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start())
        for query in queries:
            query.awaitTermination()
        assert (ids(lake, "first"), ids(lake, "second")) == (list(range(30)), list(range(30)))


def test_failed_write_keeps_writes_of_other_threads_in_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": [1, 2]})
    with store_of(tmp_path).open() as lake, ThreadPoolExecutor(1) as pool:
        lake.create_table("good", rows)
        lake.create_table("bad", rows)
        adopt = lake._session.engine.adopt
        others: list[Future[int]] = []

        def adopt_beside(frame: Any) -> Any:
            if not others:  # the write to `bad` has begun
                others.append(pool.submit(lambda: tx.table("good").append(rows)))
                wait(others, timeout=1)
            return adopt(frame)

        monkeypatch.setattr(lake._session.engine, "adopt", adopt_beside)
        with lake.transaction() as tx:
            with pytest.raises(LakeconfError):
                tx.table("bad").overwrite(rows, where="id = 1")
            others[0].result()
        assert ids(lake, "good") == [1, 2]
        assert ids(lake, "bad") == []


def test_interrupted_schema_change_releases_the_writer_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("t", {"id": "BIGINT"})
        original = Connection.execute

        def interrupted(self: Connection, sql: str, *rest: Any) -> Any:
            if sql == "BEGIN":
                raise KeyboardInterrupt
            return original(self, sql, *rest)

        with monkeypatch.context() as patch:
            patch.setattr(Connection, "execute", interrupted)
            with pytest.raises(KeyboardInterrupt):
                table.evolve(add={"text": "VARCHAR"})
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(lake._session.writer_lock.acquire, timeout=1).result()


@pytest.mark.parametrize("other", ["refresh", "compact"])
def test_slow_lookup_in_another_thread_does_not_move_reads_back(
    store: Store, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Reads of an older snapshot would hide the lake's own commit, and the next update would undo it."""
    module = "lakeconf.lake.lake" if other == "refresh" else "lakeconf.lake.maintenance"
    real = importlib.import_module(module).latest
    looked, go = Event(), Event()

    def slow(reader: Any) -> Any:
        found = real(reader)
        looked.set()
        go.wait(60)
        return found

    with store.open() as lake, ThreadPoolExecutor(1) as pool:
        table = lake.create_table("t", {"id": "BIGINT", "n": "BIGINT"})
        table.append(pa.table({"id": [1], "n": [0]}))
        monkeypatch.setattr(f"{module}.latest", slow)
        done = pool.submit(lake.refresh if other == "refresh" else lake.maintenance.compact)
        looked.wait(60)
        table.update({"n": nw.col("n") + 1}, "id = 1")
        go.set()
        done.result(60)
        monkeypatch.undo()
        table.update({"n": nw.col("n") + 1}, "id = 1")
        assert lake.table("t").scan().collect("pyarrow").rows() == [(1, 2)]


def test_commit_includes_writes_that_other_threads_have_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the write would return successfully, but the commit would lack its rows."""
    began, go = Event(), Event()
    with store_of(tmp_path).open() as lake, ThreadPoolExecutor(2) as pool:
        lake.create_table("t", {"id": "BIGINT"})
        adopt = lake._session.engine.adopt

        def slow(frame: Any) -> Any:
            began.set()
            go.wait(60)
            return adopt(frame)

        monkeypatch.setattr(lake._session.engine, "adopt", slow)
        with lake.transaction() as tx:
            begun = pool.submit(lambda: tx.table("t").append(pa.table({"id": [1]})))
            began.wait(60)
            late = pool.submit(lambda: tx.table("t").append(pa.table({"id": [2]})))
            end = tx._scope.transaction.end  # type: ignore[union-attr]
            monkeypatch.setattr(tx._scope.transaction, "_ended", True)  # while the second write waits for its turn

            def end_after_the_write() -> None:
                go.set()
                end()

            monkeypatch.setattr(tx._scope.transaction, "end", end_after_the_write)
        begun.result(60)
        with pytest.raises(LakeconfError, match="the transaction has ended"):
            late.result(60)
        assert ids(lake, "t") == [1]


def test_transaction_write_conflicts_with_commits_since_its_thread_read(store: Store) -> None:
    """Conflicts are checked from the snapshot that the writing thread has read, whichever thread commits."""
    with store.open() as lake, ThreadPoolExecutor(1) as reading, ThreadPoolExecutor(1) as refreshing:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [1]}))
        found = reading.submit(ids, lake, "t").result()
        lake._session.base.own.clear()  # the next commit counts as one of another writer
        lake.table("t").append(pa.table({"id": [2]}))
        lake._session.base.own.clear()
        refreshing.submit(lake.refresh).result()

        def write(tx: Lake) -> int:
            return tx.table("t").overwrite(pa.table({"id": [number * 10 for number in found]}))

        with pytest.raises(CommitConflictError, match=r"main\.t was read at"), lake.transaction() as tx:
            reading.submit(write, tx).result()
        assert ids(lake, "t") == [1, 2]


def test_lake_opened_in_another_thread_can_be_closed(store: Store) -> None:
    with ThreadPoolExecutor(1) as pool:
        lake = pool.submit(store.open).result()
        frame = pool.submit(lambda: lake.create_table("t", {"id": "BIGINT"}).scan()).result()
        lake.close()
        with store.open() as again:  # a DuckDB file can be opened by one instance only
            assert again.tables() == ["main.t"]
        with pytest.raises(Exception, match="closed"):
            pool.submit(frame.collect, "pyarrow").result()


def test_write_that_waited_for_maintenance_reads_the_latest_snapshot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(tmp_path)
    with store.open() as lake:
        table = lake.create_table("t", {"id": "BIGINT"})
        writing = lake._session.guard.writing

        def after_maintenance() -> Any:
            monkeypatch.setattr(lake._session.guard, "writing", writing)
            with store.open() as other:
                other.table("t").append(pa.table({"id": [1]}))
            lake.refresh()
            assert lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True) == [0, 1]
            return writing()

        monkeypatch.setattr(lake._session.guard, "writing", after_maintenance)
        table.append(pa.table({"id": [2]}))
        monkeypatch.setattr(lake._session.guard, "writing", after_maintenance)
        monkeypatch.setattr(lake.maintenance.__class__, "expire_snapshots", lambda *_, **__: [0, 1])
        with lake.transaction() as tx:
            assert (tx.snapshot_id, ids(tx, "t")) == (4, [1, 1, 2])
