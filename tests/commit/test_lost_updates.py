"""Lost updates are prevented, and two concurrent writers cannot both pass an audit that only one satisfies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from threading import Barrier
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest
from commit_hooks import at_commit
from lake_parts import session_of
from local_stores import ids, on_catalog, store_of

from lakeconf.connection.connection import Connection
from lakeconf.errors import AuditError, CommitConflictError

if TYPE_CHECKING:
    from pathlib import Path

    from lakeconf import Lake, Store

UNIQUE = "SELECT id FROM t GROUP BY id HAVING count(*) > 1"
NOBODY = pa.table({"id": pa.array([], pa.int64())})


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store with a table `t` of one row and an empty table `other`."""
    store = store_of(tmp_path, on_catalog(request, tmp_path))
    with store.open() as lake:
        lake.create_table("t", like={"id": "BIGINT"}).append(one(1))
        lake.create_table("other", like={"id": "BIGINT"})
    return store


def one(number: int) -> pa.Table:
    return pa.table({"id": pa.array([number], pa.int64())})


def changed(lake: Lake) -> pa.Table:
    return lake.table("t").scan().with_columns(nw.col("id") * 10).collect("pyarrow").to_native()


def test_a_read_of_the_past_conflicts_with_nothing_that_the_lake_has_seen(store: Store) -> None:
    with store.open() as lake, store.open() as rival:
        before = lake.snapshot_id
        rival.table("t").append(one(2))
        lake.refresh()
        past = lake.at(version=before).table("t").scan().collect("pyarrow").to_native()
        lake.table("t").overwrite(past)
        assert ids(lake) == [1]


def test_own_commits_do_not_hide_commits_of_other_writers(store: Store) -> None:
    with store.open() as lake, store.open() as rival:
        for own in (one(5), NOBODY):
            frame = changed(lake)
            rival.table("t").append(one(2))
            lake.table("other").append(own)
            with pytest.raises(CommitConflictError, match="of another writer"):
                lake.table("t").overwrite(frame)
            lake.refresh()
        assert ids(lake) == [1, 2, 2]
        lake.table("t").append(one(3))
        lake.table("t").overwrite(changed(lake))
        assert ids(lake) == [10, 20, 20, 30]


def renamed_by_the_rival(lake: Lake, rival: Lake) -> None:
    rival.rename_table("t", "new")
    rival.table("new").append(one(2))
    lake.table("other").append(one(5))  # moves the reads of the lake past the commits of the rival


def renamed_by_the_lake(lake: Lake, rival: Lake) -> None:
    lake.rename_table("t", "new")
    rival.refresh()
    rival.table("new").append(one(2))


def renamed_in_a_transaction(lake: Lake, rival: Lake) -> None:
    with lake.transaction() as transaction:
        transaction.rename_table("t", "new")
    rival.refresh()
    rival.table("new").append(one(2))


def swapped(lake: Lake, rival: Lake) -> None:
    rival.rename_table("t", "former")
    rival.rename_table("third", "t")
    lake.table("other").append(one(5))


def made_again(lake: Lake, rival: Lake) -> None:
    rival.drop_table("t")
    rival.create_table("t", {"id": "BIGINT"})
    lake.table("other").append(one(5))


RENAMES = {
    function.__name__: (function, table)
    for function, table in (
        (renamed_by_the_rival, "new"),
        (renamed_by_the_lake, "new"),
        (renamed_in_a_transaction, "new"),
        (swapped, "t"),
        (made_again, "t"),
    )
}


@pytest.mark.slow
@pytest.mark.prove("postgres")
@pytest.mark.parametrize("case", RENAMES)
def test_rows_of_a_table_that_had_another_name_are_not_lost(store: Store, case: str) -> None:
    rename, table = RENAMES[case]
    with store.open() as lake, store.open() as rival:
        lake.create_table("third", {"id": "BIGINT"}).append(one(7))
        lake.refresh()
        rival.refresh()
        frame = changed(lake)
        rename(lake, rival)
        rival.refresh()
        before = ids(rival, table)
        for write in (lambda: lake.table(table).overwrite(frame), lambda: lake.table(table).delete("id > 0")):
            with pytest.raises(CommitConflictError, match="of another writer"):
                write()
        assert ids(rival, table) == before


