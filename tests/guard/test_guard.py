"""The lock of a lake: writers share it, and operations that remove snapshots or files hold it exclusively."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import during
from local_stores import on_postgres, store_of
from lock_files import held

from lakeconf.errors import CommitError
from lakeconf.guard import locks

if TYPE_CHECKING:
    from servers import PostgresServer

    from lakeconf import Store

NOW = dt.timedelta(0)
ROWS = pa.table({"n": pa.array([1], pa.int64())})


def file_store(folder: Path) -> Store:
    return store_of(folder, {"type": "sqlite", "uri": str(folder / "catalog.sqlite")})


def server_store(server: PostgresServer, folder: Path) -> Store:
    return store_of(folder, {**on_postgres(server), "metadata_schema": "lake"})


def test_file_locks_held_by_writers_and_maintenance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tables, lake_lock = (tmp_path / f"catalog.sqlite.lakeconf-{name}" for name in ("lock", "writers"))
    with file_store(tmp_path).open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.overwrite(ROWS)
        look = lambda: (held(tables), held(lake_lock))  # noqa: E731
        assert look() == ("not at all", "not at all")
        for statement, do, expected in (
            ("COMMIT", lambda: table.append(ROWS), ("not at all", "shared")),
            ("CREATE TABLE memory", lambda: table.append(ROWS), ("not at all", "shared")),
            ("COMMIT", lambda: table.overwrite(ROWS), ("alone", "shared")),
            ("COMMIT", lambda: table.delete("n = 2"), ("alone", "shared")),
            (
                "ducklake_expire_snapshots",
                lambda: lake.maintenance.expire_snapshots(older_than=NOW, force=True),
                ("not at all", "alone"),
            ),
            ("ducklake_cleanup", lambda: lake.maintenance.cleanup(older_than=NOW, force=True), ("not at all", "alone")),
            ("CALL ducklake_merge", lake.maintenance.compact, ("not at all", "shared")),
            ("CALL ducklake_rewrite", lake.maintenance.rewrite, ("not at all", "shared")),
        ):
            with monkeypatch.context() as patch:
                seen = during(lake, patch, statement, look)
                do()
            if statement != "CREATE TABLE memory":
                assert seen, statement
            assert set(seen) <= {expected}, statement
        with lake.transaction() as transaction:
            transaction.table("raw.t").append(ROWS)
            assert held(lake_lock) == "shared"
        assert look() == ("not at all", "not at all")
        with pytest.raises(ZeroDivisionError), lake.transaction():
            raise ZeroDivisionError
        assert look() == ("not at all", "not at all")


def test_postgres_locks_held_by_writers_and_maintenance(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = server_store(postgres_server, tmp_path)
    database = store.metadata_backend.database  # type: ignore[attr-defined]
    query = "SELECT string_agg(mode, ' ' ORDER BY mode) FROM pg_locks WHERE locktype = 'advisory' AND granted"
    look = lambda: postgres_server.sql(query, database).strip()  # noqa: E731
    shared, alone = "ShareLock", "ExclusiveLock"
    with store.open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.overwrite(ROWS)
        assert look() == ""
        for statement, do, expected in (
            ("COMMIT", lambda: table.append(ROWS), shared),
            ("COMMIT", lambda: table.overwrite(ROWS), f"{alone} {shared}"),
            ("ducklake_expire_snapshots", lambda: lake.maintenance.expire_snapshots(older_than=NOW, force=True), alone),
            ("ducklake_cleanup", lambda: lake.maintenance.cleanup(older_than=NOW, force=True), alone),
        ):
            with monkeypatch.context() as patch:
                seen = during(lake, patch, statement, look)
                do()
            assert seen, statement
            assert set(seen) == {expected}, statement
        assert look() == ""


@pytest.mark.parametrize("kind", ["files", "postgres"])
def test_error_for_a_held_lock_names_the_holder(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = (
        file_store(tmp_path) if kind == "files" else server_store(request.getfixturevalue("postgres_server"), tmp_path)
    )
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.2)
    monkeypatch.setattr("lakeconf.guard.locks._ATTEMPT_SECONDS", 0.2)
    with store.open() as lake, store.open() as other:
        table = lake.create_table("raw.t", ROWS)
        other.refresh()
        before = lake.snapshot_id
        with other._session.guard.writing():
            table.append(ROWS)
            with pytest.raises(CommitError, match=f"is held by .*process {os.getpid()}"):
                lake.maintenance.expire_snapshots(older_than=NOW, force=True)
        with (
            other._session.guard.removing(),
            pytest.raises(CommitError, match=f"not free .* is held by .*process {os.getpid()}"),
        ):
            table.append(ROWS)
        with other._session.guard(["raw.t"]), pytest.raises(CommitError, match=f"held by .*process {os.getpid()}"):
            table.overwrite(ROWS)
        assert lake.refresh() == before + 1
        table.append(ROWS)
        assert len(lake.maintenance.expire_snapshots(older_than=NOW, force=True)) == before + 2


def test_inlined_delete_during_a_compaction_is_kept(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckLake itself would commit the merge of the files concurrently, and restore the deleted rows."""
    store = server_store(postgres_server, tmp_path)
    options = {"data_inlining_row_limit": 10}
    inlining = type(store)("other", store.metadata_backend, store.storage_backend, attach_options=options)
    with store.open() as lake, inlining.open() as other:
        table = lake.create_table("raw.t", ROWS)
        for number in range(4):
            table.append(pa.table({"n": pa.array(range(100 * number, 100 * number + 100), pa.int64())}))
        other.refresh()
        original = type(lake._session.writer).rows
        overtaken: list[int] = []

        def rows(self: Any, sql: str, *rest: Any) -> Any:
            if self is not lake._session.writer or "ducklake_merge" not in sql or overtaken:
                return original(self, sql, *rest)
            found = original(self, sql, *rest)
            overtaken.append(other.table("raw.t").delete("n IN (5, 205)"))
            return found

        monkeypatch.setattr(type(lake._session.writer), "rows", rows)
        lake.maintenance.compact()
        assert overtaken
        assert len(table.scan().collect("pyarrow")) == 398
