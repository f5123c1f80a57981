"""The catalog server fails at each possible point: the lake is unchanged, or has exactly one more snapshot."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import TYPE_CHECKING

import narwhals as nw
import pyarrow as pa
import pytest
from faulty_lake import ROWS, ids, local_files, make_store, refused, state

from lakeconf.errors import CommitError, ConnectionFailed, LakeconfError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from servers import FaultProxy, PostgresServer

    from lakeconf import Store

REFUSED = r"(?s)127\.0\.0\.1.*refused.*check `host` and `port`"
MORE = pa.table({"name": ["ten"], "id": pa.array([10], pa.int64())})


@pytest.fixture
def direct(direct: Store) -> Store:
    """The lake has a table of ten rows."""
    with direct.open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS)
    return direct


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


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("method", ["join", "filter", "with_columns", "select", "unique"])
def test_server_that_is_lost_while_a_write_builds_its_query_is_a_named_error(
    direct: Store, hurt: Store, postgres_proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """DuckDB reads the catalog whenever it binds a relation, outside of the statements that lakeconf runs."""
    build = getattr(nw.LazyFrame, method)

    def building(self: object, *arguments: object, **options: object) -> object:
        postgres_proxy.refuse()
        return build(self, *arguments, **options)

    writes = {
        "merge": lambda table: table.merge(MORE, on="id"),
        "update": lambda table: table.update({"id": nw.col("id") + 100}, where="id > 1"),
        "delete": lambda table: table.delete("id = 1"),
        "overwrite": lambda table: table.overwrite(MORE, where="id = 10"),
    }
    for write in writes.values():
        monkeypatch.setattr(nw.LazyFrame, method, building)
        with contextlib.suppress(ConnectionFailed), hurt.open() as lake:
            write(lake.table("t"))
        monkeypatch.undo()
        postgres_proxy.heal()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "expected", "match"),
    [
        ("refuse", ConnectionFailed, REFUSED),
        ("reset_on", CommitError, "(?s)nothing was written.*server closed.*try again"),
    ],
)
def test_server_that_is_lost_before_the_commit_is_applied_writes_nothing(
    direct: Store,
    hurt: Store,
    postgres_proxy: FaultProxy,
    postgres_server: PostgresServer,
    files: Callable[[], list[str]],
    fault: str,
    expected: type[LakeconfError],
    match: str,
) -> None:
    before = state(direct, files)
    with hurt.open() as lake:
        with refused(expected, match, postgres_server.password), lake.transaction() as write:
            write.table("t").append(MORE)
            getattr(postgres_proxy, fault)(*[b"COMMIT"] * (fault == "reset_on"))
        postgres_proxy.heal()
        after = state(direct, files)
        assert after._replace(files=before.files) == before
        # DuckLake's file, which was restored before the outcome was known.
        assert len(set(after.files) - set(before.files)) == (fault == "reset_on")
        lake.maintenance.cleanup(older_than=timedelta(0), force=True)
        assert state(direct, files) == before
        lake.table("t").append(MORE)
        assert ids(lake) == list(range(11))
