"""The catalog server fails at each possible point: the lake is unchanged, or has exactly one more snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from commit_hooks import at_commit
from faulty_lake import ROWS, State, ids, local_files, make_store, refused, state
from local_stores import on_postgres, store_of

from lakeconf.commit import committer
from lakeconf.errors import CommitError, CommitUnknownError, ConnectionFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession
    from servers import FaultProxy, PostgresServer

    from lakeconf import Store

REFUSED = r"(?s)127\.0\.0\.1.*refused.*check `host` and `port`"
MORE = pa.table({"name": ["ten"], "id": pa.array([10], pa.int64())})


@pytest.fixture
def make(postgres_server: PostgresServer, tmp_path: Path) -> Callable[[int], Store]:
    """Creates a store that connects to the catalog through a given port; the lake has a table of ten rows."""
    database = postgres_server.create_database()

    def made(port: int) -> Store:
        return store_of(tmp_path, on_postgres(postgres_server, database, port))

    with made(postgres_server.port).open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS)
    return made


@pytest.fixture
def direct(make: Callable[[int], Store], postgres_server: PostgresServer) -> Store:
    return make(postgres_server.port)


@pytest.fixture
def hurt(make: Callable[[int], Store], postgres_proxy: FaultProxy) -> Store:
    """The store through the proxy."""
    return make(postgres_proxy.port)


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], list[str]]:
    return lambda: local_files(tmp_path)


def test_open_while_the_server_is_down(
    hurt: Store, postgres_proxy: FaultProxy, postgres_server: PostgresServer
) -> None:
    postgres_proxy.refuse()
    with refused(ConnectionFailed, REFUSED, postgres_server.password):
        hurt.open()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"password": "not-this-one"}, r"(?s)authentication failed for user.*check `user` and `password`"),
        ({"user": "nobody_here"}, r"(?s)authentication failed for user \"nobody_here\".*check `user`"),
        ({"database": "not_there"}, r"(?s)\"not_there\" does not exist.*create the database"),
    ],
)
def test_error_reports_wrong_credentials_or_a_missing_database(
    postgres_server: PostgresServer, tmp_path: Path, wrong: dict[str, str], message: str
) -> None:
    right = {"database": "postgres", "user": postgres_server.user, "password": postgres_server.password}
    place = {"type": "postgres", "host": postgres_server.host, "port": postgres_server.port}
    store = make_store(place | right | wrong, {"type": "local", "path": str(tmp_path)})
    with refused(ConnectionFailed, message, postgres_server.password, "not-this-one"):
        store.open()


def test_read_and_write_while_the_server_is_down(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    files: Callable[[], list[str]],
) -> None:
    before = state(direct, files)
    with hurt.open() as lake:
        table = lake.table("t")
        postgres_proxy.refuse()
        for action in (lake.tables, table.scan, lambda: table.schema, lambda: table.append(ROWS)):
            with refused(ConnectionFailed, REFUSED, postgres_server.password):
                action()
        postgres_proxy.heal()
        assert state(direct, files) == before
        with lake.transaction() as write:
            write.table("t").append(MORE)
            postgres_proxy.drop_connections()
        assert ids(lake) == list(range(11)), "the same lake goes on when the server is back"


def test_server_goes_down_before_the_commit(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    files: Callable[[], list[str]],
) -> None:
    before = state(direct, files)
    with hurt.open() as lake:
        with refused(ConnectionFailed, REFUSED, postgres_server.password), lake.transaction() as write:
            write.table("t").append(MORE)
            postgres_proxy.refuse()
        postgres_proxy.heal()
        assert state(direct, files) == before


def test_reset_before_the_commit_is_applied_writes_nothing(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    files: Callable[[], list[str]],
) -> None:
    before = state(direct, files)
    with hurt.open() as lake:
        with (
            refused(CommitError, "(?s)nothing was written.*server closed.*try again", postgres_server.password),
            lake.transaction() as write,
        ):
            write.table("t").append(MORE)
            postgres_proxy.reset_on(b"COMMIT")
        assert postgres_proxy.fired == 1
        assert state(direct, files) == before
        lake.table("t").append(MORE)
        assert ids(lake) == list(range(11))


def test_commit_without_files_and_with_a_lost_reply_is_found(
    direct: Store, hurt: Store, postgres_proxy: FaultProxy, files: Callable[[], list[str]]
) -> None:
    before = state(direct, files)
    with hurt.open() as lake:
        with lake.transaction() as write:
            write.create_table("other", like=ROWS)
            postgres_proxy.reset_on(b"COMMIT", forward=True)
        assert postgres_proxy.fired == 1
        assert lake.snapshot_id == before.snapshots[-1] + 1
        assert lake.tables() == ["main.other", "main.t"]
    assert state(direct, files) == before._replace(snapshots=[*before.snapshots, lake.snapshot_id])


def test_commit_from_spark_with_a_lost_reply_is_found(
    direct: Store, hurt: Store, postgres_proxy: FaultProxy, files: Callable[[], list[str]], spark: SparkSession
) -> None:
    before = state(direct, files)
    with hurt.open(spark) as lake:
        with lake.transaction() as write:
            write.table("t").append(MORE)
            postgres_proxy.reset_on(b"COMMIT", forward=True)
        assert postgres_proxy.fired == 1
        assert ids(lake) == list(range(11))
    after = state(direct, files)
    assert (after.snapshots, after.rows) == ([*before.snapshots, before.snapshots[-1] + 1], list(range(11)))
    assert len(after.files) == len(before.files) + 1


@pytest.mark.usefixtures("searching")
def test_delete_from_spark_with_a_lost_reply_is_found(
    direct: Store, hurt: Store, postgres_proxy: FaultProxy, files: Callable[[], list[str]], spark: SparkSession
) -> None:
    """DuckLake removes the delete file that DuckDB wrote, and lakeconf restores it."""
    before = state(direct, files)
    with hurt.open(spark) as lake:
        with lake.transaction() as write:
            write.table("t").delete("id > 3 AND id < 5")
            postgres_proxy.reset_on(b"COMMIT", forward=True)
        assert postgres_proxy.fired == 1
    after = state(direct, files)
    assert (after.snapshots, after.rows) == (
        [*before.snapshots, before.snapshots[-1] + 1],
        [number for number in before.rows if number != 4],
    )


def test_commit_whose_files_ducklake_removed_is_an_error(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    files: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Keep no copies of files, as for a commit with more files than the limit.
    monkeypatch.setattr("lakeconf.commit.recovery._MOST_FILES", 0)
    before = state(direct, files)
    with hurt.open() as lake:
        last = lake.snapshot_id
        removed = rf"(?s)snapshot {last + 1} was committed.*removed .*main/t/ducklake-.*main\.t cannot be read"
        with refused(CommitError, removed, postgres_server.password), lake.transaction() as write:
            write.table("t").append(MORE)
            postgres_proxy.reset_on(b"COMMIT", forward=True)
    with direct.open() as lake:
        assert lake.snapshot_id == last + 1
        found = [path for path in files() if not path.endswith("_lakeconf.json")]
        assert State(before.snapshots, ids(lake.at(version=last)), found) == before


def lose_commit_and_server(proxy: FaultProxy) -> None:
    proxy.reset_on(b"COMMIT")
    proxy.reset_on(b"user\0", times=1000)  # every new connection sends this first


def test_error_for_an_unknown_commit_outcome_contains_the_token(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    files: Callable[[], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(committer, "LOOK_UP_SECONDS", 0.5)
    before = state(direct, files)
    with hurt.open() as lake:
        unknown = r"(?s)reply to a commit was lost, and the catalog does not answer.*look for the token [0-9a-f]{32}"
        with refused(CommitUnknownError, unknown, postgres_server.password), lake.transaction() as write:
            write.table("t").append(MORE)
            at_commit(monkeypatch, before=lambda: lose_commit_and_server(postgres_proxy))
        postgres_proxy.heal()
    after = state(direct, files)
    # The commit may have succeeded, so its file is kept; `lakeconf maintain` removes it later.
    assert (after.snapshots, after.rows) == (before.snapshots, before.rows)
    assert len(after.files) == len(before.files) + 1
    assert set(before.files) < set(after.files)
