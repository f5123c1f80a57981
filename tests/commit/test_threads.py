"""Threads share one open lake, and processes one store: each gets its own results, and no write is lost or twice."""

from __future__ import annotations

import importlib
import itertools
import multiprocessing
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import timedelta
from threading import Event
from typing import TYPE_CHECKING, Any

import narwhals as nw
import pyarrow as pa
import pytest
from lake_parts import scope_of, session_of
from local_stores import config_of, ids, on_catalog, on_postgres, store_of
from strength import PROVE

import lakeconf
from lakeconf.connection.connection import Connection
from lakeconf.errors import CommitConflictError, LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier
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


@pytest.mark.slow
@pytest.mark.prove("duckdb", "postgres")
def test_threads_read_and_write_with_one_lake(store: Store) -> None:
    with store.open() as lake:
        lake.create_table("everybody", like={"id": "BIGINT"})
        with ThreadPoolExecutor(THREADS) as pool:
            found = list(pool.map(lambda number: work(lake, number), range(THREADS)))
        assert found == [list(range(ROUNDS))] * THREADS
        assert ids(lake, "everybody") == list(range(THREADS * ROUNDS))
        snapshots = [snapshot.snapshot_id for snapshot in lake.snapshots()]
        assert lake.snapshot_id == snapshots[-1] == 1 + THREADS * (1 + 3 * ROUNDS)


@pytest.mark.slow
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


@pytest.mark.slow
def test_failed_write_keeps_writes_of_other_threads_in_the_transaction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table({"id": [1, 2]})
    with store_of(tmp_path).open() as lake, ThreadPoolExecutor(1) as pool:
        lake.create_table("good", rows)
        lake.create_table("bad", rows)
        adopt = session_of(lake).engine.adopt
        others: list[Future[int]] = []

        def adopt_beside(frame: Any) -> Any:
            if not others:  # the write to `bad` has begun
                others.append(pool.submit(lambda: tx.table("good").append(rows)))
                wait(others, timeout=1)
            return adopt(frame)

        monkeypatch.setattr(session_of(lake).engine, "adopt", adopt_beside)
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
            assert pool.submit(session_of(lake).writer_lock.acquire, timeout=1).result()


@pytest.mark.slow
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
        adopt = session_of(lake).engine.adopt

        def slow(frame: Any) -> Any:
            began.set()
            go.wait(60)
            return adopt(frame)

        monkeypatch.setattr(session_of(lake).engine, "adopt", slow)
        with lake.transaction() as tx:
            begun = pool.submit(lambda: tx.table("t").append(pa.table({"id": [1]})))
            began.wait(60)
            late = pool.submit(lambda: tx.table("t").append(pa.table({"id": [2]})))
            end = scope_of(tx).transaction.end  # type: ignore[union-attr]
            monkeypatch.setattr(scope_of(tx).transaction, "_ended", True)  # while the second write waits for its turn

            def end_after_the_write() -> None:
                go.set()
                end()

            monkeypatch.setattr(scope_of(tx).transaction, "end", end_after_the_write)
        begun.result(60)
        with pytest.raises(LakeconfError, match="the transaction has ended"):
            late.result(60)
        assert ids(lake, "t") == [1]


def test_transaction_write_conflicts_with_commits_since_its_thread_read(store: Store) -> None:
    """Conflicts are checked from the snapshot that the writing thread has read, whichever thread commits."""
    with store.open() as lake, ThreadPoolExecutor(1) as reading, ThreadPoolExecutor(1) as refreshing:
        lake.create_table("t", {"id": "BIGINT"}).append(pa.table({"id": [1]}))
        found = reading.submit(ids, lake, "t").result()
        session_of(lake).base.own.clear()  # the next commit counts as one of another writer
        lake.table("t").append(pa.table({"id": [2]}))
        session_of(lake).base.own.clear()
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
        writing = session_of(lake).guard.writing

        def after_maintenance() -> Any:
            monkeypatch.setattr(session_of(lake).guard, "writing", writing)
            with store.open() as other:
                other.table("t").append(pa.table({"id": [1]}))
            lake.refresh()
            assert lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True) == [0, 1]
            return writing()

        monkeypatch.setattr(session_of(lake).guard, "writing", after_maintenance)
        table.append(pa.table({"id": [2]}))
        monkeypatch.setattr(session_of(lake).guard, "writing", after_maintenance)
        monkeypatch.setattr(lake.maintenance.__class__, "expire_snapshots", lambda *_, **__: [0, 1])
        with lake.transaction() as tx:
            assert (tx.snapshot_id, ids(tx, "t")) == (4, [1, 1, 2])


