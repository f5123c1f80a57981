"""Concurrent writers of one table; without a lock, DuckLake commits two overwrites of an empty table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import on_postgres, store_of
from strength import PROVE

from lakeconf.errors import CommitConflictError
from lakeconf.guard.guard import locks_of, reader_of
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from servers import PostgresServer

    from lakeconf import Store

ROUNDS = 100 if PROVE else 5
TABLE = "raw.days"


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    if request.param == "postgres":
        return store_of(tmp_path, server_metadata(request.getfixturevalue("postgres_server")))
    return store_of(tmp_path)


def server_metadata(server: PostgresServer) -> dict[str, Any]:
    return {**on_postgres(server), "metadata_schema": "lake"}


def test_only_one_of_two_concurrent_overwrites_commits(store: Store) -> None:
    for number in range(ROUNDS):
        name = f"{TABLE}_{number}"
        with store.open() as lake:
            lake.create_table(name, like={"n": "BIGINT"})
        start = Barrier(2)

        def overwrite(value: int, name: str = name, start: Barrier = start) -> str:
            with store.open() as lake:
                assert len(lake.table(name).scan().collect()) == 0
                start.wait()
                try:
                    lake.table(name).overwrite(pa.table({"n": [value]}))
                except CommitConflictError:
                    return "refused"
                return "committed"

        with ThreadPoolExecutor(2) as pool:
            outcomes = sorted(pool.map(overwrite, (1, 2)))
        assert outcomes == ["committed", "refused"]
        with store.open() as lake:
            assert len(lake.table(name).scan().collect()) == 1


def test_lock_blocks_other_holders_until_it_is_released(store: Store) -> None:
    connection = open_connection(store)
    lock = locks_of(store.metadata_backend, store.names, reader_of(store.metadata_backend, store.names, connection))
    assert lock is not None
    held: list[str] = []
    entered = Barrier(2)

    def second() -> None:
        entered.wait()
        with lock(["raw.a"]):
            held.append("second")

    with connection, ThreadPoolExecutor(1) as pool:
        with lock(["raw.a"]):
            future = pool.submit(second)
            entered.wait()
            held.append("first")
        future.result()
    assert held == ["first", "second"]


def test_concurrent_appends_are_all_kept(store: Store) -> None:
    with store.open() as lake:
        lake.create_table(TABLE, like={"n": "BIGINT"})

    def append(value: int) -> None:
        with store.open() as lake:
            for number in range(5):
                lake.table(TABLE).append(pa.table({"n": [10 * value + number]}))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, range(3)))
    with store.open() as lake:
        found = lake.table(TABLE).scan().collect("pyarrow").to_native()["n"].to_pylist()
    assert sorted(found) == sorted(10 * value + number for value in range(3) for number in range(5))


def test_transaction_overwrites_several_tables(store: Store) -> None:
    names = ("raw.first_of_two", "raw.second_of_two")
    with store.open() as lake:
        for name in names:
            lake.create_table(name, like={"n": "BIGINT"})
        with lake.transaction() as transaction:
            for value, name in enumerate(names):
                transaction.table(name).overwrite(pa.table({"n": [value]}))
            transaction.table(names[0]).append(pa.table({"n": [7]}), idempotency_key="once")
        found = [sorted(lake.table(name).scan().collect("pyarrow").to_native()["n"].to_pylist()) for name in names]
    assert found == [[0, 7], [1]]
