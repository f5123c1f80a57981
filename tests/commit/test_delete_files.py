"""Catalog damage that DuckLake allows is detected before a commit, and the suggested repair works."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from commit_hooks import at_commit
from local_stores import on_postgres, store_of

from lakeconf.errors import CatalogError, CommitError

if TYPE_CHECKING:
    from pathlib import Path

    from servers import FaultProxy, PostgresServer

    from lakeconf import Lake

HUNDRED = pa.table({"id": pa.array(range(100), pa.int64())})


def ids(lake: Lake, table: str = "t") -> list[int]:
    return sorted(lake.table(table).scan().collect("pyarrow").to_native()["id"].to_pylist())


def doubled(tmp_path: Path, server: PostgresServer) -> Any:
    """A store whose table `t` has a data file with two delete files."""
    store = store_of(tmp_path, on_postgres(server, server.create_database(), server.port))
    with store.open() as lake:
        lake.create_table("t", like=HUNDRED).append(HUNDRED)
        lake.table("t").append(pa.table({"id": [100, 101]}))
    with store.connect() as one, one.cursor() as other:
        one.execute("CALL ducklake_set_option('dev', 'data_inlining_row_limit', 0)")
        one.execute("DELETE FROM dev.t WHERE id = 1")
        for connection, row in ((one, 2), (other, 3)):
            connection.execute("BEGIN")
            connection.execute(f"DELETE FROM dev.t WHERE id = {row}")
        one.execute("COMMIT")
        other.execute("COMMIT")
        assert len(one.execute("SELECT id FROM dev.t").fetchall()) == 198
    return store


def test_table_with_duplicate_delete_files_is_rejected_and_can_be_rebuilt(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    store = doubled(tmp_path, postgres_server)
    with store.open() as lake:
        before = lake.snapshot_id
        for write in (
            lambda: lake.table("t").delete("id = 50"),
            lambda: lake.table("t").overwrite(HUNDRED),
            lambda: lake.table("t").update({"id": 500}, where="id = 51"),
        ):
            with pytest.raises(CatalogError, match=r"two delete files.*nothing was written") as caught:
                write()
        assert lake.refresh() == before
    repair = re.search(r"CREATE TABLE .*;", str(caught.value.hint), re.DOTALL)
    assert repair is not None
    with store.connect() as connection:
        connection.execute(repair[0])
        connection.execute("DROP TABLE dev.t; ALTER TABLE dev.t_rebuilt RENAME TO t")
    with store.open() as lake:
        assert ids(lake) == [0, *range(4, 102)]
        lake.table("t").delete("id = 50")
        assert ids(lake) == [0, *range(4, 50), *range(51, 102)]


def test_file_that_is_registered_twice_loses_no_rows(tmp_path: Path) -> None:
    """DuckLake's own DELETE of all rows leaves some of them."""
    path = tmp_path / "twice.parquet"
    pq.write_table(HUNDRED, path)
    with store_of(tmp_path).open() as lake:
        table = lake.create_table("t", like=HUNDRED)
        with lake._session.writer.cursor() as cursor:
            for _ in range(2):
                cursor.execute(f"CALL ducklake_add_data_files('dev', 't', '{path}')")
        before = lake.refresh()
        for write in (
            lambda: table.delete("id = 50"),
            lambda: table.overwrite(HUNDRED),
            lambda: table.update({"id": 500}, where="id = 51"),
            lambda: table.merge(pa.table({"id": [99]}), on="id"),
        ):
            with pytest.raises(CatalogError, match=r"twice.parquet is registered more than once.*nothing was written"):
                write()
        assert lake.refresh() == before
        table.append(pa.table({"id": [100]}))
        assert ids(lake) == sorted([*range(100), *range(101)])


@pytest.mark.parametrize("kept", [True, False])
def test_delete_file_removed_by_ducklake_is_restored_or_reported(
    tmp_path: Path,
    postgres_server: PostgresServer,
    postgres_proxy: FaultProxy,
    monkeypatch: pytest.MonkeyPatch,
    kept: bool,
) -> None:
    if not kept:
        monkeypatch.setattr("lakeconf.commit.recovery._MOST_FILES", 0)
    database = postgres_server.create_database()
    store = store_of(tmp_path, on_postgres(postgres_server, database, postgres_proxy.port))
    with store.open() as lake:
        table = lake.create_table("t", like=HUNDRED)
        table.append(HUNDRED)
        table.delete("id = 1")
        at_commit(monkeypatch, before=lambda: postgres_proxy.reset_on(b"COMMIT", forward=True))
        if kept:
            assert table.delete("id = 2") == 4
            assert len(ids(lake)) == len(HUNDRED) - 2
        else:
            with pytest.raises(CommitError, match=r"snapshot 4 was committed.*removed .*-delete\.parquet"):
                table.delete("id = 2")
        assert postgres_proxy.fired == 1
