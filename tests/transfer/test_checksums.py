"""A damaged copy of equal size is noticed by its checksum, and copied again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from local_stores import new_store
from whole_lakes import fill

from lakeconf.errors import StorageError
from lakeconf.transfer.checksums import told_checksums
from lakeconf.transfer.file_copies import sizes
from lakeconf.transfer.opened import opened_lake

if TYPE_CHECKING:
    from lakeconf import Store

STATEMENTS = ("CREATE TABLE t AS SELECT range AS id FROM range(100)", "INSERT INTO t SELECT range FROM range(200)")


def damage(store: Store, request: pytest.FixtureRequest) -> None:
    """Changes a byte of each data file of a store, in its place and size."""
    storage: Any = store.storage_backend
    if storage.type == "local":
        for path in Path(storage.path).rglob("*.parquet"):
            path.write_bytes(b"?" + path.read_bytes()[1:])
        return
    server = request.getfixturevalue("s3_server")
    for key in server.objects(storage.bucket):
        if key.endswith(".parquet"):
            content = server.client().get_object(Bucket=storage.bucket, Key=key)["Body"].read()
            server.client().put_object(Bucket=storage.bucket, Key=key, Body=b"?" + content[1:])


def ids(store: Store) -> list[Any]:
    with store.connect() as connection:
        return connection.sql("FROM t ORDER BY ALL").fetchall()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("local", "local"),
        pytest.param("local", "s3", marks=pytest.mark.slow),
        pytest.param("s3", "local", marks=pytest.mark.slow),
        pytest.param("s3", "s3", marks=pytest.mark.slow),
    ],
)
def test_damaged_copy_of_equal_size_is_copied_again(
    first: str, second: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    source = new_store(request, tmp_path, "laptop", "sqlite", first)
    target = new_store(request, tmp_path, "server", "sqlite", second)
    fill(source, STATEMENTS)

    def damaging(done: int, total: int) -> None:
        if done == total:
            damage(target, request)

    for _ in range(2):  # also the copy that replaces a damaged one
        with pytest.raises(StorageError, match="another size or checksum than"):
            source.move_to(target, progress=damaging)
    assert source.plan_move(target).copied_bytes == 0
    source.move_to(target)
    assert ids(target) == ids(source)


def test_a_store_that_tells_something_else_than_an_md5_is_read(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a bucket does that is encrypted with a key of its own."""
    source = new_store(request, tmp_path, "laptop", "sqlite", "local")
    target = new_store(request, tmp_path, "server", "sqlite", "local")
    fill(source, STATEMENTS)
    other = iter(range(1000))
    monkeypatch.setattr(
        "lakeconf.transfer.file_copies.local_checksums", lambda paths: {path: f"{next(other):032}" for path in paths}
    )
    source.move_to(target)
    assert ids(target) == ids(source)


@pytest.mark.slow
def test_what_a_bucket_tells_is_not_kept(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    source = new_store(request, tmp_path, "laptop", "sqlite", "s3")
    fill(source, STATEMENTS)
    storage: Any = source.storage_backend
    server = request.getfixturevalue("s3_server")
    paths = [f"s3://{storage.bucket}/{key}" for key in server.objects(storage.bucket) if key.endswith(".parquet")]
    with opened_lake(source) as (reader, _):
        connection = reader.connection
        with told_checksums(connection, paths) as told:
            sizes(connection, paths)
        assert told.keys() == set(paths)
        assert connection.rows("SELECT count(*) FROM duckdb_logs") == [(0,)]
        sizes(connection, paths)
        assert connection.rows("SELECT count(*) FROM duckdb_logs") == [(0,)]
