"""Flushes and compactions are commits: with a token, under the lock, repeated, and without lost rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from commit_hooks import at_commit, during
from lake_parts import session_of
from local_stores import ids, on_postgres, on_sqlite, store_of
from lock_files import held
from merge_cases import commit_info
from plain_sql import run_plain
from registering_process import run

from lakeconf import __version__
from lakeconf.errors import CommitError, LakeconfError, QueryError
from lakeconf.guard import locks
from lakeconf.guard.guard import LakeGuard
from lakeconf.lake import compaction_step
from lakeconf.lake.compaction_step import CompactionStep

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from servers import PostgresServer

    from lakeconf import Lake, Store


MERGE = "CALL ducklake_merge_adjacent_files('dev')"


@pytest.fixture
def lake(store: Store) -> Iterator[Lake]:
    """A lake with the table `t`, which has two files, at snapshot 3, and another writer's table `u`."""
    with store.open() as lake:
        for name in ("t", "u"):
            run_plain(lake, f"CREATE TABLE {name} (id BIGINT)")
        for _ in range(2):
            run_plain(lake, "INSERT INTO t FROM range(100)")
        lake.refresh()
        yield lake


def rival(lake: Lake) -> None:
    run_plain(lake, "INSERT INTO u VALUES (1)")


def overtaken(lake: Lake, patch: pytest.MonkeyPatch, times: int, states: list[str], lock: Path) -> None:
    """Lets another writer commit before each of the first attempts, and records how the lake's lock is held."""
    writer = type(session_of(lake).writer)
    rows = writer.rows

    def slow(self: Any, sql: str, *rest: Any) -> Any:
        found = rows(self, sql, *rest)
        if sql == MERGE:
            states.append(held(lock))
            if len(states) <= times:
                rival(lake)
        return found

    patch.setattr(writer, "rows", slow)


def files(lake: Lake) -> int:
    return len(lake.table("t").files())


def test_step_commits_once_with_a_token(lake: Lake) -> None:
    retries = "SELECT current_setting('ducklake_max_retry_count')"
    before = session_of(lake).writer.rows(retries)
    found = CompactionStep(session_of(lake), MERGE).run()
    assert [row[:2] for row in found] == [("main", "t")]
    assert lake.refresh() == 5
    assert files(lake) == 1
    info = commit_info(lake, 5)
    assert info["lakeconf"] == __version__
    assert len(info.pop("token")) == 32
    assert list(info) == ["lakeconf"]
    assert session_of(lake).writer.rows(retries) == before == [(100,)]
    assert CompactionStep(session_of(lake), MERGE).run() == []
    assert lake.refresh() == 5, "a step that changes nothing creates no snapshot"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has_locks", "times", "expected"),
    [
        (True, 1, 2 * ["shared"]),
        (True, 6, 5 * ["shared"] + 2 * ["alone"]),  # the writers wait
        (False, 6, 7 * ["not at all"]),
    ],
)
def test_step_that_another_commit_overtakes_is_repeated(
    lake: Lake,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    has_locks: bool,
    times: int,
    expected: list[str],
) -> None:
    caplog.set_level("INFO")
    states, lock = list[str](), tmp_path / "catalog.lakeconf-writers"
    if not has_locks:
        session_of(lake).guard = LakeGuard(None, session_of(lake).guard.marker)
        lock.touch()
    with monkeypatch.context() as patch:
        overtaken(lake, patch, times, states, lock)
        assert ("main", "t") in [row[:2] for row in CompactionStep(session_of(lake), MERGE).run()]
    assert states == expected
    lake.refresh()
    assert files(lake) == 1
    assert "another writer overtook a compaction step; repeating the step" in caplog.text


def test_step_gives_up_after_a_while(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "WAIT_SECONDS", 0.01)
    with monkeypatch.context() as patch:
        overtaken(lake, patch, 99, [], tmp_path / "catalog.lakeconf-writers")
        with pytest.raises(CommitError) as caught:
            CompactionStep(session_of(lake), MERGE).run()
    assert caught.value.message.startswith("the compaction lost every race with other writers: ")
    assert caught.value.hint == "try again later"
    lake.refresh()
    assert files(lake) == 2


def test_other_errors_of_a_step_are_raised_at_once(lake: Lake) -> None:
    with pytest.MonkeyPatch.context() as patch:
        calls = during(lake, patch, "no_such_function", lambda: 1)
        with pytest.raises(QueryError, match="no_such_function"):
            CompactionStep(session_of(lake), "CALL no_such_function()").run()
    assert calls == [1]
    with lake.transaction(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction_step, "_ATTEMPTS_BESIDE_WRITERS", 0)
        with pytest.raises(LakeconfError, match="open transaction"):
            CompactionStep(session_of(lake), MERGE).run()
    assert CompactionStep(session_of(lake), MERGE).run(), "the writer has no open transaction"


