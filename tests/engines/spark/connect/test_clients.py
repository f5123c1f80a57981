"""Several clients of Spark Connect write to one table, or are killed while they write."""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest
from killed_client import COMMITTED, KEY, POINTS, ROWS, WRITTEN, run
from pyspark.sql import SparkSession
from strength import PROVE

import lakeconf
from lakeconf.errors import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

ROUNDS = 10 if PROVE else 2


def repeated(lake: lakeconf.Lake, write: Callable[[], Any]) -> None:
    """Writes, again if another client was faster."""
    for _ in range(100):
        lake.refresh()
        try:
            write()
        except CommitConflictError:
            continue
        return
    raise AssertionError("the other client was always faster")


def client(connect_url: str, store: lakeconf.Store, number: int, together: Barrier) -> None:
    """Appends rows of its own and then updates them, at the same time as the other client."""
    spark = SparkSession.builder.remote(connect_url).create()
    with store.open(spark) as lake:
        table = lake.table("t")
        for at in range(ROUNDS):
            own = number * ROUNDS + at
            together.wait(300)
            table.append(spark.sql(f"SELECT {own}L AS id, 1L AS n"))
            rows = spark.sql(f"SELECT {own}L AS id, 2L AS n")
            repeated(lake, partial(table.merge, rows, on="id"))


@pytest.mark.usefixtures("connect")
def test_two_clients_write_to_one_table(connect_url: str, store: lakeconf.Store) -> None:
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT", "n": "BIGINT"})
    together = Barrier(2)
    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(client, connect_url, store, number, together) for number in range(2)]:
            done.result()
    with store.open() as lake:
        found = lake.table("t").scan().collect("pyarrow").rows()
    assert sorted(found) == [(own, 2) for own in range(2 * ROUNDS)]


@pytest.mark.parametrize("point", POINTS if PROVE else [WRITTEN, COMMITTED])
def test_killed_client_loses_nothing_and_writes_nothing_twice(
    connect: SparkSession, connect_url: str, project: Path, point: str
) -> None:
    config = project / "lakeconf.toml"
    store = lakeconf.init(config).get_store("dev")
    with store.open() as lake:
        lake.create_table("t", {"id": "BIGINT"})
        before = lake.snapshot_id
    assert run(config, connect_url, point) == -signal.SIGKILL
    with store.open(connect) as lake:
        assert (lake.snapshot_id > before) == (point == COMMITTED)
        table = lake.table("t")
        table.append(connect.range(0, ROWS, 1, 2), idempotency_key=KEY)
        assert sorted(row.id for row in table.scan().to_native().collect()) == list(range(ROWS))
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
        listed = {file.path for name in ("t", "lakeconf.commits") for file in lake.table(name).files()}
    assert {str(path) for path in (project / "data").rglob("*.parquet")} == listed
