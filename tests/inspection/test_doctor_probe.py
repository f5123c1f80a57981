"""The probe of `lakeconf doctor`: its file is read and removed, and its folders are known."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lakeconf.connection.connection import Connection, connect, load_extension
from lakeconf.errors import LakeconfError
from lakeconf.inspection.doctor_lake import make_folders, read_and_remove
from lakeconf.sql import literal

if TYPE_CHECKING:
    from collections.abc import Iterator


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


def test_folder_that_cannot_be_created_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LakeconfError) as failed:
        make_folders(tmp_path / "file" / "below")
    assert failed.value.message == f"the folder {tmp_path / 'file'} cannot be written: Not a directory"
    assert failed.value.hint == "check its owner and its permissions"