def test_step_is_not_committed_without_its_lock(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, lock = lake.refresh(), tmp_path / "catalog.lakeconf-writers"
    with monkeypatch.context() as patch:
        during(lake, patch, "ducklake_set_commit_message", lock.unlink)
        with pytest.raises(LakeconfError, match="was deleted while it was held, so nothing was written"):
            CompactionStep(session_of(lake), MERGE).run()
    assert lake.refresh() == before


def test_step_whose_reply_was_lost_succeeds(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost() -> None:
        raise QueryError("the reply was lost")

    at_commit(monkeypatch, after=lost)
    assert CompactionStep(session_of(lake), MERGE).run()
    assert (lake.refresh(), files(lake)) == (5, 1)


def test_two_flushes_of_one_delete_both_succeed(
    postgres_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one waits for the first one's rows in the catalog, and PostgreSQL then refuses its statement."""
    store = store_of(tmp_path, on_postgres(postgres_server), data_inlining_row_limit=10)
    with store.open() as lake, store.open() as other:
        run_plain(lake, "CREATE TABLE t AS FROM range(100) r(id)")
        run_plain(lake, "DELETE FROM t WHERE id = 1")
        begun: list[bool] = []

        def flush_first() -> None:
            begun.append(True)
            if len(begun) == 1:
                other.maintenance.flush()

        during(lake, monkeypatch, "CALL ducklake_flush", flush_first)
        lake.maintenance.flush()
        assert len(begun) == 3, "the flush was repeated"
        assert len(lake.table("t").scan().collect()) == 99


ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.fixture
def lakes(tmp_path: Path) -> Iterator[list[Lake]]:
    """Two open lakes of one store; the table `t` has three rows in the catalog and none in files."""
    store = store_of(tmp_path, on_sqlite(tmp_path), data_inlining_row_limit=10)
    with store.open() as one, store.open() as other:
        run_plain(one, "CREATE TABLE t (id BIGINT)", "INSERT INTO t VALUES (1), (2), (3)")
        for lake in (one, other):
            lake.refresh()
        yield [one, other]


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_a_flush_does_not_conflict_with_a_write_that_depends_on_rows(kind: str, tmp_path: Path) -> None:
    store = store_of(tmp_path, {"type": kind, "uri": str(tmp_path / "catalog")}, data_inlining_row_limit=10)
    with store.open() as lake:
        run_plain(lake, "CREATE TABLE t (id BIGINT)", "INSERT INTO t VALUES (1), (2), (3)")
        lake.refresh()
        with lake.transaction() as tx:
            assert ids(tx) == [1, 2, 3]
            run_plain(lake, "CALL ducklake_flush_inlined_data('dev')")
            tx.table("t").merge(ROWS, on="id")
        assert ids(lake) == [1, 2, 3]


def test_a_lake_can_write_after_its_own_flush(lakes: list[Lake]) -> None:
    one, _ = lakes
    assert ids(one) == [1, 2, 3]
    one.maintenance.flush()
    one.table("t").delete("id = 1")
    assert ids(one) == [2, 3]


def test_a_delete_finds_a_row_that_another_process_flushes_meanwhile(
    lakes: list[Lake], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = lakes
    run_plain(one, "INSERT INTO t FROM range(100, 120)", "INSERT INTO t FROM range(120, 140)")
    run_plain(one, "SET threads = 4")  # on one thread, DuckDB needs no more connections to the catalog
    for lake in lakes:
        lake.refresh()
    found: list[bool] = []

    def flush_once() -> None:
        found.append(True)
        if len(found) == 1:
            other.maintenance.flush()

    during(one, monkeypatch, 'DELETE FROM "dev"', flush_once)
    one.table("t").delete("id = 2")
    assert ids(one) == [1, 3, *range(100, 140)]
    one.table("t").delete("id = 99")
    assert ids(one) == [1, 3, *range(100, 140)]


@pytest.mark.slow
def test_two_lakes_that_register_files_at_the_same_time_end_with_all_rows(project: Path) -> None:
    """DuckLake must not load the mapping of the other file twice: it would crash or hang (ducklake#1431)."""
    done = run(project / "lakeconf.toml")
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == [f"{name} 1" for name in ("one", "two", *(f"later_{at}" for at in range(4)))]
