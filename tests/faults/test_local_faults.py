"""Unwritable folders and full disks: a failed write leaves no changes."""

from __future__ import annotations

import contextlib
import datetime as dt
import resource
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
from faulty_lake import MANY, ROWS, ids, local_files, make_store, refused, state

from lakeconf.errors import CatalogError, ConnectionFailed, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from lakeconf import Store


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
    """Simulates a full disk, also for root: no file can grow beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python would save the first `size` bytes of the byte code of a module, and a later process could not import it.
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = before


@pytest.mark.slow
def test_disk_full_while_writing_a_data_file(store: Store, files: Callable[[], list[str]]) -> None:
    before = state(store, files)
    with store.open() as lake:
        with largest_file(500_000), refused(StorageError, r"(?s)main/t/.*\.parquet.*free space and try again"):
            lake.table("t").append(MANY)
        assert (lake.refresh(), ids(lake)) == (before.snapshots[-1], before.rows)
        # DuckLake leaves the incomplete file behind, as a killed process would.
        lake.maintenance.cleanup(older_than=dt.timedelta(0), force=True)
        assert files() == ["_lakeconf.json", *before.files]
        lake.table("t").append(MANY)
    assert len(state(store, files).rows) == 300_010


@pytest.mark.prove("duckdb-on_spark")
@pytest.mark.slow
def test_append_to_an_unwritable_folder(
    store: Store, files: Callable[[], list[str]], tmp_path: Path, engine: Any
) -> None:
    (tmp_path / "data/main/other").write_text("a file where the folder should be")
    before = state(store, files)
    message = "(?s)main/other" + ("" if engine else ".*is a file, not a directory")
    with store.open(engine) as lake, refused(StorageError, message):
        lake.table("other").append(ROWS)
    assert state(store, files) == before


@pytest.mark.parametrize(
    ("name", "message"),
    [("data", "(?s)data is a file.*set `?path`? to the folder"), ("folder", "(?s)folder.*cannot be created")],
)
def test_open_with_a_file_in_place_of_a_folder(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / name).write_text("")
    catalog = {"type": "sqlite", "uri": str(tmp_path / "folder/catalog")}
    with refused(StorageError, message):
        make_store(catalog, {"type": "local", "path": str(tmp_path / "data")}).open()


@pytest.mark.slow
def test_disk_full_while_writing_the_catalog(store: Store, files: Callable[[], list[str]], tmp_path: Path) -> None:
    before = state(store, files)
    expected, message = {
        "sqlite": (CatalogError, "(?s)catalog file or its folder cannot be written"),
        "duckdb": (StorageError, "(?s)catalog.wal.*the disk is full"),
    }[store.metadata_backend.type]
    with store.open() as lake, largest_file(100), refused(expected, message):
        lake.create_table("more", like=ROWS)
    # After such an error DuckDB keeps its file open in this process; the copy is what another process would read.
    (tmp_path / "found").mkdir()
    for path in tmp_path.glob("catalog*"):
        shutil.copy(path, tmp_path / "found")
    catalog = {"type": store.metadata_backend.type, "uri": str(tmp_path / "found/catalog")}
    found = make_store(catalog, {"type": "local", "path": str(tmp_path / "data")})
    assert state(found, files) == before


def test_open_read_only_with_a_deleted_catalog(store: Store, tmp_path: Path) -> None:
    with store.open() as lake:
        assert ids(lake) == list(range(10))
    (tmp_path / "catalog").unlink()
    read_only = make_store(
        {"type": store.metadata_backend.type, "uri": str(tmp_path / "catalog")},
        {"type": "local", "path": str(tmp_path / "data")},
    )
    read_only = read_only.replace(attach_options={"read_only": True})
    with pytest.raises((CatalogError, ConnectionFailed), match="catalog"):
        read_only.open()
