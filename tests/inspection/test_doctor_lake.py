"""`lakeconf doctor`: missing and unknown files, servers that cannot be reached, and its probe."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from diagnosis import diagnosed, local
from local_stores import in_bucket

import lakeconf
from lakeconf.connection.connection import Connection, connect, load_extension, remove_files
from lakeconf.errors import LakeconfError
from lakeconf.inspection.doctor_lake import make_folders, read_and_remove
from lakeconf.sql import literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from servers import S3Server


@pytest.mark.parametrize("where", ["local", "s3"])
def test_missing_and_unknown_files(where: str, tmp_path: Path, s3_server: S3Server) -> None:
    # DuckDB reads brackets in a path as a glob pattern.
    config = local(tmp_path / "a[b]")
    if where == "s3":
        config["storage_backend"] = in_bucket(s3_server)
    store = lakeconf.init({"stores": {"dev": config}}).get_store("dev")
    with store.open() as lake:
        table = lake.create_table("raw.events", like={"day": "DATE", "id": "BIGINT"}, partitioned_by=["day"])
        rows = store.connect().sql("SELECT DATE '2024-01-01' + (range % 2)::INTEGER AS day, range AS id FROM range(9)")
        table.append(rows.to_arrow_table())
        table.delete("id = 3")
        lake.create_table("raw.dropped", rows.to_arrow_table())
        lake._session.writer.execute("DROP TABLE dev.raw.dropped")
        needed = table.files()[0].path
        connection, root = lake._session.writer, lake._session.reader.data_path
        found = diagnosed(config)["files"]
        assert (found.status, found.found.endswith(", and no others")) == ("ok", True), found
        unknown = f"{root}raw/stray.parquet"
        connection.execute(f"COPY (SELECT 1 AS a) TO '{unknown}' (FORMAT parquet)")
        found = diagnosed(config)["files"]
        assert (found.status, found.found) == ("warning", f"the catalog does not know 1 file ({unknown})")
        remove_files(connection, [needed])
    found = diagnosed(config)["files"]
    assert (found.status, found.found) == ("failed", f"snapshots need 1 file ({needed}), missing below {root}")


def test_unreachable_server(tmp_path: Path) -> None:
    for host, message in (
        ("127.0.0.1", "PostgreSQL at 127.0.0.1:1 refused the connection"),
        ("127.0.0.1,::1", "PostgreSQL at 127.0.0.1:1, ::1:1 "),
        ("nowhere.invalid", "the host nowhere.invalid of PostgreSQL cannot be resolved: "),
        ("/nowhere", "PostgreSQL at /nowhere/.s.PGSQL.1 cannot be used: No such file or directory"),
    ):
        access = {"host": host, "port": 1, "database": "lake", "user": "u", "password": "planted-1"}
        found = diagnosed(local(tmp_path) | {"metadata_backend": {"type": "postgres", **access}})["catalog"]
        assert (found.status, found.found.startswith(message)) == ("failed", True), found.found
        assert found.hint == "check that the server is running, and check `host` and `port` of the metadata backend"


def test_statistics_that_hide_rows_from_duckdb(tmp_path: Path) -> None:
    config = local(tmp_path)
    store = lakeconf.init({"stores": {"dev": config}}).get_store("dev")
    with store.open() as lake:
        lake.create_table('raw."a.b"', {"s": "VARCHAR"}).append(lake.sql("SELECT 'zz' AS s"))
    assert diagnosed(config)["statistics"].found == "the bounds of all columns cover their files"
    with contextlib.closing(sqlite3.connect(config["metadata_backend"]["uri"])) as catalog, catalog:
        for table in ("ducklake_file_column_stats", "ducklake_table_column_stats"):
            catalog.execute(f"UPDATE {table} SET min_value = NULL, max_value = NULL")
    found = diagnosed(config)["statistics"]
    assert found.status == "warning"
    assert 'columns of raw."a.b" (s)' in found.found
    assert found.hint is not None
    # The fix as the hint says it.
    with store.open() as lake:
        exec(found.hint.partition(": ")[2], {"lake": lake})  # noqa: S102
    assert diagnosed(config)["statistics"].status == "ok"


@pytest.fixture
def connection() -> Iterator[Connection]:
    with connect() as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path, connection: Connection) -> str:
    """A folder with a probe and another file; its name is a pattern for DuckDB."""
    made = tmp_path / "it's [a]"
    made.mkdir()
    connection.execute(f"COPY (SELECT 42 AS probe) TO {literal(f'{made}/probe.parquet')} (FORMAT parquet)")
    (made / "other.parquet").write_text("mine")
    return f"{made}/"


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_only_the_probe_is_removed(scheme: str, folder: str, connection: Connection) -> None:
    load_extension(connection, "ducklake")
    read_and_remove(connection, f"{scheme}{folder}probe.parquet")
    assert [path.name for path in Path(folder).iterdir()] == ["other.parquet"]


def test_probe_that_cannot_be_read_is_reported(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "probe.parquet").write_text("not Parquet")
    with pytest.raises(LakeconfError) as failed:
        read_and_remove(connection, f"{tmp_path}/probe.parquet")
    start = f"{tmp_path}/probe.parquet was written, but could not be read and removed: "
    assert failed.value.message.startswith(start)
    assert len(failed.value.message) > len(start)
    assert str(failed.value.hint).startswith("remove it; ")
    assert (tmp_path / "probe.parquet").exists()


def test_missing_folders_are_created_and_listed_from_the_top(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    wanted = tmp_path / "a" / "b" / "c"
    assert make_folders(wanted) == [tmp_path / "a" / "b", wanted]
    assert wanted.is_dir()
    assert make_folders(tmp_path / "d") == [tmp_path / "d"]
