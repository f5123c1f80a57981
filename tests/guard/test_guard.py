"""The lock of a lake: writers share it, and operations that remove snapshots or files hold it exclusively."""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from local_stores import on_postgres, store_of

from lakeconf.errors import CommitError, ConnectionFailed, StorageError
from lakeconf.guard import locks, server_locks
from lakeconf.guard.guard import locks_of

if TYPE_CHECKING:
    from servers import PostgresServer

    from lakeconf import Lake, Store

NOW = dt.timedelta(0)
ROWS = pa.table({"n": pa.array([1], pa.int64())})


def file_store(folder: Path) -> Store:
    return store_of(folder, {"type": "sqlite", "uri": str(folder / "catalog.sqlite")})


def server_store(server: PostgresServer, folder: Path) -> Store:
    return store_of(folder, {**on_postgres(server), "metadata_schema": "lake"})


def held(path: Path) -> str:
    """How another holder holds a lock file: not at all, shared or alone."""
    with path.open() as file:
        for kind, name in ((fcntl.LOCK_EX, "not at all"), (fcntl.LOCK_SH, "shared")):
            try:
                fcntl.flock(file, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            return name
    return "alone"


def during(lake: Lake, monkeypatch: pytest.MonkeyPatch, statement: str, look: Any) -> list[Any]:
    """Collects the results of `look` before each statement of the writer that contains a text."""
    seen: list[Any] = []
    connection = type(lake._session.writer)
    for name in ("execute", "rows"):
        original = getattr(connection, name)

        def spied(self: Any, sql: str, *rest: Any, original: Any = original) -> Any:
            if statement in sql:
                seen.append(look())
            return original(self, sql, *rest)

        monkeypatch.setattr(connection, name, spied)
    return seen


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
    monkeypatch.setattr("lakeconf.guard.server_locks._ATTEMPT_SECONDS", 0.2)
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


def test_lock_lost_before_the_commit_fails_the_write(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = server_store(postgres_server, tmp_path)
    kill = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
        "WHERE application_name LIKE 'lakeconf on %' AND pid IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
    )
    with store.open() as lake:
        table = lake.create_table("raw.t", ROWS)
        before = lake.snapshot_id
        with monkeypatch.context() as patch:
            during(lake, patch, "ducklake_set_commit_message", lambda: postgres_server.sql(kill))
            with pytest.raises(ConnectionFailed, match="held the lock was lost, so nothing was written"):
                table.append(ROWS)
        assert lake.refresh() == before
        # After COMMIT was sent, losing the lock has no effect.
        with monkeypatch.context() as patch:
            assert during(lake, patch, "COMMIT", lambda: postgres_server.sql(kill)) == []
            table.append(ROWS)
        assert lake.refresh() == before + 1
        table.append(ROWS)
        assert len(table.scan().collect()) == 2


@pytest.mark.parametrize("what", ["link", "folder", "pipe"])
def test_lock_file_that_is_not_a_regular_file_is_rejected(what: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    lock = tmp_path / "catalog.sqlite.lakeconf-writers"
    if what == "link":
        lock.symlink_to(target)
    elif what == "folder":
        lock.mkdir()
    else:
        os.mkfifo(lock)
    with file_store(tmp_path).open() as lake:
        with pytest.raises(StorageError, match=r"lakeconf-writers is (a symbolic link|not a regular file)"):
            lake.create_table("raw.t", ROWS)
        lock.rmdir() if what == "folder" else lock.unlink()
        lake.create_table("raw.t", ROWS)
    assert not target.exists()


def test_lock_files_have_the_permissions_of_the_catalog(tmp_path: Path) -> None:
    store = file_store(tmp_path)
    store.connect().close()
    catalog = tmp_path / "catalog.sqlite"
    old = os.umask(0o077)
    try:
        for mode in (0o664, 0o600):
            catalog.chmod(mode)
            with store.open() as lake:
                lake.create_table(f"raw.t{mode}", ROWS).overwrite(ROWS)
            for lock in tmp_path.glob("*.lakeconf-*"):
                assert lock.stat().st_mode & 0o777 == mode
                lock.unlink()
    finally:
        os.umask(old)


FORK = """
import os, sys, signal
from pathlib import Path
from lakeconf.guard.file_locks import FileLocks
with FileLocks(Path(sys.argv[1])).exclusive():
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
        signal.pause()
    if sys.argv[2] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("ends", ["killed", "released"])
def test_forked_process_does_not_keep_the_lock(ends: str, tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.sqlite"
    catalog.touch()
    # The output goes to a file, because the child would keep a pipe open.
    with (
        (tmp_path / "out").open("w+") as out,
        subprocess.Popen([sys.executable, "-c", FORK, str(catalog), ends], stdout=out) as process,
    ):
        process.wait()
    store = file_store(tmp_path)
    found = locks_of(store.metadata_backend, store.names, store.secrets)
    assert found is not None
    try:
        with found.exclusive():
            assert held(tmp_path / "catalog.sqlite.lakeconf-writers") == "alone"
    finally:
        for line in (tmp_path / "out").read_text().split():
            os.kill(int(line), signal.SIGKILL)


def test_killed_writer_releases_its_lock(tmp_path: Path) -> None:
    catalog = tmp_path / "catalog.sqlite"
    catalog.touch()
    hold = FORK.replace("child = os.fork()", "child = 1").replace("SIGKILL)", "SIGKILL)")
    subprocess.run([sys.executable, "-c", hold, str(catalog), "killed"], check=False)
    assert held(tmp_path / "catalog.sqlite.lakeconf-writers") == "not at all"


def test_symbolic_link_to_the_catalog_uses_the_same_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.1)
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "catalog.sqlite").symlink_to(tmp_path / "catalog.sqlite")
    with file_store(tmp_path).open() as lake:
        linked, direct = file_store(tmp_path / "links"), lake._session.guard
        through_link = locks_of(linked.metadata_backend, linked.names, linked.secrets)
        assert through_link is not None
        with through_link.shared(), pytest.raises(CommitError, match="not free"), direct.removing():
            raise AssertionError


def test_write_fails_if_its_lock_file_was_deleted(tmp_path: Path) -> None:
    lock = tmp_path / "catalog.sqlite.lakeconf-writers"
    with file_store(tmp_path).open() as lake, file_store(tmp_path).open() as other:
        table = lake.create_table("raw.t", ROWS)
        before = lake.refresh()
        with lake.transaction() as transaction:
            transaction.table("raw.t").append(ROWS)
            lock.unlink()
            with other._session.guard.removing():
                pass
        assert held(lock) == "not at all"
        assert lake.snapshot_id == before + 1

        def check(rows: Any) -> Any:
            lock.unlink()
            return rows.filter(n=0)

        def write() -> None:
            with lake.transaction() as transaction:
                transaction.table("raw.t").append(ROWS)
                transaction.audit("deletes the lock file", check, table="raw.t")

        with pytest.raises(StorageError, match="was deleted while it was held"):
            write()
        assert lake.refresh() == before + 1
        table.append(ROWS)


def test_write_reacquires_only_its_own_lock(postgres_server: PostgresServer, tmp_path: Path) -> None:
    store = server_store(postgres_server, tmp_path)
    database = store.metadata_backend.database  # type: ignore[attr-defined]
    with store.open() as lake:
        table = lake.create_table("raw.t", ROWS)
        with lake._session.guard.writing() as other:
            assert isinstance(other, server_locks._HeldOnServer)
            other.release()
            table.append(ROWS)
            assert postgres_server.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", database) == "0"


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
