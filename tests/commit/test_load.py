"""Concurrent writes by several processes: no lost rows, no duplicates, correct statistics."""

from __future__ import annotations

import itertools
import multiprocessing
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import config_of, ids, on_postgres
from strength import PROVE

import lakeconf
from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.synchronize import Barrier
    from pathlib import Path

    from lakeconf import Lake

ROUNDS = 100 if PROVE else 2
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
processes.set_forkserver_preload(["lakeconf.lake.lake", "lakeconf.write.merge", "pyarrow", "pytest"])


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


@pytest.mark.parametrize("read", [True, False], ids=["read", "unread"])
def test_concurrent_overwrites_of_an_empty_day_conflict_only_after_a_read(config: dict[str, Any], read: bool) -> None:
    with opened(config) as lake:
        for name in ("raw.days", "raw.refused"):
            lake.create_table(name, {"day": "BIGINT", "writer": "BIGINT"})
    run(overwrites, config, 2, ROUNDS, read)
    with opened(config) as lake:
        # If both have read the day, the second one conflicts; otherwise it replaces the rows of the first.
        for name, expected in (("raw.days", 1), ("raw.refused", int(read))):
            found = Counter(lake.table(name).scan().collect("pyarrow").to_native()["day"].to_pylist())
            assert found == Counter(dict.fromkeys(range(ROUNDS), expected))


def contends(config: dict[str, Any], number: int, start: Barrier) -> None:
    """In each round as the other process: deletes from one file, then appends with one key, then merges of one row."""
    with opened(config) as lake:

        def append(at: int) -> None:
            lake.table("raw.keyed").append(pa.table({"id": [at], "writer": [number]}), idempotency_key=f"batch {at}")

        writes: tuple[Callable[[int], object], ...] = (
            lambda at: lake.table("raw.t").delete(f"id = {10 + 2 * at + number}"),
            append,
            lambda _: lake.table("raw.merged").merge(pa.table({"id": [1], "writer": [number]}), on="id"),
        )
        for write, at in itertools.product(writes, range(ROUNDS)):
            lake.refresh()
            start.wait()
            while True:
                try:
                    write(at)
                    break
                except CommitConflictError:
                    assert write is not append
                    lake.refresh()


def test_concurrent_deletes_appends_with_one_key_and_merges_of_one_row_happen_once(config: dict[str, Any]) -> None:
    rows = 10 + 2 * ROUNDS + 10
    with opened(config) as lake:
        for name in ("raw.keyed", "raw.merged"):
            lake.create_table(name, {"id": "BIGINT", "writer": "BIGINT"})
        lake.create_table("raw.t", {"id": "BIGINT"}).append(pa.table({"id": pa.array(range(rows), pa.int64())}))
        lake.table("raw.t").delete("id = 0")
        first = lake.snapshot_id
    run(contends, config, 2)
    with opened(config) as lake:
        # Each commit removes one row and duplicates none. Without lakeconf, DuckLake restores deleted rows here.
        for version in range(first, first + 2 * ROUNDS + 1):
            counts = f"SELECT count(*), count(DISTINCT id) FROM raw.t AT (VERSION => {version})"
            assert lake.sql(counts).collect("pyarrow").rows() == [(rows - 1 - version + first,) * 2]
        assert ids(lake, "raw.t") == [*range(1, 10), *range(rows - 10, rows)]
        assert (ids(lake, "raw.keyed"), ids(lake, "raw.merged")) == (list(range(ROUNDS)), [1])
