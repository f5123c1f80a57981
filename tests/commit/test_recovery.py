"""The catalog of a commit: what it proves after a lost reply, and that no file of the commit is lost."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from catalog_lake import AttachedLake, lake
from commit_hooks import at_commit
from lake_parts import session_of
from local_stores import config_of, ids, in_bucket, on_postgres
from plain_sql import run_plain

import lakeconf
from lakeconf.commit import lost_reply
from lakeconf.commit.lost_reply import KeptFiles, await_commits, check_written, find_commit
from lakeconf.commit.sql_commit import Committing, SqlCommit
from lakeconf.errors import CatalogError, CommitError, LakeconfError, QueryError, StorageError
from lakeconf.store import open_connection

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from servers import AzureServer, FaultProxy, PostgresServer, S3Server

    from lakeconf import Store
    from lakeconf.connection.connection import Connection


TOKEN = "0123456789abcdef"
FAILS = "SELECT error('a commit takes too long')"


@pytest.fixture
def source(tmp_path: Path) -> Iterator[AttachedLake]:
    """A lake with the table `t`, which has one file, at snapshot 2."""
    with lake("duckdb", tmp_path) as attached:
        attached.run("CREATE TABLE lake.t (id BIGINT)", "INSERT INTO lake.t FROM range(100)")
        yield attached


def catalog_of(
    source: AttachedLake, barrier: str | Committing = Committing.UNKNOWN, opened: list[Connection] | None = None
) -> SqlCommit:
    def reconnect() -> Connection:
        connection = source.connection.cursor()
        if opened is not None:
            opened.append(connection)
        return connection

    return SqlCommit(source.connection.cursor(), source.reader, reconnect, barrier, TOKEN)


def commit(source: AttachedLake, *statements: str, token: str | None = None) -> int:
    """Commits statements with a token, and returns the snapshot."""
    info = "NULL" if token is None else f'\'{{"token": "{token}"}}\''
    message = f"CALL ducklake_set_commit_message('lake', NULL, NULL, extra_info => {info})"
    source.run("BEGIN", *statements, message, "COMMIT")
    return source.newest


def more(table: str = "t") -> str:
    return f"INSERT INTO lake.{table} FROM range(100)"


def lose(source: AttachedLake, *versions: int) -> None:
    """Removes snapshots from the catalog."""
    for table in ("snapshot", "snapshot_changes"):
        source.metadata(f"DELETE FROM ducklake_{table} WHERE snapshot_id IN {(*versions, -1)}")


def files(source: AttachedLake) -> set[str]:
    return {str(path) for path in (source.folder / "data").rglob("*.parquet")}


# Looking for a commit.


def test_commit_is_found_by_its_token(source: AttachedLake) -> None:
    commit(source, more())
    begun = commit(source, more(), token="another")
    commit(source, more(), token="a third")
    made = commit(source, more(), token=TOKEN)
    commit(source, more(), token="later")
    assert find_commit(source.reader, TOKEN, begun) == made
    assert find_commit(source.reader, TOKEN, made - 1) == made
    assert find_commit(source.reader, "another", begun - 1) == begun
    lose(source, begun - 1, made - 1)
    assert find_commit(source.reader, TOKEN, begun - 2) == made


def test_complete_catalog_without_the_token_proves_that_the_commit_failed(source: AttachedLake) -> None:
    begun = commit(source, more(), token=TOKEN)
    assert find_commit(source.reader, TOKEN, begun) is None, "a token of an earlier snapshot is of another commit"
    commit(source, more(), token="another")
    commit(source, more())
    assert find_commit(source.reader, TOKEN, begun) is None
    lose(source, *range(begun + 1))
    assert find_commit(source.reader, TOKEN, begun) is None, "only later snapshots can be that of the commit"


@pytest.mark.parametrize("lost", [[3], [4], [3, 4], [4, 5]], ids=str)
def test_catalog_without_a_later_snapshot_proves_nothing(source: AttachedLake, lost: list[int]) -> None:
    begun = source.newest
    for _ in range(3):
        commit(source, more())
    lose(source, *lost)
    if 5 in lost:  # the newest snapshot is never expired: this catalog is an older copy
        assert find_commit(source.reader, TOKEN, begun) is None
        begun = 4
    with pytest.raises(CatalogError) as caught:
        find_commit(source.reader, TOKEN, begun)
    expected = f"the catalog lacks snapshots after {begun}, so the commit may have been in it"
    assert caught.value.message == expected
    lose(source, *range(source.newest + 1))
    with pytest.raises(CatalogError, match=f"lacks snapshots after {begun}"):
        find_commit(source.reader, TOKEN, begun)


# The catalog of an attempt.


def test_answered_commit_is_looked_up_without_a_new_connection(source: AttachedLake) -> None:
    opened: list[Connection] = []
    catalog = catalog_of(source, FAILS, opened)
    begun = source.newest
    assert catalog.find(begun, answered=True) is None
    assert catalog.find(begun, answered=True) is None
    assert commit(source, more(), token=TOKEN) == catalog.find(begun, answered=True)
    assert opened == []


@pytest.mark.parametrize("barrier", ["SELECT 1", *Committing], ids=str)
def test_lost_commit_is_looked_up_on_a_new_connection(source: AttachedLake, barrier: str | Committing) -> None:
    opened: list[Connection] = []
    catalog = catalog_of(source, barrier, opened)
    begun = source.newest
    if barrier is Committing.UNKNOWN:
        with pytest.raises(CatalogError, match="cannot tell whether a commit is still in progress"):
            catalog.find(begun, answered=False)
    else:
        assert catalog.find(begun, answered=False) is None
    made = commit(source, more(), token=TOKEN)
    assert catalog.find(begun, answered=False) == made
    assert len(opened) == 2
    for connection in opened:
        with pytest.raises(LakeconfError, match="closed"):
            connection.execute("SELECT 1")


def test_wait_for_other_commits_is_rolled_back_and_leaves_no_transaction(source: AttachedLake) -> None:
    await_commits(source.reader, "CREATE TABLE memory.made AS SELECT 1")
    assert source.rows("SELECT count(*) FROM duckdb_tables() WHERE table_name = 'made'") == [(0,)]
    commit(source, more(), token=TOKEN)
    for wait in (
        lambda: await_commits(source.reader, FAILS),
        lambda: catalog_of(source, FAILS).find(source.newest - 1, answered=False),
    ):
        with pytest.raises(QueryError, match="a commit takes too long"):
            wait()
    source.run("BEGIN", "ROLLBACK")
    await_commits(source.reader, "COMMIT")  # then the rollback fails, as on a lost connection


# Keeping the files of a commit.


def test_removed_files_of_a_transaction_are_restored(source: AttachedLake) -> None:
    source.run(
        "CREATE SCHEMA lake.raw", 'CREATE TABLE lake.raw."Ta.ble" (id BIGINT)', "CREATE TABLE lake.new (id BIGINT)"
    )
    source.run("ALTER TABLE lake.new RENAME TO renamed", "CREATE TABLE lake.gone (id BIGINT)", "DROP TABLE lake.gone")
    source.run("CREATE TABLE lake.first (id BIGINT)", "ALTER TABLE lake.first RENAME TO drop")
    before = files(source)
    catalog = catalog_of(source)
    begun = catalog.begin()
    catalog.writer.execute("CREATE TABLE lake.main.new (id BIGINT); CREATE TABLE lake.raw.made (id BIGINT)")
    # DuckLake names the folders of these with UUIDs, or the folder of a table has another table's name.
    catalog.writer.execute('CREATE TABLE lake.raw."c,1 ?" (id BIGINT)')
    catalog.writer.execute("DROP TABLE lake.drop; CREATE TABLE lake.drop (id BIGINT)")
    catalog.writer.execute("CREATE TABLE lake.paths (filename BIGINT); CREATE TABLE lake.later (id BIGINT)")
    written = ["main.t", 'raw."Ta.ble"', "main.renamed", "main.new", "raw.made", 'raw."c,1 ?"', "main.drop"]
    written += ["main.paths", "main.later"]
    for table in written:
        catalog.writer.execute(more(table))
    catalog.writer.execute("ALTER TABLE lake.t RENAME TO t9; ALTER TABLE lake.later RENAME TO latest")
    made = {path: Path(path).read_bytes() for path in files(source) - before}
    assert len(made) == len(written)
    in_catalog = {"main.t", 'raw."Ta.ble"', "main.renamed"}
    catalog.keep_written([table.upper() if table in in_catalog else table for table in written], ["main.drop"], begun)
    for path in made:
        Path(path).unlink()
    catalog.restore_written()
    assert {path: Path(path).read_bytes() for path in files(source) - before} == made
    catalog.release_written()
    for path in made:
        Path(path).unlink()
    catalog.restore_written()
    assert files(source) == before
    catalog.roll_back()


# Checking the files of a commit.


def file_of(source: AttachedLake, kind: str) -> tuple[Path, int]:
    """The newest file of a kind, and the snapshot at which it begins."""
    found = source.metadata(
        f"SELECT path, begin_snapshot FROM ducklake_{kind}_file ORDER BY {kind}_file_id DESC LIMIT 1"
    )
    ((path, begin),) = found
    return source.folder / "data" / "main" / "t" / path, begin


@pytest.mark.parametrize("kind", ["data", "delete"])
def test_missing_file_of_a_snapshot_is_an_error(source: AttachedLake, kind: str) -> None:
    made = commit(source, more() if kind == "data" else "DELETE FROM lake.t WHERE id > 7")
    path, begin = file_of(source, kind)
    commit(source, more())
    path.unlink()
    assert begin == made
    with pytest.raises(CommitError) as caught:
        catalog_of(source).check_written(made)
    assert caught.value.message == (
        f"snapshot {made} was committed, but its reply was lost. DuckLake treated it as failed and removed {path}, so "
        f"main.t cannot be read from snapshot {made} on"
    )
    assert caught.value.hint == (
        f"restore the file, such as from a versioned bucket; or copy main.t from snapshot {made - 1}, drop the table "
        "and create it again; or restore the catalog from a backup"
    )
    for other in {*source.versions()} - {made}:
        check_written(source.reader, other)


def test_missing_file_of_a_compaction_begins_at_an_earlier_snapshot(source: AttachedLake) -> None:
    commit(source, more())
    source.run("CALL ducklake_merge_adjacent_files('lake')")
    path, begin = file_of(source, "data")
    made = source.newest
    assert begin < made
    path.unlink()
    with pytest.raises(CommitError, match=rf"main\.t cannot be read from snapshot {begin} on"):
        check_written(source.reader, made)


def test_files_of_the_first_snapshot_and_in_other_folders_are_checked(source: AttachedLake, tmp_path: Path) -> None:
    path, _ = file_of(source, "data")
    outside = tmp_path / "outside.parquet"
    source.run(f"COPY (SELECT range AS id FROM range(9)) TO '{outside}'")
    made = commit(source, f"CALL ducklake_add_data_files('lake', 't', '{outside}')")
    check_written(source.reader, made)
    for removed in (outside, path):
        removed.unlink()
    with pytest.raises(CommitError, match=f"removed {outside}, so"):
        check_written(source.reader, made)
    lose(source, 0, 1)
    with pytest.raises(CommitError, match="snapshot 2 was committed"):
        check_written(source.reader, 2)


def test_files_of_a_table_that_the_snapshot_lacks_are_not_checked(source: AttachedLake) -> None:
    made = commit(source, more())
    path, _ = file_of(source, "data")
    path.unlink()
    source.metadata(f"UPDATE ducklake_table SET end_snapshot = {made}")
    check_written(source.reader, made)


def test_file_exists_or_is_missing_or_cannot_be_examined(bucket_server: S3Server | AzureServer, tmp_path: Path) -> None:
    storage = in_bucket(bucket_server)
    store = lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev")
    assert store.storage_backend is not None
    folder = store.storage_backend.location
    missing = folder.replace("/lake/", "-none/lake/")
    with open_connection(store) as connection:
        exists = partial(lost_reply._exists, connection)
        connection.execute(f"COPY (SELECT 1) TO '{folder}there.parquet'")
        names = ("there.parquet", "missing.parquet")
        found = {name: exists(f"{folder}{name}") for name in names}
        assert found == {"there.parquet": True, "missing.parquet": False}
        with pytest.raises(StorageError):
            exists(f"{missing}there.parquet")
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        assert not exists(f"{tmp_path}/link")
        name = f"{tmp_path}/{'x' * 300}"
        with pytest.raises(StorageError, match=f"^{name} cannot be examined: File name too long$"):
            exists(name)


@pytest.fixture(params=["local", "s3", "azure"])
def stores(
    request: pytest.FixtureRequest, tmp_path: Path, postgres_server: PostgresServer, postgres_proxy: FaultProxy
) -> list[Store]:
    """Two stores of the same lake: a direct one and one through the proxy."""
    storage = None if request.param == "local" else in_bucket(request.getfixturevalue(f"{request.param}_server"))
    database = postgres_server.create_database()
    catalogs = [on_postgres(postgres_server, database, server.port) for server in (postgres_server, postgres_proxy)]
    return [lakeconf.init(config_of(tmp_path, catalog, storage)).get_store("dev") for catalog in catalogs]


@pytest.fixture
def lost(stores: list[Store], postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Writes with a lost reply to COMMIT, and returns the ids of the table `t` afterwards."""
    direct, hurt = stores

    def write(call: Callable[[lakeconf.Lake], object]) -> list[int]:
        with hurt.open() as lake:
            at_commit(monkeypatch, before=lambda: postgres_proxy.reset_on(b"COMMIT", forward=True))
            call(lake)
            assert postgres_proxy.fired == 1
        with direct.open() as other:
            return ids(other)

    return write


