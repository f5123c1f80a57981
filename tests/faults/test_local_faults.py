"""Folders that cannot be written, a disk that is full: nothing is left of the write."""

from __future__ import annotations

import contextlib
import datetime as dt
import resource
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from faulty_lake import ROWS, ids, local_files, make_store, refused, state

from lakeconf.errors import CatalogError, ConnectionFailed, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from lakeconf import Store

MANY = pa.table({"id": pa.array(range(300_000), pa.int64()), "name": [f"{n * 7919:x}" for n in range(300_000)]})


@pytest.fixture(params=["sqlite", "duckdb"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """A store whose lake has a table of ten rows."""
    made = make_store(
        {"type": request.param, "uri": str(tmp_path / "catalog")}, {"type": "local", "path": str(tmp_path / "data")}
    )
    with made.open() as lake:
        lake.create_table("t", like=ROWS).append(ROWS)
        lake.create_table("other", like=ROWS)
    return made


@pytest.fixture
def files(tmp_path: Path) -> Callable[[], list[str]]:
    return lambda: local_files(tmp_path / "data")


@contextlib.contextmanager
def largest_file(size: int) -> Iterator[None]:
    """As on a disk that is full: no file can grow beyond so many bytes. It holds for root too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_the_disk_is_full_in_the_middle_of_a_file(store: Store, files: Callable[[], list[str]]) -> None:
    before = state(store, files)
    with store.open() as lake:
        with largest_file(500_000), refused(StorageError, r"(?s)main/t/.*\.parquet.*the disk is full: free space"):
            lake.table("t").append(MANY)
        assert (lake.refresh(), ids(lake)) == (before.snapshots[-1], before.rows)
        # DuckLake leaves the file that it could not finish, as a killed process does.
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert files() == ["_lakeconf.json", *before.files]
        lake.table("t").append(MANY)
    assert len(state(store, files).rows) == 300_010


def test_a_folder_that_cannot_be_written(store: Store, files: Callable[[], list[str]], tmp_path: Path) -> None:
    (tmp_path / "data/main/other").write_text("a file where the folder should be")
    before = state(store, files)
    with store.open() as lake, refused(StorageError, "(?s)main/other.*is a file, not a directory"):
        lake.table("other").append(ROWS)
    assert state(store, files) == before


def test_spark_and_a_folder_that_cannot_be_written(
    store: Store, files: Callable[[], list[str]], tmp_path: Path, spark: SparkSession
) -> None:
    (tmp_path / "data/main/other").write_text("a file where the folder should be")
    before = state(store, files)
    with store.open(spark) as lake, refused(StorageError, "(?s)main/other"):
        lake.table("other").append(ROWS)
    assert state(store, files) == before


def test_the_data_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    store = make_store(
        {"type": "sqlite", "uri": str(tmp_path / "catalog")}, {"type": "local", "path": str(tmp_path / "data")}
    )
    with refused(StorageError, "(?s)data is a file.*set `?path`? to the folder"):
        store.open()


def test_the_catalog_cannot_be_written(store: Store, files: Callable[[], list[str]], tmp_path: Path) -> None:
    before = state(store, files)
    expected, message = {
        "sqlite": (CatalogError, "(?s)catalog file or its folder cannot be written"),
        "duckdb": (StorageError, "(?s)catalog.wal.*the disk is full"),
    }[store.metadata_backend.type]
    with store.open() as lake, largest_file(100), refused(expected, message):
        lake.create_table("more", like=ROWS)
    # After such an error DuckDB keeps its file open until the process ends: another one would find this.
    (tmp_path / "found").mkdir()
    for path in tmp_path.glob("catalog*"):
        shutil.copy(path, tmp_path / "found")
    catalog = {"type": store.metadata_backend.type, "uri": str(tmp_path / "found/catalog")}
    found = make_store(catalog, {"type": "local", "path": str(tmp_path / "data")})
    assert state(found, files) == before


def test_the_folder_of_the_catalog_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "folder").write_text("")
    store = make_store(
        {"type": "sqlite", "uri": str(tmp_path / "folder/catalog")}, {"type": "local", "path": str(tmp_path / "data")}
    )
    with refused(StorageError, "(?s)folder.*cannot be created"):
        store.open()


def test_the_catalog_is_gone(store: Store, tmp_path: Path) -> None:
    with store.open() as lake:
        assert ids(lake) == list(range(10))
    (tmp_path / "catalog").unlink()
    read_only = make_store(
        {"type": store.metadata_backend.type, "uri": str(tmp_path / "catalog")},
        {"type": "local", "path": str(tmp_path / "data")},
    )
    read_only.attach_options["read_only"] = True
    with pytest.raises((CatalogError, ConnectionFailed), match="catalog"):
        read_only.open()
