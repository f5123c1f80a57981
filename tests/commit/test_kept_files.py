"""A lost reply to COMMIT loses no rows, although DuckLake then removes the files it wrote for the commit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from commit_hooks import at_commit
from local_stores import config_of, ids, in_bucket, on_postgres

import lakeconf
from lakeconf.commit.recovery import KeptFiles

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servers import FaultProxy, PostgresServer

    from lakeconf import Store
    from lakeconf.connection.connection import Connection


@pytest.fixture(params=["local", "s3"])
def stores(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer, postgres_proxy: FaultProxy
) -> list[Store]:
    """Two stores of the same lake: a direct one and one through the proxy."""
    storage = in_bucket(request.getfixturevalue("s3_server")) if request.param == "s3" else None
    database = postgres_server.create_database()
    catalogs = [on_postgres(postgres_server, database, server.port) for server in (postgres_server, postgres_proxy)]
    return [lakeconf.init(config_of(tmp_path, catalog, storage)).get_store("dev") for catalog in catalogs]


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


def test_lost_commit_replies_lose_no_rows(
    stores: list[Store], postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    direct, hurt = stores
    with direct.open() as other:
        other.create_table("t", {"id": "BIGINT"}).append(rows(*range(10)))
    with hurt.open() as lake:
        table, writer = lake.table("t"), lake._session.writer

        def insert_small() -> None:
            writer.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
            writer.execute("INSERT INTO t VALUES (50), (51)")
            writer.execute("CALL dev.set_option('data_inlining_row_limit', 0)")
            lake.refresh()

        steps: list[tuple[Callable[[], object], set[int], set[int]]] = [
            (lambda: table.append(rows(20), idempotency_key="one"), {20}, set()),
            (lambda: table.delete("id = 1"), set(), {1}),
            (lambda: table.merge(rows(2, 40), on="id"), {40}, set()),
            (insert_small, {50, 51}, set()),
            (lambda: lake.create_table("other", {"id": "BIGINT"}), set(), set()),
            (lake.maintenance.compact, set(), set()),
        ]
        expected = set(range(10))
        history = {lake.snapshot_id: sorted(expected)}
        for step, added, removed in steps:
            with monkeypatch.context() as patch:
                at_commit(patch, before=lambda: postgres_proxy.reset_on(b"COMMIT", forward=True))
                step()
            expected = (expected | added) - removed
            lake.refresh()
            history[lake.snapshot_id] = sorted(expected)
            assert ids(lake) == sorted(expected)
        assert postgres_proxy.fired == len(steps) - 1
        assert "restored " in caplog.text
        assert lake.table("t").idempotency_keys() == ["one"]
    with direct.open() as other:
        assert {version: ids(other.at(version=version)) for version in history} == history


def test_flush_of_only_deletes_keeps_its_files_after_a_lost_reply(
    stores: list[Store], postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckLake's flush function returns no row for a table of which it flushes only deletes."""
    direct, hurt = stores
    with direct.open() as other:
        other.create_table("t", {"id": "BIGINT"}).append(rows(*range(10)))
        other._session.writer.execute("CALL dev.set_option('data_inlining_row_limit', 10)")
        other._session.writer.execute("DELETE FROM t WHERE id = 5")
    with hurt.open() as lake:
        at_commit(monkeypatch, before=lambda: postgres_proxy.reset_on(b"COMMIT", forward=True))
        lake.maintenance.flush()
        assert postgres_proxy.fired == 1
    with direct.open() as other:
        assert ids(other) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


def test_kept_files_are_not_displaced_by_files_of_other_writers(
    stores: list[Store], postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct, hurt = stores
    with direct.open() as other:
        table = other.create_table("t", {"id": "BIGINT"})
        for number in range(3):
            table.append(rows(number))
    # There is room for only one kept file.
    monkeypatch.setattr("lakeconf.commit.recovery._MOST_FILES", 1)
    monkeypatch.setattr("lakeconf.commit.recovery._LARGEST_BYTES", 1000)
    with hurt.open() as lake:
        at_commit(monkeypatch, before=lambda: postgres_proxy.reset_on(b"COMMIT", forward=True))
        lake.table("t").append(rows(3))
        assert postgres_proxy.fired == 1
    with direct.open() as other:
        assert ids(other) == [0, 1, 2, 3]


@pytest.mark.parametrize("seconds", [-86_400, 86_400])
def test_files_are_kept_if_the_clock_is_set_during_a_commit(
    seconds: int, stores: list[Store], postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    direct, hurt = stores
    with direct.open() as other:
        other.create_table("t", {"id": "BIGINT"})
    begin, real = KeptFiles.__init__, time.time

    def begin_at_another_time(self: KeptFiles, connection: Connection) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: real() - seconds)
            begin(self, connection)

    monkeypatch.setattr(KeptFiles, "__init__", begin_at_another_time)
    with hurt.open() as lake:
        at_commit(monkeypatch, before=lambda: postgres_proxy.reset_on(b"COMMIT", forward=True))
        lake.table("t").append(rows(1))
        assert postgres_proxy.fired == 1
    with direct.open() as other:
        assert ids(other) == [1]
