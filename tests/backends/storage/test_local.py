"""Files on this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from lakeconf.backends.backend import StoreNames
from lakeconf.backends.storage.local import LocalStorage
from lakeconf.errors import StorageError


@pytest.mark.parametrize(
    ("path", "location"), [("/data", "/data/"), ("/data//", "/data/"), ("/", "/"), ("/a b'c", "/a b'c/")]
)
def test_location_ends_in_one_slash(path: str, location: str) -> None:
    assert LocalStorage(path=path).location == location


def test_folder_needs_no_secrets_extensions_settings_or_packages() -> None:
    storage = LocalStorage(path="/data")
    assert storage.on_this_machine
    assert [*storage.secrets(StoreNames("dev", "dev")), *storage.extensions, *storage.duckdb_settings] == []
    assert storage.hadoop_settings() == storage.spark_packages() == {}
    assert storage.secrets_held() == ()


@pytest.mark.parametrize("path", ["a\\b", "\\", "/data\\"])
def test_path_with_a_backslash_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match="must not contain a backslash: DuckLake takes it for a slash"):
        LocalStorage(path=path)


@pytest.mark.parametrize("path", ["", "a\nb"])
def test_path_is_a_text_in_one_line(path: str) -> None:
    with pytest.raises(ValidationError):
        LocalStorage(path=path)


def test_path_is_resolved_and_asked_for() -> None:
    assert LocalStorage.path_fields() == ("path",)
    assert LocalStorage.init_template().fields == {"path": ".lakeconf/data"}


def test_folder_and_its_parents_are_created(tmp_path: Path) -> None:
    storage = LocalStorage(path=str(tmp_path / "a" / "b"))
    for _ in range(2):
        storage.prepare(read_only=False)
        assert (tmp_path / "a" / "b").is_dir()


def test_reading_creates_nothing(tmp_path: Path) -> None:
    LocalStorage(path=str(tmp_path / "data")).prepare(read_only=True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("read_only", [True, False])
def test_file_in_place_of_the_folder_is_refused(tmp_path: Path, *, read_only: bool) -> None:
    path = tmp_path / "data"
    path.touch()
    with pytest.raises(StorageError) as raised:
        LocalStorage(path=str(path)).prepare(read_only=read_only)
    assert raised.value.message == f"the data path {path} is a file"
    assert raised.value.hint == "set path to the folder of the Parquet files"


def test_folder_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "data"
    with pytest.raises(StorageError) as raised:
        LocalStorage(path=str(path)).prepare(read_only=False)
    assert raised.value.message == f"the data path {path} cannot be created: Not a directory"
