"""Deletes that meet maintenance on PostgreSQL: https://github.com/duckdb/ducklake/issues/1094."""

from __future__ import annotations

import contextlib
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from commit_hooks import at_commit
from local_stores import on_postgres, store_of

if TYPE_CHECKING:
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf import Store

# Three files of 40 rows; in the other form, the first one has a delete file.
SET_UP = (
    "CREATE OR REPLACE TABLE dev.t AS SELECT k FROM range(40) r(k)",
    "INSERT INTO dev.t FROM range(40, 80)",
    "INSERT INTO dev.t FROM range(80, 120)",
)
DELETED = "DELETE FROM dev.t WHERE k IN (10, 90)"
# DuckLake keeps a delete of so few rows in the catalog.
DELETE = "DELETE FROM dev.t WHERE k IN (1, 2)"
MERGE = "CALL ducklake_merge_adjacent_files('dev', 't')"
REWRITE = "CALL ducklake_rewrite_data_files('dev', 't', delete_threshold => 0.0)"
FLUSH = "CALL ducklake_flush_inlined_data('dev')"


@pytest.fixture
def store(postgres_server: PostgresServer, tmp_path: Path) -> Store:
    return store_of(tmp_path, on_postgres(postgres_server), data_inlining_row_limit=10)


def rows(connection: Any) -> tuple[list[int], int]:
    """The rows of the table, and their number, which DuckLake takes from its statistics."""
    keys = [key for (key,) in connection.execute("SELECT k FROM dev.t ORDER BY k").fetchall()]
    return keys, connection.execute("SELECT count(*) FROM dev.t").fetchone()[0]


def test_ducklake_alone_brings_deleted_rows_back(store: Store) -> None:
    """When this fails, DuckLake has been fixed, and docs/guarantees.md can say so."""
    with contextlib.closing(store.connect()) as one, contextlib.closing(store.connect()) as other:
        wrong = set()
        for name, maintenance, before in (
            ("merge", MERGE, ""),
            ("rewrite", REWRITE, DELETED),
            ("flush", FLUSH, DELETED),
        ):
            for statement in filter(None, (*SET_UP, before)):
                one.execute(statement)
            expected = [key for key in rows(one)[0] if key not in (1, 2)]
            for connection, statement in ((one, DELETE), (other, maintenance)):
                connection.execute("BEGIN")
                connection.execute(statement)
            one.execute("COMMIT")
            with contextlib.suppress(duckdb.Error):
                other.execute("COMMIT")
            found, count = rows(one)
            wrong |= {f"{name}: rows"} if found != expected else set()
            wrong |= {f"{name}: count"} if count != len(found) else set()
        assert wrong == {"merge: rows", "rewrite: rows", "flush: count"}


@pytest.mark.parametrize("maintenance", ["compact", "flush", "rewrite"])
def test_lakeconf_keeps_deletes_that_meet_maintenance(
    maintenance: str, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The maintenance of another open lake begins when the delete is about to commit."""
    with contextlib.closing(store.connect()) as connection:
        for statement in (*SET_UP, DELETED):
            connection.execute(statement)
        with store.open() as lake, store.open() as other, ThreadPoolExecutor(1) as pool:
            running: list[Future[Any]] = []
            at_commit(monkeypatch, before=lambda: running.append(pool.submit(getattr(other.maintenance, maintenance))))
            lake.table("t").delete("k IN (1, 2)")
            running[0].result()
        found, count = rows(connection)
        assert found == [key for key in range(120) if key not in (1, 2, 10, 90)]
        assert count == len(found)