LOADED = 100 if PROVE else 2
# (number of processes, commits per process)
LOAD = {"postgres": (8, 50) if PROVE else (4, 5), "sqlite": (4, 50) if PROVE else (3, 4)}
ROWS = 20
# Files whose statistics in the catalog differ from their rows.
WRONG_STATISTICS = """
    WITH said AS (
        SELECT d.row_id_start, d.record_count, s.null_count, s.min_value, s.max_value, c.column_name
        FROM {catalog}.ducklake_data_file AS d
        JOIN {catalog}.ducklake_file_column_stats AS s USING (data_file_id)
        JOIN {catalog}.ducklake_column AS c ON c.column_id = s.column_id AND c.table_id = d.table_id
    ), found AS (
        SELECT min(row_id) AS row_id_start, count(*) AS record_count, min(id)::VARCHAR AS min_id,
            max(id)::VARCHAR AS max_id, min(text) AS min_text, max(text) AS max_text
        FROM (SELECT filename AS data_file, rowid AS row_id, id, text FROM raw.t) GROUP BY data_file
    )
    SELECT * FROM said LEFT JOIN found USING (row_id_start, record_count)
    WHERE record_count <> {rows} OR null_count <> 0 OR min_id IS NULL
        OR min_value <> CASE column_name WHEN 'id' THEN min_id ELSE min_text END
        OR max_value <> CASE column_name WHEN 'id' THEN max_id ELSE max_text END
"""
# A process that runs DuckDB or Spark cannot be forked safely; the fork server runs neither.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(["lakeconf.lake.lake", "lakeconf.write.operations.merge.merge", "pyarrow", "pytest"])


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def config(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    metadata: dict[str, Any] = {"type": "sqlite", "uri": str(tmp_path / "catalog.sqlite")}
    if kind == "postgres":
        metadata = {**on_postgres(request.getfixturevalue("postgres_server")), "metadata_schema": "lake"}
    return config_of(tmp_path, metadata)


def opened(config: dict[str, Any]) -> Lake:
    return lakeconf.init(config).get_store("dev").open()


def run(work: Callable[..., None], config: dict[str, Any], count: int, *arguments: Any) -> None:
    """Runs the work in `count` processes that start together."""
    start = processes.Barrier(count)
    started = [processes.Process(target=work, args=(config, number, start, *arguments)) for number in range(count)]
    for process in started:
        process.start()
    for process in started:
        process.join()
    assert [process.exitcode for process in started] == [0] * count


def appends(config: dict[str, Any], number: int, start: Barrier, commits: int) -> None:
    with opened(config) as lake:
        start.wait()
        for commit in range(commits):
            first = (number * commits + commit) * ROWS
            keys = list(range(first, first + ROWS))
            lake.table("raw.t").append(pa.table({"id": pa.array(keys, pa.int64()), "text": [f"n{i:06}" for i in keys]}))


@pytest.mark.slow
@pytest.mark.prove("sqlite")
def test_concurrent_appends_commit_all_rows_with_correct_statistics(config: dict[str, Any], kind: str) -> None:
    count, commits = LOAD[kind]
    with opened(config) as lake:
        lake.create_table("raw.t", {"id": "BIGINT", "text": "VARCHAR"})
        before = lake.snapshot_id
    run(appends, config, count, commits)
    with opened(config) as lake:
        assert lake.snapshot_id == before + count * commits
        assert ids(lake, "raw.t") == list(range(count * commits * ROWS))
        catalog = "__ducklake_metadata_dev" + (".lake" if kind == "postgres" else "")
        wrong = WRONG_STATISTICS.format(catalog=catalog, rows=ROWS)
        assert lake.sql(wrong).collect("pyarrow").to_native().to_pylist() == []


def overwrites(config: dict[str, Any], number: int, start: Barrier, days: int, read: bool) -> None:
    with opened(config) as lake:
        for day in range(days):
            lake.refresh()
            if read:
                assert day not in lake.table("raw.days").scan().collect("pyarrow").to_native()["day"].to_pylist()
            start.wait()
            try:
                lake.table("raw.days").overwrite(pa.table({"day": [day], "writer": [number]}), where=f"day = {day}")
            except CommitConflictError:
                lake.table("raw.refused").append(pa.table({"day": [day], "writer": [number]}))
            start.wait()


@pytest.mark.slow
@pytest.mark.prove("sqlite")
@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
def test_concurrent_overwrites_of_an_empty_day_conflict_only_after_a_read(config: dict[str, Any], read: bool) -> None:
    with opened(config) as lake:
        for name in ("raw.days", "raw.refused"):
            lake.create_table(name, {"day": "BIGINT", "writer": "BIGINT"})
    run(overwrites, config, 2, LOADED, read)
    with opened(config) as lake:
        # If both have read the day, the second one conflicts; otherwise it replaces the rows of the first.
        for name, expected in (("raw.days", 1), ("raw.refused", int(read))):
            found = Counter(lake.table(name).scan().collect("pyarrow").to_native()["day"].to_pylist())
            assert found == Counter(dict.fromkeys(range(LOADED), expected))


def contends(config: dict[str, Any], number: int, start: Barrier, rounds: int) -> None:
    """In each round as the other process: deletes from one file, then appends with one key, then merges of one row."""
    with opened(config) as lake:

        def append(at: int) -> None:
            lake.table("raw.keyed").append(pa.table({"id": [at], "writer": [number]}), idempotency_key=f"batch {at}")

        writes: tuple[Callable[[int], object], ...] = (
            lambda at: lake.table("raw.t").delete(f"id = {10 + 2 * at + number}"),
            append,
            lambda _: lake.table("raw.merged").merge(pa.table({"id": [1], "writer": [number]}), on="id"),
        )
        for write, at in itertools.product(writes, range(rounds)):
            lake.refresh()
            start.wait()
            while True:
                try:
                    write(at)
                    break
                except CommitConflictError:
                    assert write is not append
                    lake.refresh()


@pytest.mark.slow
@pytest.mark.prove("postgres")
def test_concurrent_deletes_appends_with_one_key_and_merges_of_one_row_happen_once(config: dict[str, Any]) -> None:
    rows = 10 + 2 * LOADED + 10
    with opened(config) as lake:
        for name in ("raw.keyed", "raw.merged"):
            lake.create_table(name, {"id": "BIGINT", "writer": "BIGINT"})
        lake.create_table("raw.t", {"id": "BIGINT"}).append(pa.table({"id": pa.array(range(rows), pa.int64())}))
        lake.table("raw.t").delete("id = 0")
        first = lake.snapshot_id
    # The processes do not see LAKECONF_PROVE, so that their LOADED is another one.
    run(contends, config, 2, LOADED)
    with opened(config) as lake:
        # Each commit removes one row and duplicates none. Without lakeconf, DuckLake restores deleted rows here.
        for version in range(first, first + 2 * LOADED + 1):
            counts = f"SELECT count(*), count(DISTINCT id) FROM raw.t AT (VERSION => {version})"
            assert lake.sql(counts).collect("pyarrow").rows() == [(rows - 1 - version + first,) * 2]
        assert ids(lake, "raw.t") == [*range(1, 10), *range(rows - 10, rows)]
        assert (ids(lake, "raw.keyed"), ids(lake, "raw.merged")) == (list(range(LOADED)), [1])
