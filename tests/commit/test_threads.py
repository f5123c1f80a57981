"""Several threads use one open lake: each gets its own results, and every write is there once."""

from __future__ import annotations

import importlib
from concurrent.futures import Future, ThreadPoolExecutor, wait
from threading import Event
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from local_stores import on_postgres, store_of

from lakeconf.connection.connection import Connection
from lakeconf.errors import LakeconfError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Lake, Store

THREADS, ROUNDS = 4, 3


@pytest.fixture(params=["sqlite", "duckdb", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    catalog = (
        on_postgres(request.getfixturevalue("postgres_server"))
        if request.param == "postgres"
        else {"type": request.param, "uri": str(tmp_path / "catalog")}
    )
    return store_of(tmp_path, catalog)


def ids(lake: Lake, table: str) -> list[int]:
    return sorted(lake.table(table).scan().collect("pyarrow").to_native()["id"].to_pylist())


def work(lake: Lake, number: int) -> list[int]:
    """Appends to a table of all threads, and changes and reads one of its own; gives what it has read there."""
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


def test_threads_write_and_read_with_one_lake(store: Store) -> None:
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


def test_a_failed_write_of_a_thread_leaves_those_of_others_in_the_transaction(
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


def test_an_interrupted_change_of_columns_lets_other_threads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
def test_a_slow_look_up_by_another_thread_does_not_move_reads_back(
    store: Store, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Reads that go back make the lake's own commit look known, and the next update undoes it."""
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