def test_own_rename_conflicts_with_nothing(store: Store) -> None:
    with store.open() as lake:
        frame = changed(lake)
        lake.rename_table("t", "new")
        lake.table("new").overwrite(frame)
        assert ids(lake, "new") == [10]


def insert_while_swapped(lake: Lake, rival: Lake) -> None:
    with lake.transaction() as transaction:
        transaction.execute("INSERT INTO other SELECT id FROM t")
        swapped(rival, rival)


@pytest.mark.slow
def test_statement_of_a_transaction_depends_on_the_table_that_had_the_name(store: Store) -> None:
    with store.open() as lake, store.open() as rival:
        rival.create_table("third", {"id": "BIGINT"}).append(one(7))
        lake.refresh()
        with pytest.raises(CommitConflictError, match="another writer"):
            insert_while_swapped(lake, rival)
        lake.refresh()
        assert ids(lake, "other") == [5]


@pytest.mark.slow
@pytest.mark.parametrize(("query", "reads"), [("SELECT f.id FROM f JOIN t USING (id)", True), ("FROM f", False)])
def test_query_over_frames_reads_the_tables_that_it_names(store: Store, query: str, *, reads: bool) -> None:
    with store.open() as lake, store.open() as rival:
        frame = lake.sql(query, f=one(1)).collect("pyarrow").to_native()
        assert frame.num_rows == 1
        rival.table("t").append(one(2))
        if reads:
            with pytest.raises(CommitConflictError, match="of another writer"):
                lake.table("t").delete("id = 1")
        else:
            lake.table("t").delete("id = 1")


@pytest.mark.slow
def test_overwrite_conflicts_if_snapshots_since_the_read_have_expired(store: Store) -> None:
    with store.open() as lake, store.open() as rival:
        frame = changed(lake)
        rival.table("t").append(one(2))
        rival.table("other").append(one(2))
        expire(store, 4)
        with pytest.raises(CommitConflictError, match=r"(?s)snapshots between 3 and 5 have expired.*refresh"):
            lake.table("t").overwrite(frame)
        lake.refresh()
        lake.table("t").overwrite(changed(lake))
        assert ids(lake) == [10, 20]


def test_lake_remembers_the_changes_of_snapshots_it_expired(store: Store) -> None:
    with store.open() as lake, store.open() as rival:
        lake.table("t").append(one(2))
        assert lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        lake.table("t").overwrite(changed(lake))
        assert ids(lake) == [10, 20]
        frame = changed(lake)
        rival.refresh()
        rival.table("t").append(one(3))
        lake.table("other").append(one(3))
        assert lake.maintenance.expire_snapshots(older_than=timedelta(0), force=True)
        with pytest.raises(CommitConflictError, match="of another writer"):
            lake.table("t").overwrite(frame)
        lake.refresh()
        assert ids(lake) == [3, 10, 20]


def expire(store: Store, version: int) -> None:
    """Expires a snapshot without lakeconf."""
    with store.connect() as connection:
        connection.execute(f"CALL ducklake_expire_snapshots('dev', versions => [{version}])")


def test_refresh_does_not_move_a_running_transaction(store: Store) -> None:
    with store.open() as lake, store.open() as rival:

        def overwrite() -> None:
            with lake.transaction() as tx:
                tx.table("t").overwrite(changed(tx))
                rival.table("t").append(one(2))
                lake.refresh()

        with pytest.raises(CommitConflictError):
            overwrite()
        assert ids(rival) == [1, 2]


def test_refresh_in_another_thread_does_not_hide_commits_since_a_scan(store: Store) -> None:
    with store.open() as lake, store.open() as rival, ThreadPoolExecutor(1) as other:
        frame = changed(lake)
        rival.table("t").append(one(2))
        other.submit(lake.refresh).result()
        with pytest.raises(CommitConflictError, match="was read at snapshot 3, and snapshot 4 of another writer"):
            lake.table("t").overwrite(frame)
        # The other thread has refreshed, so its write does not conflict.
        other.submit(lambda: lake.table("t").delete("id = 2")).result()
        lake.refresh()
        lake.table("t").overwrite(changed(lake))
        assert ids(lake) == [10]


