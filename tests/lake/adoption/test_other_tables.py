"""`Lake.adopt` takes no files of a table, or of another lake, for a plain folder: some of their rows are dead."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest
from local_stores import config_of, in_bucket
from refused_adoptions import refused, rows

import lakeconf
from lakeconf.errors import UnsupportedError

if TYPE_CHECKING:
    from servers import S3Server

    from lakeconf import Lake, Store

# What is in the folder `t`, beside `data/p=1/a.parquet`, and the words of the refusal.
MARKS = {
    "_delta_log/0.json": "a Delta table",
    "metadata/v1.metadata.json": "an Iceberg table",
    ".hoodie/hoodie.properties": "a Hudi table",
    "_spark_metadata/0": "the output of a stream of Spark",
    "_lakeconf.json": "another lake",
}
FILE = "up/t/data/p=1/a.parquet"
# The adopted folders, relative to that of all files: in the table, and above it.
SOURCES = ("up/t/data/p=1", "up/t/data", "up", "")


@pytest.fixture
def content(tmp_path: Path) -> bytes:
    """The content of a Parquet file."""
    path = tmp_path / "a.parquet"
    duckdb.sql(f"COPY (SELECT 1 AS id) TO '{path}' (FORMAT parquet)")
    return path.read_bytes()


def check_refused(lake: Lake, base: str, words: str) -> None:
    for source in SOURCES:
        with refused(lake, UnsupportedError, words):
            lake.adopt(f"{base}/{source}", "raw.t")


@pytest.mark.parametrize("mark", MARKS)
def test_files_of_a_table_or_of_a_lake_are_refused(store: Store, tmp_path: Path, content: bytes, mark: str) -> None:
    for name in (FILE, f"up/t/{mark}"):
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with store.open() as lake:
        check_refused(lake, str(tmp_path / "src"), MARKS[mark])
        (tmp_path / "src" / "up" / "t" / mark).rename(tmp_path / "elsewhere")
        for folder in (tmp_path / "src" / "up" / "t" / mark).parents:
            if folder.name not in ("t", "up") and not any(folder.iterdir()):
                folder.rmdir()
        lake.adopt(str(tmp_path / "src"), "raw.t")
        assert rows(lake, "FROM raw.t") == [(1, 1)]


def test_files_of_a_real_lake_are_refused(store: Store, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with lakeconf.init(config_of(tmp_path / "other")).get_store("dev").open() as lake:
        lake.create_table("s.t", {"id": "BIGINT"}).append([{"id": number} for number in range(50)])
        lake.maintenance.flush()
        (file,) = lake.table("s.t").files()
    with store.open() as lake:
        for source in (Path(file.path).parent, Path(file.path).parents[1], tmp_path / "other" / "data"):
            with refused(lake, UnsupportedError, "another lake"):
                lake.adopt(str(source), "raw.t")


@pytest.mark.parametrize("mark", ["metadata", "metadata/notes.json", "p=1/_metadata", "_tmp/_delta_log/0.json"])
def test_other_names_are_no_marks(store: Store, tmp_path: Path, content: bytes, mark: str) -> None:
    file = tmp_path / "src" / "data" / "p=1" / "a.parquet"
    for path in (file, tmp_path / "src" / mark if mark.startswith("metadata") else file.parents[1] / mark):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    with store.open() as lake:
        lake.adopt(str(tmp_path / "src" / "data"), "raw.t")
        assert rows(lake, "SELECT count(*) FROM raw.t") == [(1,)]


@pytest.mark.slow
def test_files_of_a_table_in_a_bucket_are_refused(tmp_path: Path, content: bytes, s3_server: S3Server) -> None:
    storage = in_bucket(s3_server)
    bucket, client = storage["bucket"], s3_server.client()
    with lakeconf.init(config_of(tmp_path, storage=storage)).get_store("dev").open() as lake:
        for number, mark in enumerate(MARKS):
            base = f"{number}"
            for name in (FILE, f"up/t/{mark}"):
                client.put_object(Bucket=bucket, Key=f"{base}/{name}", Body=content)
            check_refused(lake, f"s3://{bucket}/{base}", MARKS[mark])
            client.delete_object(Bucket=bucket, Key=f"{base}/up/t/{mark}")
            lake.adopt(f"s3://{bucket}/{base}", f"raw.t{number}")
            assert rows(lake, f"FROM raw.t{number}") == [(1, 1)]
