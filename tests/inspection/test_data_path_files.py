"""The files below a data path, compared with those of the catalog. test_doctor_lake.py examines a bucket."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import lakeconf
from lakeconf.catalog.reader import CatalogReader
from lakeconf.inspection import catalog_files as module
from lakeconf.inspection.catalog_files import data_path_files

ROWS = pa.table({"id": [1, 2, 3]})


def test_missing_and_unknown_files_are_found(project: Path) -> None:
    with lakeconf.init(project).get_store("dev").open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.append(ROWS)
        reader, folder = lake._session.reader, Path(lake._session.reader.data_path)
        paths = [file.path for file in table.files()]
        found = data_path_files(reader)
        assert (found.needed, found.missing, found.unknown) == (frozenset(paths), (), ())
        stranger = folder / "raw" / "<b>.parquet"
        stranger.write_bytes(b"")
        (folder / "raw" / "notes.txt").write_text("")
        Path(paths[0]).unlink()
        found = data_path_files(reader)
        assert (found.missing, found.unknown) == ((paths[0],), (str(stranger),))


def test_file_that_is_committed_meanwhile_is_known(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalog is read before and after the listing."""
    with lakeconf.init(project).get_store("dev").open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.append(ROWS)
        known = module._known

        def committed_afterwards(reader: CatalogReader) -> tuple[dict[str, int | None], frozenset[str]]:
            before = known(reader)
            if len(before[0]) == 1:
                table.append(ROWS)
            return before

        monkeypatch.setattr(module, "_known", committed_afterwards)
        assert data_path_files(lake._session.reader).unknown == ()
        assert len(table.files()) == 2


def test_file_that_waits_for_its_removal_is_known(project: Path) -> None:
    with lakeconf.init(project).get_store("dev").open() as lake:
        table = lake.create_table("raw.t", ROWS)
        table.append(ROWS)
        table.append(ROWS)
        lake.maintenance.compact()
        assert len(table.files()) == 1
        assert len(list(Path(lake._session.reader.data_path).rglob("*.parquet"))) > 1
        assert data_path_files(lake._session.reader).unknown == ()