def test_write_conflicts_with_a_commit_of_another_thread_after_a_scan(store: Store) -> None:
    """The threads share one lake, so the commit is made by the same session."""
    with store.open() as lake, ThreadPoolExecutor(1) as other:
        frame = changed(lake)
        other.submit(lambda: lake.table("t").overwrite(changed(lake))).result()
        for write in (lake.table("t").overwrite, lambda rows: lake.table("t").merge(rows, on="id")):
            with pytest.raises(CommitConflictError, match="of another writer"):
                write(frame)
        assert ids(lake) == [10]
        lake.refresh()
        lake.table("t").overwrite(changed(lake))
        assert ids(lake) == [100]
        # A thread that read the table after that commit, or never read it, does not conflict.
        other.submit(lake.refresh).result()
        other.submit(lambda: lake.table("t").overwrite(changed(lake), where="id > 0")).result()
        with ThreadPoolExecutor(1) as third:
            third.submit(lambda: lake.table("t").delete("id = 7")).result()
            third.submit(lambda: lake.table("t").overwrite(changed(lake))).result()
        assert ids(lake) == [10000]


@pytest.mark.slow
def test_concurrent_appends_of_one_id_do_not_both_pass_a_unique_audit(store: Store) -> None:
    start = Barrier(2)

    def append(_: int) -> str:
        with store.open() as lake:
            try:
                with lake.transaction() as tx:
                    tx.table("t").append(one(7))
                    tx.audit("unique", UNIQUE)
                    start.wait()
            except AuditError:
                return "refused"
            return "committed"

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(append, range(2))) == ["committed", "refused"]
    with store.open() as lake:
        assert ids(lake) == [1, 7]


def test_commit_between_conflict_check_and_commit_is_detected(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """This happens if a lock is lost, and with writers that take no locks."""
    with store.open() as lake, store.open() as rival, store.connect() as foreign:

        def audited() -> None:
            with lake.transaction() as tx:
                tx.table("t").append(one(2))
                tx.audit("unique", UNIQUE)

        with monkeypatch.context() as patch:
            at_commit(patch, before=lambda: foreign.execute("INSERT INTO dev.t VALUES (2)"))
            with pytest.raises(AuditError, match="unique"):
                audited()
        lake.refresh()
        assert ids(lake) == [1, 2]
        setting = Connection(foreign).rows("SELECT current_setting('ducklake_max_retry_count')")
        assert session_of(rival).writer.rows("SELECT current_setting('ducklake_max_retry_count')") == [(100,)]
        assert setting != [(0,)]


def test_writes_without_a_prior_read_need_no_refresh(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with store.open() as lake, store.connect() as foreign:
        numbers = iter(range(100, 200))

        def busy() -> None:
            foreign.execute(f"INSERT INTO dev.t VALUES ({next(numbers)})")

        table = lake.table("t")
        for write in (
            lambda: table.delete("id = 1"),
            lambda: table.update({"id": 7}, where="id = 100"),
            lambda: table.overwrite(one(8), where="id = 8"),
        ):
            busy()
            with monkeypatch.context() as patch:
                at_commit(patch, before=busy)
                write()
        assert ids(lake) == [7, 8, 101, 102, 103, 104, 105]
        busy()
        with pytest.raises(CommitConflictError):
            table.delete("id = 8")
        lake.refresh()
        table.delete("id = 8")
        busy()
        table.overwrite(one(9))
        assert ids(lake) == [9]


@pytest.mark.slow
def test_transactions_overtaken_by_other_commits_are_retried(store: Store) -> None:
    def append(number: int) -> None:
        with store.open() as lake:
            for step in range(4):
                with lake.transaction() as tx:
                    tx.table("t").append(one(10 * number + step))
                    tx.audit("unique", UNIQUE)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(append, (1, 2, 3)))
    with store.open() as lake:
        assert ids(lake) == [1, *(10 * number + step for number in (1, 2, 3) for step in range(4))]
