"""Places as text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lakeconf.config.model import init
from lakeconf.pipelines.places import dotted_key, key_place, shown_place

if TYPE_CHECKING:
    import pytest

KEY = ("pipeline", "models", "raw.t", "files")


def test_place_is_relative_to_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert shown_place(tmp_path / "a.sql", 2, 3) == "a.sql:2:3"
    assert shown_place(tmp_path / "a.sql") == "a.sql"
    assert shown_place(Path("/elsewhere/a.sql"), 1, 1) == "/elsewhere/a.sql:1:1"
    assert shown_place(None, 2, 3) == "the SQL, line 2, column 3"
    assert shown_place(None) == ""


def test_place_of_a_key_is_in_its_file(project: Path) -> None:
    file = project / "lakeconf.toml"
    file.write_text(file.read_text().rstrip() + '\n[pipeline.models."raw.t"]\nkind = "append"\n files = "x.csv"\n')
    line = len(file.read_text().splitlines())
    assert key_place(init(), KEY) == f"lakeconf.toml:{line}:2"
    assert dotted_key(init(), KEY) == 'pipeline.models."raw.t".files'


def test_configuration_without_a_file_has_the_key_as_place() -> None:
    stores = {"dev": {"metadata_backend": {"type": "sqlite", "uri": "c.sqlite"}}}
    assert key_place(init({"stores": stores}), KEY) == 'pipeline.models."raw.t".files'