def rows(*numbers: int) -> pa.Table:
    return pa.table({"id": pa.array(numbers, pa.int64())})


@pytest.mark.slow
def test_lost_commit_replies_lose_no_rows(
    stores: list[Store], postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    direct, hurt = stores
    with direct.open() as other:
        other.create_table("t", {"id": "BIGINT"}).append(rows(*range(10)))
    with hurt.open() as lake:
        table, writer = lake.table("t"), session_of(lake).writer

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


@pytest.mark.slow
def test_flush_of_only_deletes_keeps_its_files_after_a_lost_reply(stores: list[Store], lost: Any) -> None:
    """DuckLake's flush function returns no row for a table of which it flushes only deletes."""
    with stores[0].open() as other:
        other.create_table("t", {"id": "BIGINT"}).append(rows(*range(10)))
        run_plain(other, "CALL dev.set_option('data_inlining_row_limit', 10)")
        run_plain(other, "DELETE FROM t WHERE id = 5")
    assert lost(lambda lake: lake.maintenance.flush()) == [0, 1, 2, 3, 4, 6, 7, 8, 9]


@pytest.mark.slow
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
def test_files_of_partitions_are_kept(is_new: bool, stores: list[Store], lost: Any) -> None:
    """Also those of a table that the transaction creates, whose folder only DuckLake knows."""
    if not is_new:
        with stores[0].open() as other:
            other.create_table("t", {"id": "BIGINT"}, partitioned_by=["id"])

    def write(lake: lakeconf.Lake) -> None:
        with lake.transaction() as transaction:
            if is_new:
                transaction.create_table("t", {"id": "BIGINT"}, partitioned_by=["id"])
            transaction.table("t").append(rows(1, 2, 3))

    assert lost(write) == [1, 2, 3]


@pytest.mark.slow
def test_files_are_restored_before_the_look_up(
    stores: list[Store], postgres_proxy: FaultProxy, lost: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look-up can take a minute, in which the process may be killed."""
    with stores[0].open() as other:
        other.create_table("t", {"id": "BIGINT"})
    found, find = list[list[int]](), SqlCommit.find

    def look(self: SqlCommit, begun: int, *, answered: bool) -> int | None:
        with stores[0].open() as other:
            found.append(ids(other))
        return find(self, begun, answered=answered)

    monkeypatch.setattr(SqlCommit, "find", look)
    assert lost(lambda lake: lake.table("t").append(rows(1), idempotency_key="k")) == [1]
    assert found == [[1]]


@pytest.mark.slow
def test_kept_files_are_not_displaced_by_files_of_other_writers(
    stores: list[Store], lost: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stores[0].open() as other:
        table = other.create_table("t", {"id": "BIGINT"})
        for number in range(3):
            table.append(rows(number))
    # There is room for only one kept file.
    monkeypatch.setattr("lakeconf.commit.lost_reply._MOST_FILES", 1)
    monkeypatch.setattr("lakeconf.commit.lost_reply._LARGEST_BYTES", 1000)
    assert lost(lambda lake: lake.table("t").append(rows(3))) == [0, 1, 2, 3]


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [-86_400, 86_400])
def test_files_are_kept_if_the_clock_is_set_during_a_commit(
    seconds: int, stores: list[Store], lost: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stores[0].open() as other:
        other.create_table("t", {"id": "BIGINT"})
    begin, real = KeptFiles.__init__, time.time

    def begin_at_another_time(self: KeptFiles, connection: Connection) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda: real() - seconds)
            begin(self, connection)

    monkeypatch.setattr(KeptFiles, "__init__", begin_at_another_time)
    assert lost(lambda lake: lake.table("t").append(rows(1))) == [1]
