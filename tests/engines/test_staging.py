"""The manifest of a staging folder names its writer and its lake."""

from __future__ import annotations

import datetime as dt
import os
import socket
from typing import TYPE_CHECKING

import pytest

from lakeconf.catalog.tables import TableInfo
from lakeconf.connection.connection import connect
from lakeconf.engines.engine import announce, is_announced, is_manifest_of, is_staged, placed_path, staging_folder
from lakeconf.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from lakeconf.connection.connection import Connection

LAKE = "it's a lake"


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect() as connection:
        yield connection


def test_staged_files_have_names_of_their_own() -> None:
    table = TableInfo(1, "s", "t", (), "/lake/a=b/t/")
    folder = staging_folder(table, "0a1b")
    placed = placed_path(table, "day=2024-01-01/kind=/", "0a1b", 7)
    assert all(is_staged(table, path) for path in (placed, f"{folder}part-0.parquet", f"{folder}k=1/part-0.parquet"))
    others = ["part-0.parquet", "x/lakeconf-0a1b/a.parquet", "lakeconf-0a1b.parquet", "lakeconf-xyz/a.parquet"]
    others += ["lakeconf-0a1b-7.parquet", "p=1/x/lakeconf-0a1b-7.parquet", "lakeconf-0a1b/a.parquet.crc"]
    assert not any(is_staged(table, f"{table.path}{other}") for other in others)
    assert not is_staged(table, placed.replace("/t/", "/u/"))


def test_manifest_announces_the_files_of_its_write() -> None:
    table, manifests = (
        TableInfo(1, "s", "t", (), "s3://bucket/lake/s/t/"),
        ["s3://bucket/lake/s/t/lakeconf-0a1b.parquet"],
    )
    placed = placed_path(table, "day=2024-01-01/kind=/", "0a1b", 7)
    assert placed == "s3://bucket/lake/s/t/day=2024-01-01/kind=/lakeconf-0a1b-7.parquet"
    folder = staging_folder(table, "0a1b")
    announced = [placed, *manifests, f"{folder}part-0.parquet", f"{folder}__lakeconf_group_0=1/part-0.parquet"]
    assert all(is_announced(path, manifests) for path in announced)
    assert not any(is_announced(path, []) for path in announced)
    assert not any(is_announced(path, ["s3://bucket/lake/s/other/lakeconf-0a1b.parquet"]) for path in announced)
    for path in (
        *("day=1/lakeconf-0a1-7.parquet", "day=1/lakeconf-0a1bc-7.parquet", "day=1/lakeconf-0a1b-x.parquet"),
        *("day=1/lakeconf-0a1b.parquet", "day=1/x/lakeconf-0a1b-7.parquet", "lakeconf-0a1b-7.parquet"),
        *("lakeconf-0a1bc/part-0.parquet", "day=1/ducklake-0a1b-7.parquet"),
    ):
        assert not is_announced(f"{table.path}{path}", manifests), path


def test_manifest_names_the_process_and_the_lake(connection: Connection, tmp_path: Path) -> None:
    folder = tmp_path / "o'ne" / "t" / "lakeconf-0a1b"
    announce(connection, f"{folder}/", LAKE)
    assert list(tmp_path.rglob("*.*")) == [folder.with_suffix(".parquet")]
    connection.execute("SET TimeZone = 'UTC'")
    query = "SELECT host, pid, CAST(CAST(started_at AS TIMESTAMP) AS VARCHAR), lake FROM read_parquet(?)"
    ((host, pid, started, lake),) = connection.rows(query, [f"{folder}.parquet"])
    assert (host, pid, lake) == (socket.gethostname(), os.getpid(), LAKE)
    age = dt.datetime.now(dt.UTC) - dt.datetime.fromisoformat(started).replace(tzinfo=dt.UTC)
    assert abs(age) < dt.timedelta(minutes=5)


def test_folder_that_cannot_be_created_is_named(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as refused:
        announce(connection, f"{tmp_path}/file/t/lakeconf-0a1b/", LAKE)
    assert refused.value.message == f"the folder {tmp_path}/file/t cannot be created: Not a directory"


def test_object_storage_has_no_folders_to_create(
    connection: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError):
        announce(connection, "unknown://bucket/t/lakeconf-0a1b/", LAKE)
    assert list(tmp_path.iterdir()) == []


def test_manifest_belongs_to_one_lake(connection: Connection, tmp_path: Path) -> None:
    announce(connection, f"{tmp_path}/lakeconf-0a1b/", LAKE)
    path = f"{tmp_path}/lakeconf-0a1b.parquet"
    assert is_manifest_of(connection, path, LAKE)
    assert not is_manifest_of(connection, path, LAKE.upper())
    assert not is_manifest_of(connection, path, "")


def test_other_files_are_no_manifests(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "damaged.parquet").write_text("damaged")
    connection.execute(f"COPY (SELECT 1 AS id) TO '{tmp_path}/data.parquet'")
    connection.execute(f"COPY (FROM (VALUES ('x'), ('x')) AS v (lake)) TO '{tmp_path}/two.parquet'")
    connection.execute(f"COPY (SELECT 'x' AS lake LIMIT 0) TO '{tmp_path}/empty.parquet'")
    for name in ("missing", "damaged", "data", "two", "empty"):
        assert not is_manifest_of(connection, f"{tmp_path}/{name}.parquet", "x"), name
